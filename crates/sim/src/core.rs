//! What everybody in a run shares: the time, the network, the events to come, the judge, the trace.

use std::fmt;

use zebu_proto::quorum::Packet;

use crate::check::Judge;
use crate::network::{Host, Network};
use crate::plan::{Step, When};
use crate::queue::{Event, MS, Queue, Time};
use crate::random::Random;
use crate::shape::Shape;

/// The shared part of a run.
pub(crate) struct Core {
    pub(crate) now: Time,
    pub(crate) queue: Queue,
    pub(crate) network: Network,
    pub(crate) judge: Judge,
    pub(crate) shape: Shape,
    /// For everything that the disks decide.
    pub(crate) disk_random: Random,
    pub(crate) trace: Trace,
    pub(crate) counts: Counts,
    /// Bytes change on their way: then nothing is promised but that nobody panics.
    pub(crate) garble: Option<Random>,
    /// Steps that are waited for, and those that were made: the server and the fault.
    pub(crate) traps: Vec<Trap>,
    pub(crate) sprung: Vec<(usize, usize)>,
    hash: u64,
    /// When the last message of the election arrives, per directed path.
    notified: Vec<Time>,
}

/// A step of the protocol at which a server ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trap {
    pub(crate) on: Step,
    pub(crate) when: When,
    pub(crate) skip: u64,
    /// The fault of the plan.
    pub(crate) index: usize,
}

/// What happened, in numbers.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Events of the queue.
    pub events: u64,
    /// Starts of servers, the first ones included.
    pub starts: u64,
    /// Elections that ended with a leader that serves.
    pub leaders: u64,
    /// Snapshots that were written.
    pub snapshots: u64,
    /// DIFF, TRUNC and SNAP packets that were sent.
    pub syncs: [u64; 3],
    /// Lists of members that were decided.
    pub lists: u64,
    /// Lists of members that took effect, once for each server.
    pub activations: u64,
    /// Runs whose members could not be healed: too few of them had disks that are right.
    pub unhealed: u64,
    /// Starts that were refused because the disk is not right.
    pub refused_starts: u64,
}

/// Lines that tell what happened, kept only if they are asked for.
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

impl Core {
    pub(crate) fn new(shape: Shape, network: Network, judge: Judge, trace: Trace) -> Core {
        let disk_random = Random::new(shape.seed, 4);
        let hosts = shape.servers();
        Core {
            now: 0,
            queue: Queue::default(),
            network,
            judge,
            shape,
            disk_random,
            trace,
            counts: Counts::default(),
            garble: None,
            traps: Vec::new(),
            sprung: Vec::new(),
            hash: 0,
            notified: vec![0; hosts * hosts],
        }
    }

    /// Writes a line, if anybody wants to read it. The text costs nothing otherwise.
    pub(crate) fn tell(&mut self, text: fmt::Arguments<'_>) {
        if let Some(lines) = &mut self.trace.lines {
            lines.push(format!("{:>9}.{:03} {text}", self.now / MS, self.now % MS));
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
            // Small fields are where meaning is: the last bytes of numbers, counts and codes.
            let to = if random.permille(500) { random.draw() as u8 } else { bytes[at].wrapping_add(1) };
            bytes[at] = to;
        }
    }

    /// A server sends or gets a packet: a trap may be waiting for that.
    pub(crate) fn step_made(&mut self, server: usize, packet: &Packet, when: When) {
        if self.traps.is_empty() {
            return;
        }
        let Some(step) = Step::of(packet) else { return };
        let waits = |trap: &Trap| trap.on == step && trap.when == when;
        if let Some(at) = self.traps.iter().position(waits) {
            if self.traps[at].skip > 0 {
                self.traps[at].skip -= 1;
            } else {
                let trap = self.traps.swap_remove(at);
                self.sprung.push((server, trap.index));
            }
        }
    }

    /// Whether anybody reads the lines, for texts that are costly to make.
    pub(crate) fn is_told(&self) -> bool {
        self.trace.lines.is_some()
    }

    /// Mixes what happened into the fingerprint of the run.
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

    /// When a message of the election that leaves now arrives: behind those that left before. `None` if it is
    /// lost.
    pub(crate) fn notification_due(&mut self, from: Host, to: Host) -> Option<Time> {
        if self.network.is_cut(from, to) {
            return None;
        }
        let path = from.0 * self.shape.servers() + to.0;
        let due = (self.now + self.network.delay(from, to)).max(self.notified[path]);
        self.notified[path] = due;
        Some(due)
    }

    /// The fingerprint of everything so far.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn push(&mut self, at: Time, event: Event) {
        self.queue.push(at, event);
    }
}
