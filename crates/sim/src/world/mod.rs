//! A run: servers, clients and faults in one queue of events. First a phase in which anything may fail, then
//! one in which a majority is left alone and has to answer everything.

mod clients;
mod faults;
mod healing;
mod operator;
mod phases;
mod servers;

use std::collections::BTreeSet;

use crate::check::g10_sync::Across;
use crate::check::{Judge, Limits};
use crate::client::Client;
use crate::core::{Core, Counts, Trace};
use crate::history::Violation;
use crate::ledger::Rights;
use crate::network::{ConnectionId, Delivery, Host, Network, Port, Side};
use crate::plan::Planned;
use crate::queue::{Accepted, Event, Time};
use crate::random::Random;
use crate::server::Server;
use crate::server::start::tree_options;
use crate::shape::{FaultKind, Shape};

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Faults come.
    Safety,
    /// A majority was healed: everything has to be answered.
    Liveness,
    /// Nobody asks any more: everybody has to catch up.
    Convergence,
    Over,
}

/// A run.
pub(crate) struct World {
    core: Core,
    servers: Vec<Server>,
    clients: Vec<Client>,
    plan: Vec<Planned>,
    phase: Phase,
    phase_ends: Time,
    /// Voters that are left alone in the second phase.
    healed: Vec<usize>,
    random: Random,
    /// Which faults came.
    injected: Vec<FaultKind>,
    /// Clients that were started, replacements included.
    born: u64,
    /// Connections of clients to ports where nobody listens.
    misdialed: BTreeSet<ConnectionId>,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) violation: Option<Violation>,
    pub(crate) hash: u64,
    pub(crate) simulated: Time,
    pub(crate) injected: Vec<FaultKind>,
    pub(crate) counts: Counts,
    pub(crate) transactions: u64,
    pub(crate) answered: u64,
    pub(crate) watch_events: u64,
    pub(crate) trace: Vec<String>,
}

/// More than this for one run means that something goes round in circles.
const EVENTS_MAX: u64 = 3_000_000;

impl World {
    pub(crate) fn new(shape: Shape, plan: Vec<Planned>, trace: Trace) -> World {
        let hosts = shape.servers() + shape.clients;
        let network = Network::new(hosts, shape.latency, Random::new(shape.seed, 3));
        let rights = Rights {
            operator: shape.operator(),
            voters_min: shape.members.as_ref().map(|members| members.voters_min),
        };
        let limits = Limits {
            tick: shape.tick(),
            sync_limit: shape.sync_limit,
            transaction_bytes_max: shape.transaction_bytes_max,
            syncs: Across::Leaders,
        };
        let servers = shape.servers();
        let judge = Judge::new(shape.first_list(), rights, servers, shape.clients, limits, tree_options());
        let random = Random::new(shape.seed, 5);
        let mut world = World {
            servers: (0..shape.servers()).map(|_| Server::new()).collect(),
            clients: Vec::new(),
            plan,
            phase: Phase::Safety,
            phase_ends: shape.safety,
            healed: Vec::new(),
            random,
            injected: Vec::new(),
            born: 0,
            misdialed: BTreeSet::new(),
            core: Core::new(shape, network, judge, trace),
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        if let Some((far, extra)) = self.core.shape.distant {
            for other in (0..self.servers.len()).filter(|other| *other != far) {
                self.core.network.slow_down(Host(far), Host(other), extra);
                self.core.network.slow_down(Host(other), Host(far), extra);
            }
        }
        for server in 0..self.servers.len() {
            let mut at = self.random.below(self.core.shape.tick());
            // Who is on no list may come later.
            let is_spare = server >= self.core.shape.voters + self.core.shape.observers;
            let late_permille = self.core.shape.members.as_ref().map_or(0, |members| members.late_permille);
            if is_spare && self.random.permille(late_permille) {
                at = self.random.below(self.core.shape.safety);
            }
            self.core.push(at, Event::Start { server, incarnation: 0 });
        }
        for client in 0..self.core.shape.clients {
            let new = self.new_client();
            self.clients.push(new);
            let at = self.random.below(self.core.shape.tick() * 2);
            self.core.push(at, Event::ClientActs { client });
            self.drive(client);
        }
        for (index, planned) in self.plan.iter().enumerate() {
            self.core.push(planned.at, Event::Fault { index });
        }
        self.core.push(self.phase_ends, Event::NextPhase);
    }

    /// Lets bytes change on their way.
    pub(crate) fn garble(&mut self) {
        self.core.garble = Some(Random::new(self.core.shape.seed, 6));
    }

    /// Runs to the end, or to the first violation. With garbled bytes promises are broken, and it goes on.
    pub(crate) fn run(mut self) -> Outcome {
        while self.phase != Phase::Over {
            if self.core.garble.is_some() {
                self.core.judge.violation = None;
            }
            if self.core.judge.violation.is_some() {
                break;
            }
            let Some((at, event)) = self.core.queue.pop() else { break };
            self.core.now = at;
            self.core.judge.now = at;
            self.core.counts.events += 1;
            if self.core.counts.events > EVENTS_MAX {
                let text = format!("more than {EVENTS_MAX} events in one run");
                self.core.judge.note(Err(crate::check::g09_timeliness::late(text)));
            }
            self.handle(event);
            self.check_leases();
            self.spring_traps();
            self.look_for_end();
        }
        if self.core.judge.violation.is_none() {
            self.core.judge.finish();
        }
        let hash = self.core.hash();
        self.core.counts.lists = self.core.judge.ledger.chronicle.len() as u64;
        let judge = self.core.judge;
        Outcome {
            violation: judge.violation,
            hash,
            simulated: self.core.now,
            injected: self.injected,
            counts: self.core.counts,
            transactions: judge.ledger.len() as u64,
            answered: judge.answered,
            watch_events: judge.events,
            trace: self.core.trace.into_lines(),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Deliver { connection, to } => self.deliver(connection, to),
            Event::Knock { connection } => self.knock(connection),
            Event::Answered { connection, accepted } => {
                if let Some(at) = self.is_busy_at(connection, Side::Dialer) {
                    return self.core.push(at, Event::Answered { connection, accepted });
                }
                let dialer = self.core.network.host(connection, Side::Dialer);
                if self.core.network.establish(connection, accepted) {
                    self.dial_answered(connection, dialer, accepted);
                }
            }
            Event::DialTimeout { connection } => {
                if self.core.network.is_pending(connection) {
                    let now = self.core.now;
                    let dialer = self.core.network.host(connection, Side::Dialer);
                    self.core.network.close(connection, Side::Dialer, now, &mut self.core.queue);
                    self.dial_answered(connection, dialer, Accepted::No);
                }
            }
            Event::Notification { from, to, mut bytes } => {
                if self.core.network.is_cut(Host(from), Host(to)) {
                    return;
                }
                if let Some(at) = self.paused(to) {
                    return self.core.push(at, Event::Notification { from, to, bytes });
                }
                self.core.mix_bytes(&bytes);
                self.core.garble(&mut bytes);
                self.with_process(to, |process, core| process.notified(from, &bytes, core));
            }
            Event::ServerWake { .. }
            | Event::ServerTurn { .. }
            | Event::DiskDone { .. }
            | Event::FilesWritten { .. }
            | Event::SnapshotStep { .. } => {
                self.server_event(event);
            }
            Event::Start { server, incarnation } => self.start(server, incarnation),
            Event::ClientWake { client } => self.wake_client(client),
            Event::ClientActs { client } => self.client_acts(client),
            Event::Fault { index } => self.inject(index),
            Event::FaultEnds { index } => self.end_fault(index),
            // The phase that it was to end has ended before its time.
            Event::NextPhase if self.core.now < self.phase_ends => {}
            Event::NextPhase => self.next_phase(),
        }
    }

    /// When a host that does nothing now goes on; `None` if it does something.
    fn is_busy_at(&self, connection: ConnectionId, side: Side) -> Option<Time> {
        let Host(host) = self.core.network.host(connection, side)?;
        if host < self.servers.len() {
            return self.paused(host);
        }
        let until = self.clients[host - self.servers.len()].stalled_until;
        (until > self.core.now).then_some(until)
    }

    fn deliver(&mut self, connection: ConnectionId, to: Side) {
        if let Some(at) = self.is_busy_at(connection, to) {
            return self.core.push(at, Event::Deliver { connection, to });
        }
        let Some(Host(host)) = self.core.network.host(connection, to) else { return };
        let sender = self.core.network.host(connection, to.other());
        let port = self.core.network.port(connection);
        let alive = self.servers.get(host).is_none_or(Server::is_up);
        let now = self.core.now;
        let delivery = self.core.network.deliver(connection, to, alive, now, &mut self.core.queue);
        self.core.mix(now ^ connection.0 << 40);
        match delivery {
            Delivery::Nothing => return,
            Delivery::Message(message) => {
                self.core.mix(message.len() as u64);
                if host >= self.servers.len() {
                    self.client_receives(host - self.servers.len(), connection, message);
                } else if port == Some(Port::Client) {
                    if let crate::network::Message::Bytes(mut bytes) = message {
                        self.core.garble(&mut bytes);
                        self.with_process(host, |process, core| {
                            process.client_bytes(connection, &bytes, core)
                        });
                    }
                } else {
                    self.with_process(host, |process, core| process.peer_message(connection, message, core));
                }
            }
            Delivery::Ended => {
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

    fn knock(&mut self, connection: ConnectionId) {
        // The system answers, not the process: a paused one accepts too.
        let Some(Host(host)) = self.core.network.host(connection, Side::Listener) else { return };
        // A suspended machine answers nobody.
        if let Some(at) = self.servers[host].clocks.suspended_until(self.core.now) {
            return self.core.push(at, Event::Knock { connection });
        }
        // A client that comes to a port where nobody listens any more.
        let is_up = self.servers[host].is_up() && !self.misdialed.remove(&connection);
        let accepted = if is_up { Accepted::Yes } else { Accepted::No };
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
            Some(Port::Quorum) => {
                self.with_process(host, |process, core| process.accept_peer(connection, core))
            }
            None => {}
        }
    }

    fn dial_answered(&mut self, connection: ConnectionId, dialer: Option<Host>, accepted: Accepted) {
        match dialer {
            Some(Host(server)) if server < self.servers.len() => {
                self.with_process(server, |process, core| process.dial_answered(connection, accepted, core));
            }
            _ => self.client_dialed(connection, accepted),
        }
    }
}
