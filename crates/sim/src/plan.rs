//! The faults of a run as data: drawn from the seed before the run begins. Each is self-contained, so that
//! any of them can be left out and the others stay the same. This is how a failing plan is shrunk.

mod drains;
mod little_room;
mod operators;
mod server_kinds;

pub(crate) use server_kinds::SnapshotFailure;

use std::collections::BTreeSet;
use std::fmt;

use zebu_proto::quorum::Packet;

use crate::fault_kind::FaultKind;
use crate::members::{ExpectedVersion, ReconfigChange};
use crate::network::Host;
use crate::queue::{MS, VirtualTime};
use crate::random::{DrawPurpose, SimRandom};
use crate::run_parameters::{Endurance, RunParameters};

/// A fault with its time.
#[derive(Clone, Debug)]
pub(crate) struct PlannedFault {
    pub(crate) at: VirtualTime,
    pub(crate) fault: Fault,
}

/// A fault.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The process ends; the machine stays.
    Kill { server: usize, down: VirtualTime },
    /// The machine loses its power: unsynced data is lost in part. `survives` seeds the choice.
    PowerLoss { servers: Vec<usize>, down: VirtualTime, survives: u64 },
    /// The power fails after so many operations of the disk from now on.
    PowerFailsInDiskWork { server: usize, operations: u64 },
    /// The process does nothing for a while; its clock goes on.
    Pause { server: usize, lasts: VirtualTime },
    /// The machine does nothing for a while, and its CLOCK_MONOTONIC does not advance.
    Suspend { server: usize, lasts: VirtualTime },
    /// The machine does nothing for a while, and all its clocks that never go back stand still: a virtual
    /// machine.
    Freeze { server: usize, lasts: VirtualTime },
    /// The wall clock is wrong from now on.
    ClockJump { server: usize, by_ms: i64 },
    /// Directed paths that let nothing through.
    Cut { name: FaultKind, paths: Vec<(Host, Host)>, lasts: VirtualTime },
    /// Connections between two hosts break.
    Reset { one: Host, other: Host },
    /// Messages between two hosts take longer.
    Slow { one: Host, other: Host, extra: VirtualTime, lasts: VirtualTime },
    /// An operation of the disk fails, after so many that succeed.
    DiskError { server: usize, operations: u64 },
    /// The disk cannot read a block, after so many reads that succeed; sometimes in the next process.
    ReadError { server: usize, operations: u64, down: Option<VirtualTime> },
    /// Nothing can be written for a while.
    DiskFull { server: usize, lasts: VirtualTime },
    /// The disks of these servers have so few free bytes for a while.
    LittleRoom { servers: Vec<usize>, free: u64, lasts: VirtualTime },
    /// Each sync takes so much longer.
    SlowDisk { server: usize, extra: VirtualTime, lasts: VirtualTime },
    /// Each sync takes so much longer, and no more than so many batches share one: the disk cannot keep up.
    DiskLags { server: usize, extra: VirtualTime, batches: usize, lasts: VirtualTime },
    /// No sync ends for a while.
    DiskHangs { server: usize, lasts: VirtualTime },
    /// Each slice of a snapshot takes so much longer.
    SlowSnapshots { server: usize, extra: VirtualTime, lasts: VirtualTime },
    /// Snapshot files cannot be written for a while, after so many operations that succeed.
    FailingSnapshots { server: usize, operations: u64, cause: SnapshotFailure, lasts: VirtualTime },
    /// The process ends, and a bit of a file changes before it restarts.
    BitRot { server: usize, file: RottenFile, place: u64, down: VirtualTime },
    /// A bit of a log or snapshot changes before the next truncation, and the process does not notice.
    RotBeforeTruncate { server: usize, place: u64 },
    /// A server stops when it next sends or receives a packet of a kind, after so many of them.
    EndAtStep { on: ProtocolStep, when: PacketEnd, skip: u64, down: VirtualTime, survives: Option<u64> },
    /// A client reads nothing for a while.
    ClientStalls { client: usize, lasts: VirtualTime },
    /// The machine of a client does nothing for a while, and its CLOCK_MONOTONIC does not advance.
    ClientSuspends { client: usize, lasts: VirtualTime },
    /// A client's process ends, and another one starts with a new session.
    ClientVanishes { client: usize, closes: bool },
    /// A client drops its connection, to move to another server.
    ClientMoves { client: usize },
    /// A client requests a reconfig.
    Reconfig { client: usize, change: ReconfigChange, version: ExpectedVersion },
    /// A server sends its clients away and ends; it restarts after a while.
    Drain { server: usize },
    /// The operator sets the ACL of the config node.
    ConfigAcl { permissions: i32 },
}

/// Stands for the server that leads when the fault begins.
pub(crate) const LEADER: usize = usize::MAX;

/// Stands for a follower that observers are connected to when the fault begins.
pub(crate) const OBSERVER_MASTER: usize = usize::MAX - 1;

/// A step of recovery or of broadcast, by the packet that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolStep {
    Info,
    LeaderInfo,
    AckEpoch,
    Diff,
    Trunc,
    Snap,
    NewLeader,
    AckNewLeader,
    UpToDate,
    Proposal,
    Ack,
    Commit,
    /// A received snapshot is installed, and the leader's epoch is not written yet. No packet makes it.
    Installed,
}

impl ProtocolStep {
    pub(crate) const ALL: [ProtocolStep; 12] = [
        ProtocolStep::Info,
        ProtocolStep::LeaderInfo,
        ProtocolStep::AckEpoch,
        ProtocolStep::Diff,
        ProtocolStep::Trunc,
        ProtocolStep::Snap,
        ProtocolStep::NewLeader,
        ProtocolStep::AckNewLeader,
        ProtocolStep::UpToDate,
        ProtocolStep::Proposal,
        ProtocolStep::Ack,
        ProtocolStep::Commit,
    ];

    /// The step that a packet makes.
    pub(crate) fn of(packet: &Packet) -> Option<ProtocolStep> {
        Some(match packet {
            Packet::FollowerInfo { .. } | Packet::ObserverInfo { .. } => ProtocolStep::Info,
            Packet::LeaderInfo { .. } => ProtocolStep::LeaderInfo,
            Packet::AckEpoch { .. } => ProtocolStep::AckEpoch,
            Packet::Diff { .. } => ProtocolStep::Diff,
            Packet::Trunc { .. } => ProtocolStep::Trunc,
            Packet::Snap { .. } => ProtocolStep::Snap,
            Packet::NewLeader { .. } => ProtocolStep::NewLeader,
            Packet::Ack { zxid } if zxid.counter() == 0 => ProtocolStep::AckNewLeader,
            Packet::Ack { .. } => ProtocolStep::Ack,
            Packet::UpToDate => ProtocolStep::UpToDate,
            Packet::Proposal { .. } | Packet::Inform { .. } => ProtocolStep::Proposal,
            Packet::Commit { .. } => ProtocolStep::Commit,
            _ => return None,
        })
    }
}

/// Whether the sender or the receiver of a packet is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketEnd {
    Sends,
    Gets,
}

/// The kind of file in which a bit changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RottenFile {
    Log,
    Snapshot,
    /// The newest valid snapshot, if an older valid one can replace it.
    NewestSnapshot,
    Epoch,
}

impl Fault {
    pub(crate) fn kind(&self) -> FaultKind {
        match self {
            Fault::Kill { .. } => FaultKind::Kill,
            Fault::PowerLoss { servers, .. } if servers.len() > 1 => FaultKind::PowerLossOfAll,
            Fault::PowerLoss { .. } => FaultKind::PowerLoss,
            Fault::PowerFailsInDiskWork { .. } => FaultKind::PowerFailsInDiskWork,
            Fault::Pause { .. } => FaultKind::Pause,
            Fault::Suspend { .. } => FaultKind::MachineSuspends,
            Fault::Freeze { .. } => FaultKind::MachineFreezes,
            Fault::ClockJump { .. } => FaultKind::ClockJump,
            Fault::Cut { name, .. } => *name,
            Fault::Reset { .. } => FaultKind::Reset,
            Fault::Slow { .. } => FaultKind::SlowPath,
            Fault::DiskError { .. } => FaultKind::DiskError,
            Fault::ReadError { .. } => FaultKind::ReadError,
            Fault::DiskFull { .. } => FaultKind::DiskFull,
            Fault::LittleRoom { .. } => FaultKind::LittleRoom,
            Fault::SlowDisk { .. } => FaultKind::SlowDisk,
            Fault::DiskLags { .. } => FaultKind::DiskLags,
            Fault::DiskHangs { .. } => FaultKind::DiskHangs,
            Fault::SlowSnapshots { .. } => FaultKind::SlowSnapshots,
            Fault::FailingSnapshots { .. } => FaultKind::FailingSnapshots,
            Fault::BitRot { file: RottenFile::Log, .. } => FaultKind::BitRotInLog,
            Fault::BitRot { file: RottenFile::Snapshot | RottenFile::NewestSnapshot, .. } => {
                FaultKind::BitRotInSnapshot
            }
            Fault::BitRot { file: RottenFile::Epoch, .. } => FaultKind::BitRotInEpochs,
            Fault::RotBeforeTruncate { .. } => FaultKind::RotBeforeTruncate,
            Fault::EndAtStep { .. } => FaultKind::EndsAtStep,
            Fault::ClientStalls { .. } => FaultKind::ClientStalls,
            Fault::ClientSuspends { .. } => FaultKind::ClientSuspends,
            Fault::ClientVanishes { .. } => FaultKind::ClientVanishes,
            Fault::ClientMoves { .. } => FaultKind::ClientMoves,
            Fault::Reconfig { .. } => FaultKind::MembersChange,
            Fault::Drain { .. } => FaultKind::Drain,
            Fault::ConfigAcl { .. } => FaultKind::ConfigAcl,
        }
    }
}

impl fmt::Display for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}.{:03} ms: {:?}", self.at / MS, self.at % MS, self.fault)
    }
}

/// Draws the faults of a run.
pub(crate) fn draw(shape: &RunParameters) -> Vec<PlannedFault> {
    let mut drawer =
        FaultDrawer { shape, random: SimRandom::new(shape.seed, DrawPurpose::Faults), rotten: Vec::new() };
    if let Some(plan) = drawer.only_one_kind() {
        return plan;
    }
    let mut plan = drawer.reconfigs();
    plan.extend(drawer.stalled_leaders());
    plan.extend(drawer.server_kinds().into_iter().chain(drawer.drains()));
    if shape.fault_rate == 0 || shape.fault_weights.iter().all(|&weight| weight == 0) {
        plan.sort_by_key(|planned| planned.at);
        return plan;
    }
    let ticks = shape.safety / shape.tick();
    // The rate is per server and ten ticks.
    let count = (ticks * shape.servers() as u64 * shape.fault_rate / 10_000).clamp(1, 80);
    for _ in 0..count {
        let kind = FaultKind::ALL[drawer.random.weighted(&shape.fault_weights)];
        let at = drawer.random.below(shape.safety);
        if let Some(fault) = drawer.draw(kind) {
            plan.push(PlannedFault { at, fault });
        }
    }
    plan.extend(drawer.later_kinds());
    plan.sort_by_key(|planned| planned.at);
    plan
}

struct FaultDrawer<'a> {
    shape: &'a RunParameters,
    random: SimRandom,
    /// Servers whose disks are damaged: never so many that a majority could lose data.
    rotten: Vec<usize>,
}

impl FaultDrawer<'_> {
    /// From much less than a tick to longer than every limit.
    fn lasts(&mut self) -> VirtualTime {
        let tick = self.shape.tick();
        self.random.skewed(tick / 10, tick * (self.shape.init_limit + self.shape.sync_limit))
    }

    fn server(&mut self) -> usize {
        self.random.index(self.shape.servers())
    }

    /// Often the leader. Cuts and bit rot name their servers in the plan.
    fn victim(&mut self, kind: FaultKind) -> usize {
        let server = self.server();
        let named = matches!(
            kind,
            FaultKind::Halves
                | FaultKind::Bridge
                | FaultKind::BitRotInLog
                | FaultKind::BitRotInSnapshot
                | FaultKind::BitRotInEpochs
        );
        if self.random.permille(300) && !named { LEADER } else { server }
    }

    fn client(&mut self) -> usize {
        self.random.index(self.shape.clients)
    }

    fn client_host(&mut self) -> Host {
        Host(self.shape.servers() + self.random.index(self.shape.clients))
    }

    fn draw(&mut self, kind: FaultKind) -> Option<Fault> {
        let (server, down) = (self.victim(kind), self.lasts());
        let survives = self.random.draw();
        let operations = self.random.below(30);
        Some(match kind {
            FaultKind::Kill => Fault::Kill { server, down },
            FaultKind::PowerLoss => Fault::PowerLoss { servers: vec![server], down, survives },
            FaultKind::PowerLossOfAll => {
                Fault::PowerLoss { servers: (0..self.shape.servers()).collect(), down, survives }
            }
            FaultKind::PowerFailsInDiskWork => Fault::PowerFailsInDiskWork { server, operations },
            FaultKind::Pause => Fault::Pause { server, lasts: down },
            FaultKind::ClockJump => {
                let size = self.random.skewed(10, 3_600_000 * 24 * 365) as i64;
                let by_ms = if self.random.permille(500) { size } else { -size };
                Fault::ClockJump { server, by_ms }
            }
            FaultKind::Isolate
            | FaultKind::Halves
            | FaultKind::Bridge
            | FaultKind::OneWay
            | FaultKind::CutPair => Fault::Cut { name: kind, paths: self.paths(kind, server), lasts: down },
            FaultKind::Reset => {
                let other = if self.random.permille(500) { self.client_host() } else { Host(self.server()) };
                Fault::Reset { one: Host(server), other }
            }
            FaultKind::SlowPath => {
                let extra = self.random.skewed(MS, self.shape.tick() * 2);
                Fault::Slow { one: Host(server), other: Host(self.server()), extra, lasts: down }
            }
            FaultKind::DiskError => Fault::DiskError { server, operations },
            FaultKind::ReadError => {
                let down = self.random.permille(600).then_some(down);
                Fault::ReadError { server, operations: self.random.below(60), down }
            }
            FaultKind::DiskFull => {
                let lasts = self.lasts();
                Fault::DiskFull { server, lasts }
            }
            FaultKind::SlowDisk => {
                let extra = self.random.skewed(MS, self.shape.tick() * 3);
                Fault::SlowDisk { server, extra, lasts: down }
            }
            FaultKind::DiskHangs => Fault::DiskHangs { server, lasts: down },
            FaultKind::BitRotInLog | FaultKind::BitRotInSnapshot | FaultKind::BitRotInEpochs => {
                return self.rot(kind, server, down);
            }
            FaultKind::EndsAtStep => Fault::EndAtStep {
                on: self.random.pick(&ProtocolStep::ALL),
                when: if self.random.permille(500) { PacketEnd::Sends } else { PacketEnd::Gets },
                skip: if self.random.permille(700) { 0 } else { self.random.below(6) },
                down,
                survives: self.random.permille(500).then_some(survives),
            },
            FaultKind::ClientStalls => Fault::ClientStalls { client: self.client(), lasts: down },
            FaultKind::ClientVanishes => {
                Fault::ClientVanishes { client: self.client(), closes: self.random.permille(500) }
            }
            FaultKind::ClientMoves => Fault::ClientMoves { client: self.client() },
            FaultKind::MachineSuspends => Fault::Suspend { server, lasts: down },
            FaultKind::MachineFreezes => Fault::Freeze { server, lasts: down },
            FaultKind::ClientSuspends => Fault::ClientSuspends { client: self.client(), lasts: down },
            FaultKind::DiskLags => {
                let (tick, limit) = (self.shape.tick(), self.shape.tick() * self.shape.sync_limit);
                let extra = self.random.skewed(tick / 4, 2 * tick);
                let lasts = self.random.between(2 * limit, 10 * limit);
                Fault::DiskLags { server, extra, batches: self.random.between(1, 3) as usize, lasts }
            }
            FaultKind::MembersChange
            | FaultKind::ConfigAcl
            | FaultKind::LittleRoom
            | FaultKind::SlowSnapshots
            | FaultKind::FailingSnapshots
            | FaultKind::RotBeforeTruncate
            | FaultKind::Drain => return None,
        })
    }

    /// Faults that were added to the simulator later. They have a random stream of their own.
    fn later_kinds(&mut self) -> Vec<PlannedFault> {
        const KINDS: [FaultKind; 4] = [
            FaultKind::MachineSuspends,
            FaultKind::ClientSuspends,
            FaultKind::DiskLags,
            FaultKind::BitRotInSnapshot,
        ];
        self.random = SimRandom::new(self.shape.seed, DrawPurpose::LaterFaults);
        if !self.random.permille(300) {
            return Vec::new();
        }
        let count = self.random.skewed(1, 12);
        let mut plan = Vec::new();
        for _ in 0..count {
            let kind = self.random.pick(&KINDS);
            let at = self.random.below(self.shape.safety);
            let fault = match kind {
                FaultKind::BitRotInSnapshot => {
                    let (server, down) = (self.server(), self.lasts());
                    let place = self.random.draw();
                    Some(Fault::BitRot { server, file: RottenFile::NewestSnapshot, place, down })
                }
                kind => self.draw(kind),
            };
            plan.extend(fault.map(|fault| PlannedFault { at, fault }));
        }
        plan
    }

    /// Leaders that stand still, with or without their machines. They have a stream of their own.
    fn stalled_leaders(&self) -> Vec<PlannedFault> {
        let mut random = SimRandom::new(self.shape.seed, DrawPurpose::LeaderStalls);
        let mut plan = Vec::new();
        for _ in 0..self.shape.stalled_leaders {
            let (at, lasts) = (random.below(self.shape.safety), self.shape.stall(&mut random));
            let server = LEADER;
            let fault = match random.below(4) {
                0 => Fault::Pause { server, lasts },
                1 => Fault::Suspend { server, lasts },
                _ => Fault::Freeze { server, lasts },
            };
            plan.push(PlannedFault { at, fault });
        }
        plan
    }

    /// The faults of a long run: one server that is away or cannot keep up, and leader changes meanwhile.
    fn endurance(&mut self, endurance: Endurance) -> Vec<PlannedFault> {
        let (tick, safety) = (self.shape.tick(), self.shape.safety);
        let (server, at) = (self.server(), self.random.between(tick, 10 * tick));
        let lasts = self.random.between(safety / 2, safety * 3 / 4);
        let fault = match endurance {
            Endurance::Absence => Fault::Kill { server, down: lasts },
            Endurance::SlowDisk => {
                let extra = self.random.between(tick / 8, tick);
                Fault::DiskLags { server, extra, batches: self.random.between(1, 4) as usize, lasts }
            }
        };
        let mut plan = vec![PlannedFault { at, fault }];
        let kills = match endurance {
            Endurance::Absence => self.random.below(4),
            Endurance::SlowDisk => self.random.below(2),
        };
        for _ in 0..kills {
            let at = self.random.below(safety);
            plan.push(PlannedFault { at, fault: Fault::Kill { server: LEADER, down: tick } });
        }
        plan.sort_by_key(|planned| planned.at);
        plan
    }

    fn rot(&mut self, kind: FaultKind, server: usize, down: VirtualTime) -> Option<Fault> {
        let file = match kind {
            FaultKind::BitRotInSnapshot => RottenFile::Snapshot,
            FaultKind::BitRotInEpochs => RottenFile::Epoch,
            _ => RottenFile::Log,
        };
        self.may_rot(server).then(|| Fault::BitRot { server, file, place: self.random.draw(), down })
    }

    /// Whether the disk of a server may be damaged without a majority that could lose data.
    fn may_rot(&mut self, server: usize) -> bool {
        if self.rotten.contains(&server) {
            return true;
        }
        // With reconfig, the servers that a quorum will need are unknown: then one damaged disk is enough.
        if self.shape.members.is_some() && !self.rotten.is_empty() {
            return false;
        }
        let list = self.shape.first_config();
        let sound: BTreeSet<usize> =
            list.voters().filter(|voter| *voter != server && !self.rotten.contains(voter)).collect();
        let may_rot = !list.is_voter(server) || list.is_quorum(&sound);
        if may_rot {
            self.rotten.push(server);
        }
        may_rot
    }

    fn paths(&mut self, kind: FaultKind, server: usize) -> Vec<(Host, Host)> {
        let servers: Vec<usize> = (0..self.shape.servers()).collect();
        let one = Host(server);
        let mut order = servers.clone();
        self.random.shuffle(&mut order);
        let half = order.len() / 2;
        let (left, right) = order.split_at(half);
        let both = |a: usize, b: usize| [(Host(a), Host(b)), (Host(b), Host(a))];
        let others = servers.iter().copied().filter(|&it| Host(it) != one);
        match kind {
            FaultKind::Isolate => others.flat_map(|it| both(one.0, it)).collect(),
            FaultKind::Halves => {
                left.iter().flat_map(|&a| right.iter().flat_map(move |&b| both(a, b))).collect()
            }
            FaultKind::Bridge => {
                // The first of the right half reaches all servers.
                let right = right.get(1..).unwrap_or_default();
                left.iter().flat_map(|&a| right.iter().flat_map(move |&b| both(a, b))).collect()
            }
            FaultKind::OneWay => {
                let deaf = self.random.permille(500);
                let path = |it| if deaf { (Host(it), one) } else { (one, Host(it)) };
                let paths: Vec<_> = others.map(path).collect();
                if self.random.permille(300) { paths.into_iter().take(1).collect() } else { paths }
            }
            _ => {
                let to_client = self.random.permille(400);
                let other = if to_client { self.client_host() } else { Host(self.server()) };
                vec![(one, other), (other, one)]
            }
        }
    }
}
