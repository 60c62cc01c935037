//! Settings that most ensembles leave at their defaults: observer masters, observers without a log, local
//! sessions, read-only servers, and disks on which snapshots are slow or fail. A seed draws each on its own.

use zebu_node::LocalSessionSupport;
use zebu_zab::{ObserverLog, ObserverMasters};

use super::{LittleRoom, PurgeParameters, RunParameters};
use crate::client::OperationKind;
use crate::random::{DrawPurpose, SimRandom};

/// Runs with each kind of server, of a thousand.
const OBSERVER_MASTERS_PERMILLE: u64 = 130;
const MEMORY_OBSERVERS_PERMILLE: u64 = 120;
const LOCAL_SESSIONS_PERMILLE: u64 = 150;
const READ_ONLY_PERMILLE: u64 = 150;
const SNAPSHOT_FAULTS_PERMILLE: u64 = 120;

/// Runs in which servers stop during synchronization again and again, of a thousand.
const INTERRUPTED_SYNCS_PERMILLE: u64 = 50;

/// Runs in which bits change before a truncation, of a thousand.
const ROTTEN_TRUNCATIONS_PERMILLE: u64 = 80;

/// The most servers of a run.
const SERVERS_MAX: usize = 9;

/// The kinds of servers in a run, and how many faults aim at them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerKinds {
    pub(crate) masters: ObserverMasters,
    pub(crate) observer_log: ObserverLog,
    pub(crate) local_sessions: LocalSessionSupport,
    /// Time without a leader after which a server serves reads, if it does.
    pub(crate) read_only_after_ms: Option<i64>,
    /// Time for which learners keep their connections without a leader; zero if they do not.
    pub(crate) election_grace_ms: i64,
    /// Servers that keep no connections and record no moves, as bits: like servers of ZooKeeper.
    pub(crate) graceless: u32,
    /// Whether the only fault is the end of a leader, which no client of another server may notice.
    pub(crate) only_leader_ends: bool,
    /// Whose disks have little room.
    pub(crate) little_room: LittleRoom,
    /// Planned stops of servers, which send their clients away before.
    pub(crate) drains: u64,
    /// Whether these are the only faults, which no client that can move may notice.
    pub(crate) only_drains: bool,
    /// Clients that move when their server asks for it, as bits.
    pub(crate) movers: u32,
    /// Leader changes at a time when requests of clients that have moved arrive late.
    pub(crate) late_requests: u64,
    /// Faults of servers that observers are connected to.
    pub(crate) master_faults: u64,
    /// Faults that leave servers without a leader.
    pub(crate) leaderless_faults: u64,
    /// Snapshots that are slow or fail.
    pub(crate) snapshot_faults: u64,
    /// Servers that stop during synchronization.
    pub(crate) interrupted_syncs: u64,
    /// Truncations that find a damaged history, and leaders that are cut off to cause them.
    pub(crate) rotten_truncations: u64,
}

impl ServerKinds {
    /// Every setting at its default.
    pub(crate) const DEFAULT: ServerKinds = ServerKinds {
        masters: ObserverMasters::LeaderOnly,
        observer_log: ObserverLog::OnDisk,
        local_sessions: LocalSessionSupport::Off,
        read_only_after_ms: None,
        election_grace_ms: 0,
        graceless: 0,
        only_leader_ends: false,
        little_room: LittleRoom::Off,
        drains: 0,
        only_drains: false,
        movers: 0,
        late_requests: 0,
        master_faults: 0,
        leaderless_faults: 0,
        snapshot_faults: 0,
        interrupted_syncs: 0,
        rotten_truncations: 0,
    };
}

impl RunParameters {
    /// Drawn apart, after all others.
    pub(super) fn draw_server_kinds(&mut self) {
        let mut random = SimRandom::new(self.seed, DrawPurpose::ServerKinds);
        if self.endurance.is_some() || !self.is_ensemble() {
            return;
        }
        let masters = random.permille(OBSERVER_MASTERS_PERMILLE);
        let in_memory = random.permille(MEMORY_OBSERVERS_PERMILLE);
        if (masters || in_memory) && self.observers == 0 && self.servers() < SERVERS_MAX {
            let room = (SERVERS_MAX - self.servers()) as u64;
            self.observers = random.between(1, 2).min(room) as usize;
        }
        if masters && self.observers > 0 && self.voters > 1 {
            self.kinds.masters = ObserverMasters::Followers;
            self.kinds.master_faults = random.below(6);
            self.raise(OperationKind::Sync, 8);
        }
        if in_memory && self.observers + self.spares > 0 {
            self.kinds.observer_log = ObserverLog::InMemory;
        }
        if random.permille(LOCAL_SESSIONS_PERMILLE) {
            let upgrades = random.permille(700);
            self.kinds.local_sessions =
                if upgrades { LocalSessionSupport::WithUpgrade } else { LocalSessionSupport::WithoutUpgrade };
            self.raise(OperationKind::CreateEphemeral, 4);
        }
        if random.permille(READ_ONLY_PERMILLE) {
            self.kinds.read_only_after_ms = Some(random.between(1, 4) as i64 * self.tick_ms as i64);
            self.kinds.leaderless_faults = random.between(1, 5);
        }
        if random.permille(SNAPSHOT_FAULTS_PERMILLE) {
            self.kinds.snapshot_faults = random.between(1, 6);
            self.disk.snap_count = self.disk.snap_count.min(random.between(4, 40));
        }
        self.draw_interrupted_syncs(&mut random);
        let rots =
            if self.kinds.observer_log == ObserverLog::InMemory { 500 } else { ROTTEN_TRUNCATIONS_PERMILLE };
        if random.permille(rots) {
            self.kinds.rotten_truncations = random.between(3, 12);
            self.raise(OperationKind::Set, 20);
        }
    }

    /// A learner that has installed the snapshot of a leader, and stopped before it accepted the leader's
    /// epoch, may have transactions that no later leader has. It cannot truncate them.
    fn draw_interrupted_syncs(&mut self, random: &mut SimRandom) {
        if !random.permille(INTERRUPTED_SYNCS_PERMILLE) || self.members.is_some() {
            return;
        }
        self.kinds.interrupted_syncs = random.between(10, 30);
        self.voters = random.pick(&[3, 5, 5]);
        let servers = self.servers();
        self.distant = self.distant.filter(|(far, _)| *far < servers);
        self.groups.clear();
        self.history_entries = 2;
        self.disk.snap_count = random.between(2, 4);
        self.disk.purge = PurgeParameters::AfterSnapshots;
        self.raise(OperationKind::Set, 20);
        self.workload.calls_max = self.workload.calls_max.max(300);
        self.workload.pause = self.tick() / 4;
    }

    fn raise(&mut self, kind: OperationKind, weight: u64) {
        let at = &mut self.workload.weights[kind as usize];
        *at = (*at).max(weight);
    }

    /// Whether a client accepts servers that serve reads only. The operator does not.
    pub(crate) fn accepts_read_only(&self, client: usize) -> bool {
        self.kinds.read_only_after_ms.is_some() && client.is_multiple_of(2) && Some(client) != self.operator()
    }
}
