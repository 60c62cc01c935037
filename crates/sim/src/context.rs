//! The state that all parts of a run share: the time, the network, the event queue, the checker, the trace.

use std::collections::BTreeMap;
use std::fmt;

use zebu_proto::quorum::Packet;

use crate::check::Checker;
use crate::coverage::{CoveredPath, PathCounts};
use crate::network::{Host, Network};
use crate::plan::{PacketEnd, ProtocolStep};
use crate::queue::{EventQueue, MS, SimEvent, VirtualTime};
use crate::random::{DrawPurpose, SimRandom};
use crate::run_parameters::RunParameters;

/// The shared part of a run.
pub(crate) struct SimContext {
    pub(crate) now: VirtualTime,
    pub(crate) queue: EventQueue,
    pub(crate) network: Network,
    pub(crate) checker: Checker,
    pub(crate) parameters: RunParameters,
    /// For all random choices of the disks.
    pub(crate) disk_random: SimRandom,
    /// For snapshots on their way to learners.
    pub(crate) stream_random: SimRandom,
    pub(crate) trace: Trace,
    pub(crate) counts: RunCounts,
    /// Corrupts bytes in transit: then the only guarantee is that no server panics.
    pub(crate) garble: Option<SimRandom>,
    /// Breakpoints that wait for a protocol step, and those that were reached: the server and the fault.
    pub(crate) breakpoints: Vec<Breakpoint>,
    pub(crate) hit: Vec<(usize, usize)>,
    /// Servers on whose disk a bit changes before the next truncation, and the choice of the bit.
    pub(crate) truncate_rot: BTreeMap<usize, u64>,
    hash: u64,
    /// When the last notification arrives, per directed path.
    notified: Vec<VirtualTime>,
}

/// A protocol step at which a server stops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Breakpoint {
    pub(crate) on: ProtocolStep,
    pub(crate) when: PacketEnd,
    pub(crate) skip: u64,
    /// The index of the fault in the plan.
    pub(crate) index: usize,
}

/// Counters of a run.
#[derive(Clone, Debug, Default)]
pub struct RunCounts {
    /// Events of the queue.
    pub events: u64,
    /// Starts of servers, the first ones included.
    pub starts: u64,
    /// Elections that ended with a leader that serves.
    pub leaders: u64,
    /// Paths that only some runs take.
    pub paths: PathCounts,
    /// Configs that were committed.
    pub configs: u64,
    /// Configs that took effect, once for each server.
    pub activations: u64,
    /// Runs whose ensemble could not be healed: too few servers had intact disks.
    pub unhealed: u64,
    /// Starts that were refused because the disk is damaged.
    pub refused_starts: u64,
}

/// The lines of the trace, kept only on request.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn kept() -> Trace {
        Trace { lines: Some(Vec::new()) }
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}

impl SimContext {
    pub(crate) fn new(shape: RunParameters, network: Network, checker: Checker, trace: Trace) -> SimContext {
        let disk_random = SimRandom::new(shape.seed, DrawPurpose::Disks);
        let stream_random = SimRandom::new(shape.seed, DrawPurpose::SnapshotStreams);
        let hosts = shape.servers();
        SimContext {
            now: 0,
            queue: EventQueue::default(),
            network,
            checker,
            parameters: shape,
            disk_random,
            stream_random,
            trace,
            counts: RunCounts::default(),
            garble: None,
            breakpoints: Vec::new(),
            hit: Vec::new(),
            truncate_rot: BTreeMap::new(),
            hash: 0,
            notified: vec![0; hosts * hosts],
        }
    }

    /// Counts a path that only some runs take.
    pub(crate) fn count(&mut self, path: CoveredPath) {
        self.counts.paths.add(path);
    }

    /// Writes a trace line. The text is formatted only if the trace is kept.
    pub(crate) fn trace_line(&mut self, text: fmt::Arguments<'_>) {
        if let Some(lines) = &mut self.trace.lines {
            lines.push(format!("{:>9}.{:03} {text}", self.now / MS, self.now % MS));
        }
    }

    /// When a host that goes on at this moment takes what came meanwhile from one source: a connection or its
    /// timer.
    pub(crate) fn taken_up(&self, goes_on_at: VirtualTime, source: u64) -> VirtualTime {
        match self.parameters.resume_spread {
            0 => goes_on_at,
            spread => {
                goes_on_at
                    + SimRandom::new(
                        self.parameters.seed ^ goes_on_at ^ source << 40,
                        DrawPurpose::ResumeOrder,
                    )
                    .below(spread)
            }
        }
    }

    /// Changes a byte of some messages, if that is what the run is about.
    pub(crate) fn garble(&mut self, bytes: &mut [u8]) {
        const PERMILLE: u64 = 30;
        if let Some(random) = &mut self.garble
            && !bytes.is_empty()
            && random.permille(PERMILLE)
        {
            let at = random.index(bytes.len());
            // Small values change the meaning most: the last bytes of numbers, counts and codes.
            let to = if random.permille(500) { random.draw() as u8 } else { bytes[at].wrapping_add(1) };
            bytes[at] = to;
        }
    }

    /// A server sends or receives a packet, which may reach a breakpoint.
    pub(crate) fn step_made(&mut self, server: usize, packet: &Packet, when: PacketEnd) {
        if self.breakpoints.is_empty() {
            return;
        }
        if let Some(step) = ProtocolStep::of(packet) {
            self.step_reached(server, step, when);
        }
    }

    /// A server reaches a step, which may have a breakpoint.
    pub(crate) fn step_reached(&mut self, server: usize, step: ProtocolStep, when: PacketEnd) {
        let waits = |trap: &Breakpoint| trap.on == step && trap.when == when;
        if let Some(at) = self.breakpoints.iter().position(waits) {
            if self.breakpoints[at].skip > 0 {
                self.breakpoints[at].skip -= 1;
            } else {
                let trap = self.breakpoints.swap_remove(at);
                self.hit.push((server, trap.index));
            }
        }
    }

    /// Whether the trace is kept, for texts that are costly to format.
    pub(crate) fn is_traced(&self) -> bool {
        self.trace.lines.is_some()
    }

    /// Mixes a value into the fingerprint of the run.
    pub(crate) fn mix(&mut self, value: u64) {
        self.hash = (self.hash.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    pub(crate) fn mix_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        self.mix(bytes.len() as u64);
    }

    /// When a notification that leaves now arrives: after the ones that left before. `None` if it is lost.
    pub(crate) fn notification_due(&mut self, from: Host, to: Host) -> Option<VirtualTime> {
        if self.network.is_cut(from, to) {
            return None;
        }
        let path = from.0 * self.parameters.servers() + to.0;
        let due = (self.now + self.network.delay(from, to)).max(self.notified[path]);
        self.notified[path] = due;
        Some(due)
    }

    /// The fingerprint of the run so far.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn push(&mut self, at: VirtualTime, event: SimEvent) {
        self.queue.push(at, event);
    }
}
