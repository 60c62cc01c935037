//! The session machine's state and what its driver may ask of it. How it connects, what it makes of
//! received bytes and what it does when time passes stand in the files of those names.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use zebu_proto::client::WatcherType;
use zebu_proto::{Jute, OpCode};

use super::action::Action;
use super::connect_string::ServerAddress;
use super::failure::{Cause, Delivery, Failure};
use super::frames::{self, Input};
use super::hosts::{Hosts, Rebalance};
use super::lease::{Lease, is_decided_by_leader};
use super::phase::{Ending, LinkId, Phase, Use};
use super::queue::{Credential, InFlight, Purpose, Waiting, units};
use super::random::Random;
use super::request::{Request, WatchRegistration};
use super::settings::{SessionCredentials, Settings};
use super::status::{SessionInfo, SessionState, Status};
use super::watch_table::{EventKind, KeepPersistent, WatchEvent, WatchTable, WatcherId};

/// Where a session was made: one of a read-only server is not valid anywhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    ReadWrite,
    ReadOnly,
}

/// The session that this client holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) credentials: SessionCredentials,
    pub(super) origin: Origin,
}

/// Whether the servers know removeWatches (3.5 and later).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removal {
    Known,
    Unknown,
}

/// The machine. `T` is whatever the caller wants back with the end of a call.
#[derive(Debug)]
pub struct Session<T> {
    pub(super) settings: Settings,
    pub(super) random: Random,
    pub(super) hosts: Hosts,
    pub(super) phase: Phase,
    pub(super) links: u64,
    pub(super) held: Option<Held>,
    pub(super) epoch: u64,
    pub(super) timeout: Duration,
    /// The latest state that a reply has shown: watches are registered again from here.
    pub(super) last_zxid: i64,
    /// The latest change that an event has told of. Others of the same change may still be on their way, so it
    /// counts for the choice of a server only.
    pub(super) told_zxid: i64,
    pub(super) last_xid: i32,
    pub(super) credentials: Vec<Credential<T>>,
    pub(super) queue: VecDeque<Waiting<T>>,
    pub(super) in_flight: VecDeque<InFlight<T>>,
    /// The sum of what the calls in flight count.
    pub(super) in_flight_units: u32,
    /// Which credential each awaited auth reply is for.
    pub(super) auth_in_flight: VecDeque<usize>,
    pub(super) pings: VecDeque<Instant>,
    pub(super) close_tickets: Vec<T>,
    pub(super) input: Input,
    pub(super) output: Vec<u8>,
    pub(super) watches: WatchTable,
    /// Watchers that went before their registration was answered.
    pub(super) abandoned: BTreeSet<WatcherId>,
    pub(super) removal: Removal,
    pub(super) actions: VecDeque<Action<T>>,
    pub(super) last_received: Option<Instant>,
    pub(super) last_sent: Instant,
    pub(super) lease: Lease,
    pub(super) losses: u64,
    pub(super) state: SessionState,
}

impl<T> Session<T> {
    /// A machine that begins to connect at once.
    pub fn new(settings: Settings, servers: &[ServerAddress], seed: u64, now: Instant) -> Session<T> {
        let mut random = Random::new(seed);
        let hosts = Hosts::new(servers, &mut random);
        let held = settings.resume.map(|credentials| Held { credentials, origin: Origin::ReadWrite });
        let mut session = Session {
            timeout: settings.session_timeout,
            settings,
            random,
            hosts,
            phase: Phase::Ended(Ending::Closed),
            links: 0,
            held,
            epoch: 0,
            last_zxid: 0,
            told_zxid: 0,
            last_xid: 0,
            credentials: Vec::new(),
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            in_flight_units: 0,
            auth_in_flight: VecDeque::new(),
            pings: VecDeque::new(),
            close_tickets: Vec::new(),
            input: Input::default(),
            output: Vec::new(),
            watches: WatchTable::default(),
            abandoned: BTreeSet::new(),
            removal: Removal::Known,
            actions: VecDeque::new(),
            last_received: None,
            last_sent: now,
            lease: Lease::new(),
            losses: 0,
            state: SessionState::Connecting,
        };
        session.plan_attempt(now);
        session
    }

    /// The next thing to do; ask until there is none.
    pub fn poll_action(&mut self) -> Option<Action<T>> {
        self.actions.pop_front()
    }

    /// How the session stands.
    pub fn status(&self) -> Status {
        let session = SessionInfo {
            id: self.held.map(|held| held.credentials.id).unwrap_or_default(),
            epoch: self.epoch,
            timeout: self.timeout,
            server: self.server(),
        };
        Status { state: self.state, session }
    }

    /// What another client needs to take the session over.
    pub fn credentials(&self) -> Option<SessionCredentials> {
        self.held.filter(|held| held.origin == Origin::ReadWrite).map(|held| held.credentials)
    }

    /// Until when no server can have expired the session: the timeout after the last message that the leader is
    /// known to have heard of. Answers to pings and reads prove nothing; those to the handshake with a server that
    /// takes writes, to syncs and to writes do. It moves all the time only while somebody relies on it.
    pub fn lease_deadline(&self) -> Option<Instant> {
        match self.phase {
            // A server may end it at any moment, or has ended it.
            Phase::Connected { use_: Use::Closing { .. } | Use::HandingOver { .. }, .. }
            | Phase::Ended(_) => None,
            Phase::Connected { .. }
            | Phase::Waiting { .. }
            | Phase::Opening { .. }
            | Phase::Handshake { .. } => self.lease.until(),
        }
    }

    /// Somebody relies on the lease: from now on it is renewed, by a sync three to five times in a timeout.
    pub fn keep_lease(&mut self, now: Instant) {
        self.lease.rely();
        // At once, so that what the caller does next is behind it.
        self.renew_if_due(now);
    }

    /// Whether somebody relies on the lease.
    pub fn keeps_lease(&self) -> bool {
        self.lease.is_relied_on()
    }

    /// Somebody who relied on the lease does not any more.
    pub fn let_lease_go(&mut self) {
        self.lease.unrely();
    }

    /// Takes a call. Its end comes as [`Action::Complete`], exactly once.
    pub fn submit(&mut self, now: Instant, request: Request, ticket: T) {
        let refused = match &self.phase {
            Phase::Ended(ending) => Some(cause_of(*ending)),
            Phase::Connected { use_: Use::Closing { .. } | Use::HandingOver { .. }, .. } => {
                Some(Cause::Closed)
            }
            _ if self.queue.len() >= self.settings.queue_limit => Some(Cause::QueueFull),
            _ if request.losses_seen < self.losses => Some(Cause::ConnectionLost),
            _ => None,
        };
        if let Some(cause) = refused {
            return self.fail_call(ticket, cause, Delivery::NotSent);
        }
        if let Some(watch) = &request.watch {
            self.watches.expect(watch.watcher, watch.intent, &watch.path);
        }
        self.queue.push_back(Waiting {
            op: request.op,
            body: request.body,
            purpose: Purpose::Call { ticket, watch: request.watch },
            deadline: now + self.settings.connection_timeout,
        });
    }

    /// Adds a credential for this and every later connection. Its end comes once a server has answered.
    pub fn add_auth(&mut self, now: Instant, scheme: &str, secret: Bytes, ticket: T) {
        if let Phase::Ended(ending) = &self.phase {
            let cause = cause_of(*ending);
            return self.fail_call(ticket, cause, Delivery::NotSent);
        }
        let same = |known: &Credential<T>| {
            known.ticket.is_none() && *known.scheme == *scheme && known.secret == secret
        };
        let index = match self.credentials.iter().position(same) {
            Some(index) => {
                self.credentials[index].ticket = Some(ticket);
                index
            }
            None => {
                self.credentials.push(Credential { scheme: scheme.into(), secret, ticket: Some(ticket) });
                self.credentials.len() - 1
            }
        };
        if matches!(self.phase, Phase::Connected { .. }) {
            self.send_credential(now, index);
        }
    }

    /// A watcher has gone. The server's watch goes with the last one.
    pub fn unwatch(&mut self, now: Instant, watcher: WatcherId) {
        match self.watches.remove(watcher) {
            Some((watcher_type, path)) => self.remove_watch(now, watcher_type, path),
            None => {
                // Not registered: spent, shared with others, or its registration is still on its way.
                if self.watches.is_registering(watcher) {
                    self.abandoned.insert(watcher);
                }
            }
        }
    }

    /// Takes a new list of servers and moves if the load should spread over it.
    pub fn set_servers(&mut self, now: Instant, servers: &[ServerAddress]) {
        if servers.is_empty() {
            return;
        }
        let current = match &self.phase {
            Phase::Connected { link, .. } => Some(link.address.clone()),
            _ => None,
        };
        match self.hosts.update(servers, current.as_ref(), &mut self.random) {
            Rebalance::Stay => {}
            Rebalance::Move => self.leave(now),
        }
    }

    /// Ends the session. Calls taken before are answered first.
    pub fn close(&mut self, now: Instant, ticket: T) {
        self.close_tickets.push(ticket);
        let deadline = now + self.timeout / 3;
        match &mut self.phase {
            Phase::Connected { use_: Use::Closing { .. }, .. } => {}
            // The session is another client's soon: it is not closed, only this machine ends.
            Phase::Connected { use_: Use::HandingOver { .. }, .. } => {}
            Phase::Connected { use_, .. } => {
                *use_ = Use::Closing { deadline };
                let (op, body) = (OpCode::CloseSession, Bytes::new());
                self.queue.push_back(Waiting { op, body, purpose: Purpose::Close, deadline });
            }
            Phase::Waiting { .. } | Phase::Opening { .. } | Phase::Handshake { .. } => {
                self.end(Ending::Closed);
            }
            Phase::Ended(ending) => {
                let cause = cause_of(*ending);
                self.answer_closers(cause);
            }
        }
    }

    /// Ends the machine and leaves the session to another client, which these credentials are for. Calls taken before are
    /// answered first. `None` if there is no session that can be handed over; then nothing happens.
    pub fn hand_over(&mut self, now: Instant) -> Option<SessionCredentials> {
        let credentials = self.credentials()?;
        let deadline = now + self.timeout / 3;
        match &mut self.phase {
            Phase::Connected { use_: use_ @ (Use::Serving | Use::Leaving { .. }), .. } => {
                *use_ = Use::HandingOver { deadline };
                self.hand_over_if_idle();
            }
            Phase::Connected { use_: Use::HandingOver { .. }, .. } => {}
            Phase::Waiting { .. } | Phase::Opening { .. } | Phase::Handshake { .. } => {
                self.end(Ending::Closed);
            }
            // It is ended on purpose, or gone.
            Phase::Connected { use_: Use::Closing { .. }, .. } | Phase::Ended(_) => return None,
        }
        Some(credentials)
    }

    /// Appends what is to be written now. Everything that comes out counts as sent.
    pub fn poll_write(&mut self, now: Instant, out: &mut Vec<u8>) {
        let before = out.len();
        out.append(&mut self.output);
        while out.len() - before < self.settings.batch_limit && self.may_send_next() {
            let Some(waiting) = self.queue.pop_front() else { break };
            let xid = self.next_xid();
            frames::request(xid, waiting.op, &waiting.body, out);
            self.sent(now, xid, waiting.op, waiting.purpose, units(&waiting.body));
        }
        if out.len() > before {
            self.last_sent = now;
        }
    }

    /// Whether [`Session::poll_write`] has something to give.
    pub fn wants_write(&self) -> bool {
        !self.output.is_empty() || self.may_send_next()
    }

    /// Whether there is a call in the queue that may be written now. Only its head is looked at: a smaller call that
    /// fits must not pass a larger one that does not.
    fn may_send_next(&self) -> bool {
        let sends = matches!(&self.phase, Phase::Connected { use_, .. } if use_.sends());
        let Some(next) = self.queue.front().filter(|_| sends) else { return false };
        let taken = self.in_flight_units;
        taken == 0 || taken.saturating_add(units(&next.body)) <= self.settings.in_flight_limit
    }

    /// How often calls were lost with a connection. A driver shows the number to callers before it ends the
    /// calls that were lost, and callers put it into their next [`Request`]: so no call overtakes a lost one
    /// that it was made after.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// Calls that were taken and have not ended.
    pub fn outstanding(&self) -> usize {
        self.queue.len() + self.in_flight.len()
    }

    /// Positive numbers, in a circle.
    pub(super) fn next_xid(&mut self) -> i32 {
        self.last_xid = if self.last_xid == i32::MAX { 1 } else { self.last_xid + 1 };
        self.last_xid
    }

    pub(super) fn server(&self) -> Option<Arc<str>> {
        self.phase.link().map(|link| link.name.clone())
    }

    pub(super) fn current_link(&self, link: LinkId) -> bool {
        self.phase.link().is_some_and(|current| current.id == link)
    }

    pub(super) fn set_state(&mut self, state: SessionState) {
        if self.state != state {
            self.state = state;
            let status = self.status();
            self.actions.push_back(Action::Status(status));
        }
    }

    /// Puts a request of the machine's own in front of everything that waits.
    pub(super) fn send_now(&mut self, now: Instant, op: OpCode, body: &[u8], purpose: Purpose<T>) {
        let xid = self.next_xid();
        frames::request(xid, op, body, &mut self.output);
        self.sent(now, xid, op, purpose, 0);
    }

    fn sent(&mut self, now: Instant, xid: i32, op: OpCode, purpose: Purpose<T>, units: u32) {
        let decided = is_decided_by_leader(op);
        let proves = if decided { self.lease.proof(now, self.timeout) } else { None };
        self.in_flight_units = self.in_flight_units.saturating_add(units);
        self.in_flight.push_back(InFlight { xid, purpose, sent_at: now, units, proves });
    }

    pub(super) fn send_credential(&mut self, now: Instant, index: usize) {
        let credential = &self.credentials[index];
        frames::auth(&credential.scheme, &credential.secret, &mut self.output);
        self.auth_in_flight.push_back(index);
        self.last_sent = now;
    }

    pub(super) fn remove_watch(&mut self, now: Instant, watcher_type: WatcherType, path: Box<str>) {
        // Without a connection there is nothing to remove: a server keeps watches for a connection only.
        let connected = matches!(self.phase, Phase::Connected { .. });
        if !connected || self.removal == Removal::Unknown {
            return;
        }
        let mut body = Vec::new();
        path.encode(&mut body);
        watcher_type.wire().encode(&mut body);
        self.send_now(now, OpCode::RemoveWatches, &body, Purpose::Unwatch { watcher_type, path });
    }

    pub(super) fn fail_call(&mut self, ticket: T, cause: Cause, delivery: Delivery) {
        let failure = Failure { cause, delivery, server: self.server() };
        self.actions.push_back(Action::Complete { ticket, outcome: Err(failure) });
    }

    /// Ends a request without an answer.
    pub(super) fn fail(&mut self, purpose: Purpose<T>, cause: Cause, delivery: Delivery) {
        match purpose {
            Purpose::Call { ticket, watch } => {
                if let Some(watch) = watch {
                    self.forget_registration(&watch);
                }
                self.fail_call(ticket, cause, delivery);
            }
            Purpose::Rewatch { .. } | Purpose::Unwatch { .. } | Purpose::Renew | Purpose::Close => {}
        }
    }

    pub(super) fn forget_registration(&mut self, watch: &WatchRegistration) {
        self.watches.settle(watch.watcher, watch.intent, &watch.path);
        self.abandoned.remove(&watch.watcher);
    }

    pub(super) fn fail_in_flight(&mut self, cause: &Cause) {
        self.losses += u64::from(!self.in_flight.is_empty());
        self.in_flight_units = 0;
        for sent in std::mem::take(&mut self.in_flight) {
            self.fail(sent.purpose, cause.clone(), Delivery::Sent);
        }
    }

    pub(super) fn fail_queue(&mut self, cause: &Cause) {
        self.losses += u64::from(!self.queue.is_empty());
        for waiting in std::mem::take(&mut self.queue) {
            self.fail(waiting.purpose, cause.clone(), Delivery::NotSent);
        }
    }

    pub(super) fn lose_watches(&mut self, keep: KeepPersistent) {
        for (watcher, path) in self.watches.take_lost(keep) {
            let event = WatchEvent { kind: EventKind::WatchLost, path: Arc::from(path), zxid: None };
            self.actions.push_back(Action::Notify { watcher, event });
        }
    }

    /// Stops for good.
    pub(super) fn end(&mut self, ending: Ending) {
        let cause = cause_of(ending);
        if let Some(link) = self.phase.link() {
            self.actions.push_back(Action::Drop { link: link.id });
        }
        self.fail_in_flight(&cause);
        self.fail_queue(&cause);
        self.phase = Phase::Ended(ending);
        for index in 0..self.credentials.len() {
            if let Some(ticket) = self.credentials[index].ticket.take() {
                self.fail_call(ticket, cause.clone(), Delivery::Sent);
            }
        }
        self.lose_watches(KeepPersistent::No);
        self.output.clear();
        self.input.clear();
        self.set_state(match ending {
            Ending::Closed => SessionState::Closed,
            Ending::Expired => SessionState::Expired,
            Ending::AuthFailed => SessionState::AuthFailed,
        });
        self.answer_closers(cause);
        self.actions.push_back(Action::End);
    }

    /// Whoever asked to close is told how it ended; "closed" here means that no server has confirmed it.
    fn answer_closers(&mut self, cause: Cause) {
        for ticket in std::mem::take(&mut self.close_tickets) {
            self.fail_call(ticket, cause.clone(), Delivery::NotSent);
        }
    }
}

pub(super) fn cause_of(ending: Ending) -> Cause {
    match ending {
        Ending::Closed => Cause::Closed,
        Ending::Expired => Cause::SessionExpired,
        Ending::AuthFailed => Cause::AuthFailed,
    }
}
