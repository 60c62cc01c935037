//! A run: servers, clients and faults in one event queue. First a phase in which anything may fail, then one
//! in which a majority is healed and has to answer everything.

mod client_feeds;
mod client_links;
mod clients;
mod faults;
mod healing;
mod operator;
mod phases;
mod private_counts;
mod servers;

use std::collections::BTreeSet;

use zebu_node::LocalSessionSupport;
use zebu_proto::txn::Txn;
use zebu_zab::LearnerPort;

use crate::check::g10_sync::SyncScope;
use crate::check::{Checker, CheckerLimits};
use crate::client::SimClient;
use crate::committed_history::ReconfigRights;
use crate::context::{RunCounts, SimContext, Trace};
use crate::coverage::CoveredPath;
use crate::fault_kind::FaultKind;
use crate::history::Violation;
use crate::network::{Delivered, Host, Network, Port, SocketId, SocketSide};
use crate::plan::PlannedFault;
use crate::queue::{Acceptance, MS, SimEvent, VirtualTime};
use crate::random::{DrawPurpose, SimRandom};
use crate::run_parameters::RunParameters;
use crate::server::SimServer;
use crate::server::start::tree_options;

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunPhase {
    /// Faults are injected.
    Safety,
    /// A majority was healed: everything has to be answered.
    Liveness,
    /// No client makes calls: all servers have to catch up.
    Convergence,
    Over,
}

/// A run.
pub(crate) struct World {
    core: SimContext,
    servers: Vec<SimServer>,
    clients: Vec<SimClient>,
    plan: Vec<PlannedFault>,
    phase: RunPhase,
    phase_ends: VirtualTime,
    /// Voters that are healed in the second phase.
    healed: Vec<usize>,
    random: SimRandom,
    /// The faults that were injected.
    injected: Vec<FaultKind>,
    /// Clients that were started, replacements included.
    born: u64,
    /// Connections of clients to ports without a listener.
    misdialed: BTreeSet<SocketId>,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct RunOutcome {
    pub(crate) violation: Option<Violation>,
    pub(crate) hash: u64,
    pub(crate) simulated: VirtualTime,
    pub(crate) injected: Vec<FaultKind>,
    pub(crate) counts: RunCounts,
    pub(crate) transactions: u64,
    pub(crate) answered: u64,
    pub(crate) watch_events: u64,
    pub(crate) trace: Vec<String>,
}

/// A run with more events than this has a loop.
const EVENTS_MAX: u64 = 3_000_000;

impl World {
    pub(crate) fn new(shape: RunParameters, plan: Vec<PlannedFault>, trace: Trace) -> World {
        let hosts = shape.servers() + shape.clients;
        let network = Network::new(hosts, shape.latency, SimRandom::new(shape.seed, DrawPurpose::Network));
        let rights = ReconfigRights {
            operator: shape.operator(),
            voters_min: shape.members.as_ref().map(|members| members.voters_min),
        };
        let limits = CheckerLimits {
            tick: shape.tick(),
            sync_limit: shape.sync_limit,
            transaction_bytes_max: shape.transaction_bytes_max,
            syncs: SyncScope::Leaders,
            kinds: shape.kinds,
        };
        let servers = shape.servers();
        let checker =
            Checker::new(shape.first_config(), rights, servers, shape.clients, limits, tree_options());
        let random = SimRandom::new(shape.seed, DrawPurpose::World);
        let mut world = World {
            servers: (0..shape.servers()).map(|_| SimServer::new()).collect(),
            clients: Vec::new(),
            plan,
            phase: RunPhase::Safety,
            phase_ends: shape.safety,
            healed: Vec::new(),
            random,
            injected: Vec::new(),
            born: 0,
            misdialed: BTreeSet::new(),
            core: SimContext::new(shape, network, checker, trace),
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        if let Some((far, extra)) = self.core.parameters.distant {
            for other in (0..self.servers.len()).filter(|other| *other != far) {
                self.core.network.slow_down(Host(far), Host(other), extra);
                self.core.network.slow_down(Host(other), Host(far), extra);
            }
        }
        for server in 0..self.servers.len() {
            let mut at = self.random.below(self.core.parameters.tick());
            // A server outside the config may start later.
            let is_spare = server >= self.core.parameters.voters + self.core.parameters.observers;
            let late_permille =
                self.core.parameters.members.as_ref().map_or(0, |members| members.late_permille);
            if is_spare && self.random.permille(late_permille) {
                at = self.random.below(self.core.parameters.safety);
            }
            self.core.push(at, SimEvent::Start { server, incarnation: 0 });
        }
        for client in 0..self.core.parameters.clients {
            let new = self.new_client(client);
            self.clients.push(new);
            let at = self.random.below(self.core.parameters.tick() * 2);
            self.core.push(at, SimEvent::ClientActs { client });
            self.drive(client);
        }
        for (index, planned) in self.plan.iter().enumerate() {
            self.core.push(planned.at, SimEvent::Fault { index });
        }
        self.core.push(self.phase_ends, SimEvent::NextPhase);
    }

    /// Corrupts bytes in transit.
    pub(crate) fn garble(&mut self) {
        self.core.garble = Some(SimRandom::new(self.core.parameters.seed, DrawPurpose::Garble));
    }

    /// Runs to the end, or to the first violation. With corrupted bytes, violations are ignored.
    pub(crate) fn run(mut self) -> RunOutcome {
        while self.phase != RunPhase::Over {
            if self.core.garble.is_some() {
                self.core.checker.violation = None;
            }
            if self.core.checker.violation.is_some() {
                break;
            }
            let Some((at, event)) = self.core.queue.pop() else { break };
            self.core.now = at;
            self.core.checker.now = at;
            self.core.counts.events += 1;
            if self.core.counts.events > EVENTS_MAX {
                let text = format!("more than {EVENTS_MAX} events in one run");
                self.core.checker.report(Err(crate::check::g09_timeliness::late(text)));
            }
            self.handle(event);
            self.check_leases();
            self.end_servers_at_breakpoints();
            self.look_for_end();
        }
        if self.core.checker.violation.is_none() {
            self.core.checker.finish();
        }
        let hash = self.core.hash();
        self.count_upgrades();
        self.count_private_requests();
        self.core.counts.configs = self.core.checker.committed.configs.len() as u64;
        let checker = self.core.checker;
        RunOutcome {
            violation: checker.violation,
            hash,
            simulated: self.core.now,
            injected: self.injected,
            counts: self.core.counts,
            transactions: checker.committed.len() as u64,
            answered: checker.answered,
            watch_events: checker.events,
            trace: self.core.trace.into_lines(),
        }
    }

    /// Counts the sessions that were local before.
    fn count_upgrades(&mut self) {
        if self.core.parameters.kinds.local_sessions == LocalSessionSupport::Off {
            return;
        }
        let entries = self.core.checker.committed.entries();
        let opened = entries.iter().filter(|entry| matches!(entry.entry.txn, Txn::CreateSession { .. }));
        for _ in 0..opened.count() {
            self.core.count(CoveredPath::LocalSessionUpgraded);
        }
    }

    fn handle(&mut self, event: SimEvent) {
        match event {
            SimEvent::Deliver { connection, to } => self.deliver(connection, to),
            SimEvent::ConnectRequest { connection } => self.connect_request(connection),
            SimEvent::ConnectAnswer { connection, accepted } => {
                if let Some(at) = self.is_busy_at(connection, SocketSide::Dialer) {
                    return self.core.push(at, SimEvent::ConnectAnswer { connection, accepted });
                }
                let dialer = self.core.network.host(connection, SocketSide::Dialer);
                if self.core.network.establish(connection, accepted) {
                    self.dial_answered(connection, dialer, accepted);
                }
            }
            SimEvent::DialTimeout { connection } => {
                if self.core.network.is_pending(connection) {
                    let now = self.core.now;
                    let dialer = self.core.network.host(connection, SocketSide::Dialer);
                    self.core.network.close(connection, SocketSide::Dialer, now, &mut self.core.queue);
                    self.dial_answered(connection, dialer, Acceptance::No);
                }
            }
            SimEvent::Notification { from, to, mut bytes } => {
                if self.core.network.is_cut(Host(from), Host(to)) {
                    return;
                }
                if let Some(at) = self.paused(to) {
                    return self.core.push(at, SimEvent::Notification { from, to, bytes });
                }
                self.core.mix_bytes(&bytes);
                self.core.garble(&mut bytes);
                self.with_process(to, |process, core| process.notified(from, &bytes, core));
            }
            SimEvent::ServerWake { .. }
            | SimEvent::ServerTurn { .. }
            | SimEvent::DiskDone { .. }
            | SimEvent::FilesWritten { .. }
            | SimEvent::RoomLook { .. }
            | SimEvent::FeedStep { .. }
            | SimEvent::StreamSlice { .. }
            | SimEvent::SnapshotStep { .. } => {
                self.server_event(event);
            }
            SimEvent::Start { server, incarnation } => self.start(server, incarnation),
            SimEvent::ClientWake { client } => self.wake_client(client),
            SimEvent::ClientActs { client } => self.client_acts(client),
            SimEvent::Probed { client, number, server, port } => self.probed(client, number, server, port),
            SimEvent::Fault { index } => self.inject(index),
            SimEvent::FaultEnds { index } => self.end_fault(index),
            // The phase has ended before its time.
            SimEvent::NextPhase if self.core.now < self.phase_ends => {}
            SimEvent::NextPhase => self.next_phase(),
        }
    }

    /// When a host reads again; `None` if it reads. A learner may stop reading one connection.
    fn is_busy_at(&self, connection: SocketId, side: SocketSide) -> Option<VirtualTime> {
        let Host(host) = self.core.network.host(connection, side)?;
        if host < self.servers.len() {
            let is_unread = self.servers[host].is_reading_paused(connection);
            return self.paused(host).or(is_unread.then(|| self.core.now + MS));
        }
        let until = self.clients[host - self.servers.len()].stalled_until;
        (until > self.core.now).then_some(until)
    }

    fn deliver(&mut self, connection: SocketId, to: SocketSide) {
        if let Some(at) = self.is_busy_at(connection, to) {
            let at = self.core.taken_up(at, connection.0);
            return self.core.push(at, SimEvent::Deliver { connection, to });
        }
        let Some(Host(host)) = self.core.network.host(connection, to) else { return };
        let sender = self.core.network.host(connection, to.other());
        let port = self.core.network.port(connection);
        let alive = self.servers.get(host).is_none_or(SimServer::is_up);
        let now = self.core.now;
        let delivery = self.core.network.deliver(connection, to, alive, now, &mut self.core.queue);
        self.core.mix(now ^ connection.0 << 40);
        match delivery {
            Delivered::Nothing => return,
            Delivered::Message(message) => {
                self.core.mix(message.len() as u64);
                if host >= self.servers.len() {
                    self.client_receives(host - self.servers.len(), connection, message);
                } else if port == Some(Port::Client) {
                    if let crate::network::NetworkMessage::Bytes(mut bytes) = message {
                        self.core.garble(&mut bytes);
                        self.with_process(host, |process, core| {
                            process.client_bytes(connection, &bytes, core)
                        });
                    }
                } else {
                    self.with_process(host, |process, core| process.peer_message(connection, message, core));
                }
            }
            Delivered::Ended => {
                if host >= self.servers.len() {
                    self.client_loses(host - self.servers.len(), connection);
                } else if port == Some(Port::Client) {
                    self.with_process(host, |process, core| process.client_gone(connection, core));
                } else {
                    self.with_process(host, |process, core| process.peer_gone(connection, core));
                }
            }
        }
        // There is room on the connection again.
        if let Some(Host(sender)) = sender.filter(|sender| sender.0 < self.servers.len())
            && self.paused(sender).is_none()
            && self.servers[sender].process().is_some_and(|process| process.has_backlog(connection))
        {
            self.with_process(sender, |process, core| process.settle(core));
        }
    }

    fn connect_request(&mut self, connection: SocketId) {
        // The system answers, not the process: a paused process accepts too.
        let Some(Host(host)) = self.core.network.host(connection, SocketSide::Listener) else { return };
        // A suspended machine does not answer.
        if let Some(at) = self.servers[host].clocks.suspended_until(self.core.now) {
            return self.core.push(at, SimEvent::ConnectRequest { connection });
        }
        // A client connects to a port without a listener.
        let is_client = self.core.network.port(connection) == Some(Port::Client);
        let stops = self.servers[host].process().is_some_and(|process| process.is_stopping());
        let is_up =
            self.servers[host].is_up() && !self.misdialed.remove(&connection) && !(is_client && stops);
        let accepted = if is_up { Acceptance::Yes } else { Acceptance::No };
        let now = self.core.now;
        self.core.network.answer(connection, accepted, now, &mut self.core.queue);
        if !is_up {
            return;
        }
        match self.core.network.port(connection) {
            Some(Port::Client) => self.with_process(host, |process, core| {
                process.accept_client(connection, core);
                Ok(())
            }),
            Some(Port::Quorum) => self.with_process(host, |process, core| {
                process.accept_peer(connection, LearnerPort::Quorum, core)
            }),
            Some(Port::ObserverMaster) => self.with_process(host, |process, core| {
                process.accept_peer(connection, LearnerPort::ObserverMaster, core)
            }),
            None => {}
        }
    }

    fn dial_answered(&mut self, connection: SocketId, dialer: Option<Host>, accepted: Acceptance) {
        match dialer {
            Some(Host(server)) if server < self.servers.len() => {
                self.with_process(server, |process, core| process.dial_answered(connection, accepted, core));
            }
            _ => self.client_dialed(connection, accepted),
        }
    }
}
