//! What a seed draws before a run begins: how large the ensemble is, how fast everything is, what the
//! clients do, and which faults come how often. Two seeds differ in kind, not only in order.

pub(crate) mod drains;
mod endurance;
mod kept_connections;
mod little_room;
mod private_requests;
mod server_kinds;
mod stalled_leaders;

use zebu_node::ListingSettings;
use zebu_tree::access::TRANSACTION_BYTES_MAX;
use zebu_zab::LAST_COUNTER;

use crate::client::OperationKind;
use crate::fault_kind::FaultKind;
use crate::members::{CLIENT_PORTS, EnsembleConfig, ServerSeat, VoteRight};
use crate::network::Latency;
use crate::queue::{MS, SECOND, VirtualTime};
use crate::random::{DrawPurpose, SimRandom};
pub(crate) use endurance::Endurance;
pub(crate) use kept_connections::ROUND_TICKS;
pub(crate) use little_room::{LittleRoom, ROOM, ROOM_ROUND_TICKS, ROOM_ROUNDS};
pub(crate) use server_kinds::ServerKinds;

/// The weights of the operations; zero disables one.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) weights: Vec<u64>,
    /// Calls of one client that may be outstanding.
    pub(crate) pipeline: usize,
    /// Mean pause between two bursts of calls.
    pub(crate) pause: VirtualTime,
    /// Calls of one client in the phase with faults.
    pub(crate) calls_max: u64,
    /// Different names at the top level.
    pub(crate) names: u64,
    /// How many of a thousand reads set a watch.
    pub(crate) watch_permille: u64,
    /// How many of a thousand reads say how fresh they must be.
    pub(crate) fresh_permille: u64,
    /// Largest data, in bytes.
    pub(crate) data_max: u64,
    pub(crate) session_timeout_ms: u64,
    /// How often per mille a client moves to another server when it has received a frame.
    pub(crate) restless_permille: u64,
    /// How many of a thousand calls are requests that ZooKeeper does not have.
    pub(crate) private_permille: u64,
}

/// How the disks behave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskParameters {
    /// Shortest and longest time of a sync.
    pub(crate) sync_low: VirtualTime,
    pub(crate) sync_high: VirtualTime,
    pub(crate) preallocate: u64,
    pub(crate) size_max: Option<u64>,
    pub(crate) snap_count: u64,
    pub(crate) purge: PurgeParameters,
}

/// Whether old files are purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurgeParameters {
    AfterSnapshots,
    /// As in every directory that was migrated from ZooKeeper.
    Off,
}

/// How the config of an ensemble may change.
#[derive(Clone, Debug)]
pub(crate) struct ReconfigParameters {
    /// How many voters must remain.
    pub(crate) voters_min: usize,
    /// How many reconfigs an operator requests.
    pub(crate) changes: u64,
    /// The role that servers outside the first config have in their own files.
    pub(crate) joins_as: VoteRight,
    /// How many of a thousand servers outside the config start later than the others.
    pub(crate) late_permille: u64,
    /// How many of a thousand calls concern the config.
    pub(crate) curious_permille: u64,
}

/// Runs with a small limit for transactions, of a thousand.
const SHORT_TRANSACTIONS_PERMILLE: u64 = 60;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunParameters {
    pub(crate) seed: u64,
    pub(crate) voters: usize,
    pub(crate) observers: usize,
    /// Servers outside the config when the run begins.
    pub(crate) spares: usize,
    /// The parameters of reconfig, if it is enabled. The last client is the operator then.
    pub(crate) members: Option<ReconfigParameters>,
    /// Group and weight of each voter; empty for majority quorums.
    pub(crate) groups: Vec<(i64, i64)>,
    pub(crate) clients: usize,
    pub(crate) tick_ms: u64,
    pub(crate) init_limit: u64,
    pub(crate) sync_limit: u64,
    /// Transactions that stay in memory for learners: few, so that every kind of synchronization happens.
    pub(crate) history_entries: usize,
    pub(crate) history_bytes: usize,
    pub(crate) latency: Latency,
    /// A server with slow links to its peers, and their extra latency. Its state is always a little older
    /// than that of its peers.
    pub(crate) distant: Option<(usize, VirtualTime)>,
    pub(crate) disk: DiskParameters,
    /// The longest time for which events of a server's node are batched; zero processes each at once.
    pub(crate) turn: VirtualTime,
    /// Transactions of an epoch, after which its leader hands over.
    pub(crate) last_counter: u32,
    pub(crate) workload: Workload,
    /// How long the phase with faults lasts.
    pub(crate) safety: VirtualTime,
    /// Faults per server and second, times a thousand.
    pub(crate) fault_rate: u64,
    pub(crate) fault_weights: Vec<u64>,
    /// The longest transaction, in bytes.
    pub(crate) transaction_bytes_max: usize,
    /// The kind of a long run, if this is one.
    pub(crate) endurance: Option<Endurance>,
    /// How often a leader stands still for longer than its followers wait.
    pub(crate) stalled_leaders: u64,
    /// So many clients, the first ones, call nothing but sync.
    pub(crate) syncing_clients: usize,
    /// The kinds of servers beside plain voters and observers.
    pub(crate) kinds: ServerKinds,
    /// The limits of lists: small in some runs, so that they take several slices and pages.
    pub(crate) listings: ListingSettings,
    /// A process that goes on takes its connections and timers in any order within this time; zero: as they
    /// came.
    pub(crate) resume_spread: VirtualTime,
}

impl RunParameters {
    pub(crate) fn draw(seed: u64) -> RunParameters {
        let mut random = SimRandom::new(seed, DrawPurpose::Parameters);
        let voters = 1 + random.weighted(&[8, 5, 45, 5, 25, 3, 9]);
        let observers = if voters > 1 { random.weighted(&[70, 20, 10]) } else { 0 };
        let tick_ms = random.pick(&[100, 100, 200, 200, 500, 1000, 2000]);
        let mut shape = RunParameters {
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
            stalled_leaders: 0,
            syncing_clients: 0,
            kinds: ServerKinds::DEFAULT,
            listings: ListingSettings::default(),
            resume_spread: 0,
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
        shape.draw_stalled_leaders();
        shape.draw_server_kinds();
        shape.draw_kept_connections();
        shape.draw_little_room();
        shape.draw_drains();
        shape.draw_private_requests();
        shape.make_room_in_attempts();
        shape
    }

    /// Some clients know so many addresses of distant servers that each attempt ends before the session is
    /// established. Their abandoned attempts would keep the servers busy forever, and no server could do
    /// better. Their sessions get longer timeouts, so that an attempt has time for every round trip.
    fn make_room_in_attempts(&mut self) {
        // A connection needs one round trip; then the request goes to the server, the leader and the
        // followers, and the reply all the way back.
        let way = 8 * self.latency.high + 5 * self.turn + 2 * self.disk.sync_high;
        if self.attempt() < way {
            self.workload.session_timeout_ms = self.addresses() * way.div_ceil(MS);
        }
    }

    /// How long a client waits for one server before it tries the next: each gets a share of the session
    /// timeout.
    fn attempt(&self) -> VirtualTime {
        const LEAST_MS: u64 = 200;
        (self.workload.session_timeout_ms / self.addresses()).max(LEAST_MS) * MS
    }

    /// How many addresses a client knows.
    fn addresses(&self) -> u64 {
        (self.client_ports().len() * self.servers()) as u64
    }

    /// The ports that clients try. With reconfig, a server may have moved to the other one.
    pub(crate) fn client_ports(&self) -> &'static [u16] {
        if self.members.is_some() { &CLIENT_PORTS } else { &CLIENT_PORTS[..1] }
    }

    /// Draws whether the config changes, and the kind of quorum. Drawn apart, after all others.
    fn draw_members(&mut self) {
        let mut random = SimRandom::new(self.seed, DrawPurpose::Members);
        if random.permille(350) {
            self.spares = random.between(1, 3).min(9 - self.servers() as u64) as usize;
            self.clients += 1;
            self.members = Some(ReconfigParameters {
                voters_min: random.pick(&[1, 2, 2]),
                changes: random.skewed(2, 40),
                joins_as: random.pick(&[VoteRight::Has, VoteRight::Lacks]),
                late_permille: 300,
                curious_permille: random.pick(&[0, 50, 300]),
            });
        } else if self.voters >= 3 && random.permille(150) {
            let groups = random.between(1, 3) as i64;
            // The first group has weight, so that there is a quorum.
            self.groups = (0..self.voters)
                .map(|voter| {
                    let weight = if voter == 0 { 1 } else { random.pick(&[0, 1, 1, 1, 2, 3]) };
                    (1 + random.below(groups as u64) as i64, weight)
                })
                .collect();
        }
    }

    /// Draws whether the transaction limit is so small that a session with a few ephemeral nodes closes
    /// without their names. Drawn apart.
    fn draw_transaction_limit(&mut self) {
        let mut random = SimRandom::new(self.seed, DrawPurpose::TransactionLimit);
        // Configurations are longer than that.
        if random.permille(SHORT_TRANSACTIONS_PERMILLE) && self.members.is_none() {
            self.transaction_bytes_max = random.between(250, 800) as usize;
        }
    }

    /// A small ensemble with frequent faults: most bugs need few servers and many faults.
    fn roughen(&mut self, random: &mut SimRandom) {
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

    /// Whether the servers form an ensemble; a single one may be standalone.
    pub(crate) fn is_ensemble(&self) -> bool {
        self.servers() > 1 || self.members.is_some()
    }

    /// The config when the run begins.
    pub(crate) fn first_config(&self) -> EnsembleConfig {
        let vote = |server: usize| if self.is_voter(server) { VoteRight::Has } else { VoteRight::Lacks };
        let seats = (0..self.voters + self.observers).map(|server| (server, ServerSeat::usual(vote(server))));
        let groups = self.groups.iter().copied().enumerate().collect();
        EnsembleConfig { version: 0, servers: seats.collect(), groups }
    }

    /// The config in a server's own file then: a server outside the config adds itself.
    pub(crate) fn own_config(&self, server: usize) -> EnsembleConfig {
        let mut list = self.first_config();
        if let Some(members) = &self.members {
            list.servers.entry(server).or_insert(ServerSeat::usual(members.joins_as));
        }
        list
    }

    /// The client that may reconfigure.
    pub(crate) fn operator(&self) -> Option<usize> {
        self.members.is_some().then(|| self.clients - 1)
    }

    pub(crate) fn is_voter(&self, server: usize) -> bool {
        server < self.voters
    }

    pub(crate) fn tick(&self) -> VirtualTime {
        self.tick_ms * MS
    }

    /// After this long without faults, a majority has to serve, and all requests are answered.
    pub(crate) fn healing_time(&self) -> VirtualTime {
        let elections = 6 * (self.init_limit + self.sync_limit) * self.tick();
        let sessions = 4 * self.workload.session_timeout_ms * MS;
        elections + sessions + 20 * SECOND
    }
}

fn draw_latency(random: &mut SimRandom, tick_ms: u64) -> Latency {
    let low = random.skewed(50, 2 * MS);
    let high = low + random.skewed(50, tick_ms * MS / 20);
    Latency { low, high, straggler_permille: random.pick(&[0, 0, 5, 50]) }
}

fn draw_disk(random: &mut SimRandom) -> DiskParameters {
    let sync_low = random.skewed(50, 5 * MS);
    DiskParameters {
        sync_low,
        sync_high: sync_low + random.skewed(50, 20 * MS),
        preallocate: random.pick(&[0, 0, 4096, 16384]),
        size_max: random.pick(&[None, None, Some(2000), Some(20_000)]),
        snap_count: random.skewed(6, 1000),
        purge: PurgeParameters::AfterSnapshots,
    }
}

fn draw_workload(random: &mut SimRandom, tick_ms: u64) -> Workload {
    let mut weights: Vec<u64> = Vec::new();
    for _ in 0..OperationKind::ALL.len() {
        // A third of the operations is left out, the others differ by a factor of up to twenty.
        weights.push(if random.permille(330) { 0 } else { random.between(1, 20) });
    }
    // Creates are required for the others to have an effect.
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
        private_permille: 0,
        fresh_permille: random.pick(&[0, 100, 500, 900]),
    }
}

fn draw_faults(random: &mut SimRandom) -> Vec<u64> {
    FaultKind::ALL.iter().map(|_| if random.permille(500) { 0 } else { random.between(1, 10) }).collect()
}
