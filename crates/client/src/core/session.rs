//! The state of the session machine and its interface for the driver. connecting.rs, receive.rs and timers.rs
//! hold the reactions to connections, bytes and time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use zebu_proto::client::WatcherType;
use zebu_proto::{Jute, OpCode};

use super::action::SessionAction;
use super::connect_string::ServerAddress;
use super::failure::{CallFailure, Cause, Delivery, cause_of};
use super::feeds::ConnectionFeeds;
use super::frames::{self, FrameBuffer};
use super::host_provider::{HostProvider, Rebalance};
use super::lease::SessionLease;
use super::moving::Moves;
use super::phase::{ConnectionUse, LinkId, SessionEnding, SessionPhase};
use super::queue::{AuthCredential, InFlightRequest, QueuedRequest, RequestPurpose, units};
use super::random::Random;
use super::request::WatchRegistration;
use super::settings::{SessionCredentials, SessionSettings};
use super::status::{SessionInfo, SessionState, SessionStatus};
use super::watch_table::{EventKind, WatchEvent, WatchTable, WatcherId};

/// The origin of a session: a session of a read-only server is valid only there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionOrigin {
    ReadWrite,
    ReadOnly,
}

/// The client's current session.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurrentSession {
    pub(super) credentials: SessionCredentials,
    pub(super) origin: SessionOrigin,
}

/// The session machine. `T` is the caller's token for a call.
#[derive(Debug)]
pub struct SessionMachine<T> {
    pub(super) settings: SessionSettings,
    pub(super) random: Random,
    pub(super) host_provider: HostProvider,
    pub(super) phase: SessionPhase,
    pub(super) links: u64,
    pub(super) current: Option<CurrentSession>,
    pub(super) epoch: u64,
    /// The epoch of the last connection that served.
    pub(super) served_epoch: u64,
    pub(super) timeout: Duration,
    /// The newest zxid of any reply; setWatches registers watches relative to it.
    pub(super) last_zxid: i64,
    /// The newest zxid of any watch event or push of a feed. Further events of the same transaction may be in flight, so it
    /// only affects the choice of a server.
    pub(super) event_zxid: i64,
    pub(super) last_xid: i32,
    pub(super) credentials: Vec<AuthCredential<T>>,
    pub(super) queue: VecDeque<QueuedRequest<T>>,
    pub(super) in_flight: VecDeque<InFlightRequest<T>>,
    /// The sum of the units of all calls in flight.
    pub(super) in_flight_units: u32,
    /// The credential index of each pending auth reply.
    pub(super) auth_in_flight: VecDeque<usize>,
    pub(super) pings: VecDeque<Instant>,
    pub(super) close_tokens: Vec<T>,
    pub(super) input: FrameBuffer,
    pub(super) output: Vec<u8>,
    pub(super) watches: WatchTable,
    /// Watchers that were dropped before the reply to their registration.
    pub(super) abandoned: BTreeSet<WatcherId>,
    pub(super) supports_remove_watches: bool,
    pub(super) actions: VecDeque<SessionAction<T>>,
    pub(super) last_received: Option<Instant>,
    pub(super) last_sent: Instant,
    pub(super) lease: SessionLease,
    pub(super) moves: Moves,
    pub(super) feeds: ConnectionFeeds,
    pub(super) disconnects: u64,
    pub(super) state: SessionState,
}

impl<T> SessionMachine<T> {
    /// A machine that starts to connect at once.
    pub fn new(
        settings: SessionSettings,
        servers: &[ServerAddress],
        seed: u64,
        now: Instant,
    ) -> SessionMachine<T> {
        let mut random = Random::new(seed);
        let host_provider = HostProvider::new(servers, &mut random);
        let current = settings
            .resume
            .map(|credentials| CurrentSession { credentials, origin: SessionOrigin::ReadWrite });
        let mut session = SessionMachine {
            timeout: settings.session_timeout,
            settings,
            random,
            host_provider,
            phase: SessionPhase::Ended(SessionEnding::Closed),
            links: 0,
            current,
            epoch: 0,
            served_epoch: 0,
            last_zxid: 0,
            event_zxid: 0,
            last_xid: 0,
            credentials: Vec::new(),
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            in_flight_units: 0,
            auth_in_flight: VecDeque::new(),
            pings: VecDeque::new(),
            close_tokens: Vec::new(),
            input: FrameBuffer::default(),
            output: Vec::new(),
            watches: WatchTable::default(),
            abandoned: BTreeSet::new(),
            supports_remove_watches: true,
            actions: VecDeque::new(),
            last_received: None,
            last_sent: now,
            lease: SessionLease::new(),
            moves: Moves::default(),
            feeds: ConnectionFeeds::default(),
            disconnects: 0,
            state: SessionState::Connecting,
        };
        session.schedule_connect(now);
        session
    }

    /// The next action; call it until it returns `None`.
    pub fn poll_action(&mut self) -> Option<SessionAction<T>> {
        self.actions.pop_front()
    }

    /// The state of the session.
    pub fn status(&self) -> SessionStatus {
        let session = SessionInfo {
            id: self.current.map(|current| current.credentials.id).unwrap_or_default(),
            epoch: self.epoch,
            timeout: self.timeout,
            server: self.server(),
        };
        SessionStatus { state: self.state, session }
    }

    /// The credentials with which another client can resume the session.
    pub fn credentials(&self) -> Option<SessionCredentials> {
        self.current
            .filter(|current| current.origin == SessionOrigin::ReadWrite)
            .map(|current| current.credentials)
    }

    /// The time until which no server can have expired the session: the timeout after the last message that
    /// certainly reached the leader. Replies to pings and reads prove nothing. Replies to syncs, writes and
    /// the handshake with a read-write server do.
    pub fn lease_deadline(&self) -> Option<Instant> {
        match self.phase {
            // A server may close the session at any moment, or has closed it.
            SessionPhase::Connected {
                usage: ConnectionUse::Closing { .. } | ConnectionUse::HandingOver { .. },
                ..
            }
            | SessionPhase::Ended(_) => None,
            SessionPhase::Connected { .. }
            | SessionPhase::Waiting { .. }
            | SessionPhase::Opening { .. }
            | SessionPhase::Handshake { .. }
            | SessionPhase::Authenticating { .. } => self.lease.until(),
        }
    }

    /// Adds a credential for this and every later connection. The outcome comes with the reply of a server.
    pub fn add_auth(&mut self, now: Instant, scheme: &str, secret: Bytes, token: T) {
        if let SessionPhase::Ended(ending) = &self.phase {
            let cause = cause_of(*ending);
            return self.fail_call(token, cause, Delivery::NotSent);
        }
        let same = |known: &AuthCredential<T>| {
            known.token.is_none() && *known.scheme == *scheme && known.secret == secret
        };
        let index = match self.credentials.iter().position(same) {
            Some(index) => {
                self.credentials[index].token = Some(token);
                index
            }
            None => {
                self.credentials.push(AuthCredential { scheme: scheme.into(), secret, token: Some(token) });
                self.credentials.len() - 1
            }
        };
        if matches!(self.phase, SessionPhase::Connected { .. }) {
            self.send_credential(now, index);
        }
    }

    /// Removes a watcher. The last watcher of a path removes the server's watch.
    pub fn unwatch(&mut self, now: Instant, watcher: WatcherId) {
        match self.watches.remove(watcher) {
            Some((watcher_type, path)) => self.remove_watch(now, watcher_type, path),
            None => {
                // Not registered: it has fired, other watchers share the watch, or its registration is in
                // flight.
                if self.watches.is_registering(watcher) {
                    self.abandoned.insert(watcher);
                }
            }
        }
    }

    /// Replaces the list of servers, and moves to another one if re-balancing demands it.
    pub fn set_servers(&mut self, now: Instant, servers: &[ServerAddress]) {
        if servers.is_empty() {
            return;
        }
        let current = match &self.phase {
            SessionPhase::Connected { link, .. } => Some(link.address.clone()),
            _ => None,
        };
        match self.host_provider.update(servers, current.as_ref(), &mut self.random) {
            Rebalance::Stay => {}
            Rebalance::Move => self.move_to_other_server(now),
        }
    }

    /// Closes the session. Earlier calls are answered first.
    pub fn close(&mut self, now: Instant, token: T) {
        self.close_tokens.push(token);
        self.drop_spare();
        let deadline = now + self.timeout / 3;
        match &mut self.phase {
            SessionPhase::Connected { usage: ConnectionUse::Closing { .. }, .. } => {}
            // Another client takes over the session: only this machine ends.
            SessionPhase::Connected { usage: ConnectionUse::HandingOver { .. }, .. } => {}
            SessionPhase::Connected { usage, .. } => {
                *usage = ConnectionUse::Closing { deadline };
                let (op, body) = (OpCode::CloseSession, Bytes::new());
                self.queue.push_back(QueuedRequest { op, body, purpose: RequestPurpose::Close, deadline });
            }
            SessionPhase::Waiting { .. }
            | SessionPhase::Opening { .. }
            | SessionPhase::Handshake { .. }
            | SessionPhase::Authenticating { .. } => self.end(SessionEnding::Closed),
            SessionPhase::Ended(ending) => {
                let cause = cause_of(*ending);
                self.fail_closers(cause);
            }
        }
    }

    /// Ends the machine and leaves the session to another client. Earlier calls are answered first. Returns
    /// `None`, without any effect, if there is no session to hand over.
    pub fn hand_over(&mut self, now: Instant) -> Option<SessionCredentials> {
        let credentials = self.credentials()?;
        self.drop_spare();
        let deadline = now + self.timeout / 3;
        match &mut self.phase {
            SessionPhase::Connected {
                usage: usage @ (ConnectionUse::Serving | ConnectionUse::Leaving { .. }),
                ..
            } => {
                *usage = ConnectionUse::HandingOver { deadline };
                self.hand_over_if_idle();
            }
            SessionPhase::Connected { usage: ConnectionUse::HandingOver { .. }, .. } => {}
            SessionPhase::Waiting { .. }
            | SessionPhase::Opening { .. }
            | SessionPhase::Handshake { .. }
            | SessionPhase::Authenticating { .. } => self.end(SessionEnding::Closed),
            // The session is closing or closed.
            SessionPhase::Connected { usage: ConnectionUse::Closing { .. }, .. } | SessionPhase::Ended(_) => {
                return None;
            }
        }
        Some(credentials)
    }

    /// Appends the bytes to write. All of them count as sent.
    pub fn poll_write(&mut self, now: Instant, out: &mut Vec<u8>) {
        let before = out.len();
        out.append(&mut self.output);
        while out.len() - before < self.settings.batch_limit && self.may_send_next() {
            let Some(waiting) = self.queue.pop_front() else { break };
            let xid = self.next_xid();
            frames::request(xid, waiting.op, &waiting.body, out);
            let proves = self.lease.provable_send_time(waiting.op, now, self.timeout);
            let (purpose, units) = (waiting.purpose, units(&waiting.body));
            self.push_in_flight(InFlightRequest { xid, purpose, sent_at: now, units, proves });
        }
        if out.len() > before {
            self.last_sent = now;
        }
    }

    /// Whether [`SessionMachine::poll_write`] has bytes to write.
    pub fn wants_write(&self) -> bool {
        !self.output.is_empty() || self.may_send_next()
    }

    /// Whether the first queued call may be sent now. Only the head counts: a smaller call must not overtake
    /// a larger one.
    fn may_send_next(&self) -> bool {
        let sends = matches!(&self.phase, SessionPhase::Connected { usage, .. } if usage.sends());
        let Some(next) = self.queue.front().filter(|_| sends) else { return false };
        let taken = self.in_flight_units;
        taken == 0 || taken.saturating_add(units(&next.body)) <= self.settings.in_flight_limit
    }

    /// The number of disconnects that lost calls. The driver publishes it before it completes the lost calls,
    /// and callers copy it into their next [request](super::SessionRequest). Hence no call overtakes a lost
    /// one that was made before it.
    pub fn disconnects(&self) -> u64 {
        self.disconnects
    }

    /// The number of calls without an outcome.
    pub fn outstanding(&self) -> usize {
        self.queue.len() + self.in_flight.len()
    }

    /// The next positive xid; the counter wraps.
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

    /// Publishes a state before the failures of the calls that it explains: a caller whose call has failed
    /// sees the state that follows.
    pub(super) fn set_state(&mut self, state: SessionState) {
        if self.state != state {
            self.state = state;
            let status = SessionAction::Status(self.status());
            let is_failure = |action: &_| matches!(action, SessionAction::Complete { outcome: Err(_), .. });
            let place = self.actions.iter().position(is_failure).unwrap_or(self.actions.len());
            self.actions.insert(place, status);
        }
    }

    /// Sends a request of the machine itself, before all queued calls.
    pub(super) fn send_now(&mut self, now: Instant, op: OpCode, body: &[u8], purpose: RequestPurpose<T>) {
        let xid = self.next_xid();
        frames::request(xid, op, body, &mut self.output);
        let proves = self.lease.provable_send_time(op, now, self.timeout);
        self.push_in_flight(InFlightRequest { xid, purpose, sent_at: now, units: 0, proves });
    }

    fn push_in_flight(&mut self, request: InFlightRequest<T>) {
        self.in_flight_units = self.in_flight_units.saturating_add(request.units);
        self.in_flight.push_back(request);
    }

    pub(super) fn send_credential(&mut self, now: Instant, index: usize) {
        let credential = &self.credentials[index];
        frames::auth(&credential.scheme, &credential.secret, &mut self.output);
        self.auth_in_flight.push_back(index);
        self.last_sent = now;
    }

    pub(super) fn remove_watch(&mut self, now: Instant, watcher_type: WatcherType, path: Box<str>) {
        // Watches belong to a connection: without one there is nothing to remove.
        let connected = matches!(self.phase, SessionPhase::Connected { .. });
        if !connected || !self.supports_remove_watches {
            return;
        }
        let mut body = Vec::new();
        path.encode(&mut body);
        watcher_type.wire().encode(&mut body);
        self.send_now(now, OpCode::RemoveWatches, &body, RequestPurpose::Unwatch { watcher_type, path });
    }

    pub(super) fn fail_call(&mut self, token: T, cause: Cause, delivery: Delivery) {
        let failure = CallFailure { cause, delivery, server: self.server() };
        self.actions.push_back(SessionAction::Complete { token, outcome: Err(failure) });
    }

    /// Fails a request without a reply.
    pub(super) fn fail(&mut self, purpose: RequestPurpose<T>, cause: Cause, delivery: Delivery) {
        match purpose {
            RequestPurpose::Call { token, watch } => {
                if let Some(watch) = watch {
                    self.forget_registration(&watch);
                }
                self.fail_call(token, cause, delivery);
            }
            RequestPurpose::OpenFeed { token, .. } => self.fail_call(token, cause, delivery),
            RequestPurpose::Rewatch { .. }
            | RequestPurpose::Unwatch { .. }
            | RequestPurpose::Discover
            | RequestPurpose::Hello
            | RequestPurpose::GrantFeed
            | RequestPurpose::Renew
            | RequestPurpose::Close => {}
        }
    }

    pub(super) fn forget_registration(&mut self, watch: &WatchRegistration) {
        self.watches.end_registration(watch.watcher, watch.intent, &watch.path);
        self.abandoned.remove(&watch.watcher);
    }

    pub(super) fn fail_in_flight(&mut self, cause: &Cause) {
        self.disconnects += u64::from(!self.in_flight.is_empty());
        self.in_flight_units = 0;
        for sent in std::mem::take(&mut self.in_flight) {
            self.fail(sent.purpose, cause.clone(), Delivery::Sent);
        }
    }

    pub(super) fn fail_queue(&mut self, cause: &Cause) {
        self.disconnects += u64::from(!self.queue.is_empty());
        for waiting in std::mem::take(&mut self.queue) {
            self.fail(waiting.purpose, cause.clone(), Delivery::NotSent);
        }
    }

    pub(super) fn lose_watches(&mut self, keep_persistent: bool) {
        for (watcher, path) in self.watches.remove_on_session_end(keep_persistent) {
            let event = WatchEvent { kind: EventKind::WatchLost, path: Arc::from(path), zxid: None };
            self.actions.push_back(SessionAction::Notify { watcher, event });
        }
    }

    /// Ends the machine.
    pub(super) fn end(&mut self, ending: SessionEnding) {
        let cause = cause_of(ending);
        if let Some(link) = self.phase.link() {
            self.actions.push_back(SessionAction::Drop { link: link.id });
        }
        self.drop_spare();
        self.lose_feeds();
        self.fail_in_flight(&cause);
        self.fail_queue(&cause);
        self.phase = SessionPhase::Ended(ending);
        for index in 0..self.credentials.len() {
            if let Some(token) = self.credentials[index].token.take() {
                self.fail_call(token, cause.clone(), Delivery::Sent);
            }
        }
        self.lose_watches(false);
        self.output.clear();
        self.input.clear();
        self.set_state(match ending {
            SessionEnding::Closed => SessionState::Closed,
            SessionEnding::Expired => SessionState::Expired,
            SessionEnding::AuthFailed | SessionEnding::SaslRefused(_) => SessionState::AuthFailed,
        });
        self.fail_closers(cause);
        self.actions.push_back(SessionAction::End);
    }

    /// Completes all close calls. `Closed` means here that no server has confirmed the close.
    fn fail_closers(&mut self, cause: Cause) {
        for token in std::mem::take(&mut self.close_tokens) {
            self.fail_call(token, cause.clone(), Delivery::NotSent);
        }
    }
}
