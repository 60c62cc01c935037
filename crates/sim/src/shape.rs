//! What a seed draws before a run begins: how large the ensemble is, how fast everything is, what the
//! clients do, and which faults come how often. Two seeds differ in kind, not only in order.

use zebu_tree::access::TRANSACTION_BYTES_MAX;
use zebu_zab::LAST_COUNTER;

use crate::client::Kind;
use crate::members::{CLIENT_PORTS, List, Seat, Vote};
use crate::network::Latency;
use crate::queue::{MS, SECOND, Time};
use crate::random::Random;

/// How often each operation is asked for; zero never.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) weights: Vec<u64>,
    /// Calls of one client that are on their way at a time.
    pub(crate) pipeline: usize,
    /// Mean pause between two bursts of calls.
    pub(crate) pause: Time,
    /// Calls of one client in the phase with faults.
    pub(crate) calls_max: u64,
    /// Different names at the top.
    pub(crate) names: u64,
    /// How many of a thousand reads leave a watch.
    pub(crate) watch_permille: u64,
    /// Largest data.
    pub(crate) data_max: u64,
    pub(crate) session_timeout_ms: u64,
    /// How often of a thousand times a client goes to another server when it has heard something.
    pub(crate) restless_permille: u64,
}

/// How the disks behave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskShape {
    /// How long a sync takes.
    pub(crate) sync_low: Time,
    pub(crate) sync_high: Time,
    pub(crate) preallocate: u64,
    pub(crate) size_max: Option<u64>,
    pub(crate) snap_count: u64,
    pub(crate) purge: PurgeShape,
}

/// Whether old files go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurgeShape {
    AfterSnapshots,
    /// As in every directory that was taken over from ZooKeeper.
    Off,
}

/// The kinds of faults; a seed has a weight for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultKind {
    Kill,
    PowerLoss,
    PowerLossOfAll,
    PowerFailsInDiskWork,
    Pause,
    ClockJump,
    Isolate,
    Halves,
    Bridge,
    OneWay,
    CutPair,
    Reset,
    SlowPath,
    DiskError,
    ReadError,
    DiskFull,
    SlowDisk,
    DiskHangs,
    BitRotInLog,
    BitRotInSnapshot,
    BitRotInEpochs,
    EndsAtStep,
    ClientStalls,
    ClientVanishes,
    ClientMoves,
    /// These are not drawn with the others, so that old seeds stay what they were.
    MachineSuspends,
    ClientSuspends,
    DiskLags,
    /// Not drawn with the others: only where members may change.
    MembersChange,
    /// Who may ask for that changes.
    ConfigAcl,
}

impl FaultKind {
    pub(crate) const ALL: [FaultKind; 25] = [
        FaultKind::Kill,
        FaultKind::PowerLoss,
        FaultKind::PowerLossOfAll,
        FaultKind::PowerFailsInDiskWork,
        FaultKind::Pause,
        FaultKind::ClockJump,
        FaultKind::Isolate,
        FaultKind::Halves,
        FaultKind::Bridge,
        FaultKind::OneWay,
        FaultKind::CutPair,
        FaultKind::Reset,
        FaultKind::SlowPath,
        FaultKind::DiskError,
        FaultKind::ReadError,
        FaultKind::DiskFull,
        FaultKind::SlowDisk,
        FaultKind::DiskHangs,
        FaultKind::BitRotInLog,
        FaultKind::BitRotInSnapshot,
        FaultKind::BitRotInEpochs,
        FaultKind::EndsAtStep,
        FaultKind::ClientStalls,
        FaultKind::ClientVanishes,
        FaultKind::ClientMoves,
    ];

    /// As the table of injected faults names it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            FaultKind::Kill => "kill",
            FaultKind::PowerLoss => "power loss",
            FaultKind::PowerLossOfAll => "power loss of all",
            FaultKind::PowerFailsInDiskWork => "power fails in disk work",
            FaultKind::Pause => "pause",
            FaultKind::ClockJump => "clock jump",
            FaultKind::Isolate => "isolate one",
            FaultKind::Halves => "partition in halves",
            FaultKind::Bridge => "bridge",
            FaultKind::OneWay => "one-way partition",
            FaultKind::CutPair => "cut of a pair",
            FaultKind::Reset => "connection reset",
            FaultKind::SlowPath => "slow path",
            FaultKind::DiskError => "disk error",
            FaultKind::ReadError => "read error",
            FaultKind::DiskFull => "disk full",
            FaultKind::SlowDisk => "slow disk",
            FaultKind::DiskHangs => "disk hangs",
            FaultKind::BitRotInLog => "bit rot in a log",
            FaultKind::BitRotInSnapshot => "bit rot in a snapshot",
            FaultKind::BitRotInEpochs => "bit rot in an epoch file",
            FaultKind::EndsAtStep => "end at a step of the protocol",
            FaultKind::ClientStalls => "client stalls",
            FaultKind::ClientVanishes => "client vanishes",
            FaultKind::ClientMoves => "client moves",
            FaultKind::MachineSuspends => "machine suspends",
            FaultKind::ClientSuspends => "client's machine suspends",
            FaultKind::DiskLags => "disk cannot keep up",
            FaultKind::MembersChange => "reconfig asked for",
            FaultKind::ConfigAcl => "ACL of the configuration",
        }
    }
}

/// How the members of an ensemble may change.
#[derive(Clone, Debug)]
pub(crate) struct MembersShape {
    /// How many voters must be left.
    pub(crate) voters_min: usize,
    /// How often an operator asks for other members.
    pub(crate) wishes: u64,
    /// What servers that are not on the first list say of themselves in their own files.
    pub(crate) joins_as: Vote,
    /// How many of a thousand servers that are on no list are started later than the others.
    pub(crate) late_permille: u64,
    /// Calls of a thousand that concern the list.
    pub(crate) curious_permille: u64,
}

/// A long run: thousands of transactions on a small tree, over several epochs. The log is far larger than the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endurance {
    /// A server is away for most of the run, and comes back.
    Absence,
    /// A disk cannot keep up for most of the run.
    SlowDisk,
}

/// Runs with a small limit for transactions, of a thousand.
const SHORT_TRANSACTIONS_PERMILLE: u64 = 60;

/// Long runs, of a thousand. `learner_memory` finds a DIFF without a bound in bytes in them.
const LONG_RUNS_PERMILLE: u64 = 20;

/// Long runs with a disk that cannot keep up, of a thousand long ones. `served_age` and `learner_memory` find a leader in
/// them that keeps a learner whose oldest proposal has waited for longer than syncLimit.
const SLOW_DISK_PERMILLE: u64 = 500;

/// Everything that is fixed for a run.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) seed: u64,
    pub(crate) voters: usize,
    pub(crate) observers: usize,
    /// Servers that are on no list when the run begins.
    pub(crate) spares: usize,
    /// How the members change, if they do. The last client is their operator then.
    pub(crate) members: Option<MembersShape>,
    /// Group and weight of each voter; empty if heads are counted.
    pub(crate) groups: Vec<(i64, i64)>,
    pub(crate) clients: usize,
    pub(crate) tick_ms: u64,
    pub(crate) init_limit: u64,
    pub(crate) sync_limit: u64,
    /// Transactions that stay in memory for learners: small, so that every kind of sync happens.
    pub(crate) history_entries: usize,
    pub(crate) history_bytes: usize,
    pub(crate) latency: Latency,
    /// A server that is far from the others, and how much longer everything takes there. Its state is always a
    /// little older than theirs.
    pub(crate) distant: Option<(usize, Time)>,
    pub(crate) disk: DiskShape,
    /// How long things wait for a server's brain, and are taken together, at most; zero takes each at once.
    pub(crate) turn: Time,
    /// Transactions of an epoch, after which its leader hands over.
    pub(crate) last_counter: u32,
    pub(crate) workload: Workload,
    /// How long faults come.
    pub(crate) safety: Time,
    /// Faults per server and second, times a thousand.
    pub(crate) fault_rate: u64,
    pub(crate) fault_weights: Vec<u64>,
    /// The longest transaction.
    pub(crate) transaction_bytes_max: usize,
    /// What happens in a long run, if this is one.
    pub(crate) endurance: Option<Endurance>,
}

impl Shape {
    pub(crate) fn draw(seed: u64) -> Shape {
        let mut random = Random::new(seed, 1);
        let voters = 1 + random.weighted(&[8, 5, 45, 5, 25, 3, 9]);
        let observers = if voters > 1 { random.weighted(&[70, 20, 10]) } else { 0 };
        let tick_ms = random.pick(&[100, 100, 200, 200, 500, 1000, 2000]);
        let mut shape = Shape {
            seed,
            voters,
            observers,
            spares: 0,
            members: None,
            groups: Vec::new(),
            clients: random.between(1, 6) as usize,
            tick_ms,
            init_limit: random.between(5, 12),
            sync_limit: random.between(3, 6),
            history_entries: random.skewed(2, 500) as usize,
            history_bytes: 1 << 20,
            latency: draw_latency(&mut random, tick_ms),
            distant: None,
            disk: draw_disk(&mut random),
            turn: if random.permille(500) { 0 } else { random.skewed(50, tick_ms * MS / 50) },
            last_counter: if random.permille(100) { random.between(40, 200) as u32 } else { LAST_COUNTER },
            workload: draw_workload(&mut random, tick_ms),
            safety: random.between(30, 100) * tick_ms * MS,
            fault_rate: if random.permille(80) { 0 } else { random.skewed(100, 3000) },
            fault_weights: draw_faults(&mut random),
            transaction_bytes_max: TRANSACTION_BYTES_MAX,
            endurance: None,
        };
        if random.permille(250) {
            shape.roughen(&mut random);
        }
        if random.permille(250) {
            let server = random.index(shape.servers());
            shape.distant = Some((server, random.skewed(shape.tick() / 20, shape.tick() / 2)));
        }
        shape.draw_members();
        shape.draw_endurance();
        shape.draw_transaction_limit();
        shape.make_room_in_attempts();
        shape
    }

    /// Some clients know so many addresses of servers that are so far away that they would give up before their
    /// session is there, again and again, and what they begin and leave keeps everybody busy: there would be nothing
    /// that the servers could do better. Their sessions are longer, so that an attempt has time for the whole way.
    fn make_room_in_attempts(&mut self) {
        // A connection is there and back; then to the server, to the leader, to the others and all the way back.
        let way = 8 * self.latency.high + 5 * self.turn + 2 * self.disk.sync_high;
        if self.attempt() < way {
            self.workload.session_timeout_ms = self.addresses() * way.div_ceil(MS);
        }
    }

    /// How long a client waits for one server before it turns to the next: all have a share of the session's time.
    fn attempt(&self) -> Time {
        const LEAST_MS: u64 = 200;
        (self.workload.session_timeout_ms / self.addresses()).max(LEAST_MS) * MS
    }

    /// How many addresses a client knows.
    fn addresses(&self) -> u64 {
        (self.client_ports().len() * self.servers()) as u64
    }

    /// The ports that clients try. Where members change, they may be at the other one by now.
    pub(crate) fn client_ports(&self) -> &'static [u16] {
        if self.members.is_some() { &CLIENT_PORTS } else { &CLIENT_PORTS[..1] }
    }

    /// Whether the members change, or how they are counted. Drawn apart, behind all the rest.
    fn draw_members(&mut self) {
        const PURPOSE: u64 = 8;
        let mut random = Random::new(self.seed, PURPOSE);
        if random.permille(350) {
            self.spares = random.between(1, 3).min(9 - self.servers() as u64) as usize;
            self.clients += 1;
            self.members = Some(MembersShape {
                voters_min: random.pick(&[1, 2, 2]),
                wishes: random.skewed(2, 40),
                joins_as: random.pick(&[Vote::Has, Vote::Lacks]),
                late_permille: 300,
                curious_permille: random.pick(&[0, 50, 300]),
            });
        } else if self.voters >= 3 && random.permille(150) {
            let groups = random.between(1, 3) as i64;
            // The first has weight, so that there is a quorum.
            self.groups = (0..self.voters)
                .map(|voter| {
                    let weight = if voter == 0 { 1 } else { random.pick(&[0, 1, 1, 1, 2, 3]) };
                    (1 + random.below(groups as u64) as i64, weight)
                })
                .collect();
        }
    }

    /// Whether transactions are so short that a session with a few ephemeral nodes ends without their names. Drawn apart.
    fn draw_transaction_limit(&mut self) {
        const PURPOSE: u64 = 13;
        let mut random = Random::new(self.seed, PURPOSE);
        // Configurations are longer than that.
        if random.permille(SHORT_TRANSACTIONS_PERMILLE) && self.members.is_none() {
            self.transaction_bytes_max = random.between(250, 800) as usize;
        }
    }

    /// Whether the run is a long one. Drawn apart, behind all the rest.
    fn draw_endurance(&mut self) {
        const PURPOSE: u64 = 11;
        let mut random = Random::new(self.seed, PURPOSE);
        if !random.permille(LONG_RUNS_PERMILLE) || self.members.is_some() {
            return;
        }
        let is_slow = random.permille(SLOW_DISK_PERMILLE);
        let endurance = if is_slow { Endurance::SlowDisk } else { Endurance::Absence };
        self.endurance = Some(endurance);
        self.voters = random.pick(&[3, 3, 5]);
        self.observers = random.pick(&[0, 0, 1]);
        self.groups.clear();
        self.clients = 4;
        self.tick_ms = 500;
        self.sync_limit = random.between(3, 6);
        self.init_limit = random.between(5, 12);
        self.latency = Latency { low: 100, high: 3 * MS, straggler_permille: 0 };
        self.distant = None;
        self.safety = 80 * self.tick();
        self.history_entries = random.between(5, 100) as usize;
        self.history_bytes = 16 << 10;
        self.last_counter = match endurance {
            Endurance::Absence => random.between(150, 900) as u32,
            Endurance::SlowDisk => LAST_COUNTER,
        };
        self.disk.snap_count = random.between(50, 400);
        self.disk.purge = random.pick(&[PurgeShape::Off, PurgeShape::AfterSnapshots]);
        self.disk.sync_low = MS;
        self.disk.sync_high = 3 * MS;
        self.turn = if random.permille(500) { 0 } else { random.skewed(50, 5 * MS) };
        self.fault_rate = 0;
        self.workload = Workload {
            weights: Kind::ALL.iter().map(|kind| endurance_weight(*kind)).collect(),
            pipeline: 6,
            pause: self.tick() / random.between(3, 8),
            calls_max: 2000,
            names: 3,
            watch_permille: 50,
            data_max: 200,
            session_timeout_ms: 10 * self.tick_ms,
            restless_permille: 0,
        };
    }

    /// A small ensemble that is hardly ever left alone: most bugs need few servers and many faults.
    fn roughen(&mut self, random: &mut Random) {
        self.voters = random.pick(&[3, 3, 3, 5]);
        self.fault_rate = random.between(3000, 8000);
        self.history_entries = random.between(2, 8) as usize;
        self.workload.calls_max = self.workload.calls_max.min(200);
        if random.permille(300) {
            self.observers = random.between(1, 2) as usize;
        }
        if random.permille(500) {
            self.disk.snap_count = random.between(2, 8);
        }
    }

    pub(crate) fn servers(&self) -> usize {
        self.voters + self.observers + self.spares
    }

    /// Whether servers agree with others: one that is alone need not.
    pub(crate) fn is_ensemble(&self) -> bool {
        self.servers() > 1 || self.members.is_some()
    }

    /// The members when the run begins.
    pub(crate) fn first_list(&self) -> List {
        let vote = |server: usize| if self.is_voter(server) { Vote::Has } else { Vote::Lacks };
        let seats = (0..self.voters + self.observers).map(|server| (server, Seat::usual(vote(server))));
        let groups = self.groups.iter().copied().enumerate().collect();
        List { version: 0, seats: seats.collect(), groups }
    }

    /// What the own file of a server says then: who is not on the list adds itself.
    pub(crate) fn own_list(&self, server: usize) -> List {
        let mut list = self.first_list();
        if let Some(members) = &self.members {
            list.seats.entry(server).or_insert(Seat::usual(members.joins_as));
        }
        list
    }

    /// The client that may change the members.
    pub(crate) fn operator(&self) -> Option<usize> {
        self.members.is_some().then(|| self.clients - 1)
    }

    pub(crate) fn is_voter(&self, server: usize) -> bool {
        server < self.voters
    }

    pub(crate) fn tick(&self) -> Time {
        self.tick_ms * MS
    }

    /// After this long without faults, a majority has to serve, and everything is answered.
    pub(crate) fn patience(&self) -> Time {
        let elections = 6 * (self.init_limit + self.sync_limit) * self.tick();
        let sessions = 4 * self.workload.session_timeout_ms * MS;
        elections + sessions + 20 * SECOND
    }
}

fn draw_latency(random: &mut Random, tick_ms: u64) -> Latency {
    let low = random.skewed(50, 2 * MS);
    let high = low + random.skewed(50, tick_ms * MS / 20);
    Latency { low, high, straggler_permille: random.pick(&[0, 0, 5, 50]) }
}

fn draw_disk(random: &mut Random) -> DiskShape {
    let sync_low = random.skewed(50, 5 * MS);
    DiskShape {
        sync_low,
        sync_high: sync_low + random.skewed(50, 20 * MS),
        preallocate: random.pick(&[0, 0, 4096, 16384]),
        size_max: random.pick(&[None, None, Some(2000), Some(20_000)]),
        snap_count: random.skewed(6, 1000),
        purge: PurgeShape::AfterSnapshots,
    }
}

fn draw_workload(random: &mut Random, tick_ms: u64) -> Workload {
    let mut weights: Vec<u64> = Vec::new();
    for _ in 0..Kind::ALL.len() {
        // A third of the operations is left out, the others differ by a factor of up to twenty.
        weights.push(if random.permille(330) { 0 } else { random.between(1, 20) });
    }
    // Something has to be created for the rest to mean anything.
    weights[0] = weights[0].max(3);
    let least_timeout_ms = 2 * tick_ms;
    Workload {
        weights,
        pipeline: random.pick(&[1, 1, 2, 4, 16]),
        pause: random.skewed(tick_ms * MS / 10, tick_ms * MS * 2),
        calls_max: random.skewed(20, 600),
        names: random.between(1, 6),
        watch_permille: random.pick(&[0, 100, 500, 900]),
        data_max: random.pick(&[8, 40, 40, 2000]),
        session_timeout_ms: random.between(least_timeout_ms, 10 * tick_ms),
        restless_permille: random.pick(&[0, 0, 0, 5, 50, 300]),
    }
}

/// Mostly writes to a few nodes, and reads that show how old a state is.
fn endurance_weight(kind: Kind) -> u64 {
    match kind {
        Kind::Create | Kind::CreateEphemeral | Kind::Delete | Kind::Multi | Kind::Sync => 2,
        Kind::Set => 20,
        Kind::Get => 5,
        _ => 0,
    }
}

fn draw_faults(random: &mut Random) -> Vec<u64> {
    FaultKind::ALL.iter().map(|_| if random.permille(500) { 0 } else { random.between(1, 10) }).collect()
}
