//! Connecting and disconnecting: connection attempts, the handshake, the first requests on a connection, and
//! every way in which a connection ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::client::{ConnectRequest, ConnectResponse, ReplyHeader};
use zebu_proto::{DecodeError, ErrorCode, Jute, Reader, SessionId};

use super::action::{LogEvent, SessionAction};
use super::connect_string::ServerAddress;
use super::failure::Cause;
use super::frames;
use super::phase::{
    ConnectAttempt, ConnectKind, ConnectionStart, ConnectionUse, LinkId, ReadWriteSearch, ServerLink,
    ServerMode, SessionEnding, SessionPhase,
};
use super::queue::RequestPurpose;
use super::session::{CurrentSession, SessionMachine, SessionOrigin};
use super::settings::{ReadOnlyServers, SessionCredentials, SessionPolicy};
use super::status::SessionState;

/// After a connection of this duration, the next attempt starts without a pause.
const STABLE_AFTER: Duration = Duration::from_secs(1);

/// The minimum timeout of one attempt, however many servers there are.
const CONNECT_TIMEOUT_MIN: Duration = Duration::from_millis(200);

/// The size limit of paths in one setWatches request; servers refuse frames of 1 MiB.
const REWATCH_BYTES: usize = 128 << 10;

/// The first pause of the search for a read-write server; each further pause doubles.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);

/// The error text for a first frame that is no connect response. A read-only server without local sessions
/// answers a new session with a bare reply header.
fn refusal(payload: &[u8], error: &DecodeError) -> String {
    let mut reader = Reader::new(payload);
    match ReplyHeader::decode(&mut reader) {
        Ok(header) if header.xid == 0 && header.err != 0 && reader.rest().is_empty() => {
            match ErrorCode::from_wire(header.err) {
                Some(code) => format!("the server refused a new session: {code}"),
                None => format!("the server refused a new session with error {}", header.err),
            }
        }
        Ok(_) | Err(_) => format!("connect response: {error}"),
    }
}

impl<T> SessionMachine<T> {
    /// Selects the next server and the time of the attempt.
    pub(super) fn schedule_connect(&mut self, now: Instant) {
        let (address, pause) = self.host_provider.next(&mut self.random);
        self.phase = SessionPhase::Waiting { until: now + pause, address };
        self.connect_if_due(now);
    }

    /// Starts the attempt if it is due.
    pub(super) fn connect_if_due(&mut self, now: Instant) {
        let SessionPhase::Waiting { until, address } = &self.phase else { return };
        if now < *until {
            return;
        }
        let address: ServerAddress = address.clone();
        self.links += 1;
        let name: Arc<str> = address.to_string().into();
        let link = ServerLink { id: LinkId(self.links), address: address.clone(), name };
        let timeout = self.attempt_timeout();
        self.actions.push_back(SessionAction::Open { link: link.id, server: address, timeout });
        self.phase = SessionPhase::Opening { link, deadline: now + timeout };
    }

    /// The remaining session time must suffice for an attempt at every server.
    pub(super) fn attempt_timeout(&self) -> Duration {
        let share = self.timeout / u32::try_from(self.host_provider.len()).unwrap_or(u32::MAX).max(1);
        share.max(CONNECT_TIMEOUT_MIN).min(self.settings.connection_timeout)
    }

    /// Starts the handshake on an open stream.
    pub fn opened(&mut self, now: Instant, link: LinkId) {
        if self.is_spare(link) {
            return self.spare_opened(now);
        }
        if !self.current_link(link) {
            return;
        }
        let SessionPhase::Opening { link, deadline } = &self.phase else { return };
        let (link, deadline) = (link.clone(), *deadline);
        let resumed = self.current.filter(|current| current.origin == SessionOrigin::ReadWrite);
        let (asked, id, password) = match resumed {
            Some(current) => (ConnectKind::Resume, current.credentials.id, current.credentials.password),
            None => (ConnectKind::NewSession, SessionId::NONE, [0; 16]),
        };
        let timeout_ms = i32::try_from(self.settings.session_timeout.as_millis()).unwrap_or(i32::MAX);
        let accepts = self.settings.read_only == ReadOnlyServers::Accept;
        self.input.clear();
        self.output.clear();
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid.max(self.event_zxid),
            timeout_ms,
            session_id: id.0,
            password: Some(password.as_slice().into()),
            read_only: ReadOnlyField::Present(accepts),
        };
        frames::connect(&request, &mut self.output);
        let attempt = ConnectAttempt { link, asked, sent_at: now };
        self.phase = SessionPhase::Handshake { attempt, deadline };
    }

    /// Reports that the stream failed to open or broke.
    pub fn lost(&mut self, now: Instant, link: LinkId, reason: &str) {
        if self.is_spare(link) {
            self.spare_lost(now);
        } else if self.current_link(link) {
            self.connection_lost(now, Cause::ConnectionLost, reason);
        }
    }

    /// Handles the first frame of the server.
    pub(super) fn handshake_reply(&mut self, now: Instant, payload: &[u8]) {
        let SessionPhase::Handshake { attempt, .. } = &self.phase else { return };
        let attempt = attempt.clone();
        let response = match ConnectResponse::decode(&mut Reader::new(payload)) {
            Ok(response) => response,
            Err(error) => return self.protocol_error(now, &refusal(payload, &error)),
        };
        let accepted = response.timeout_ms > 0 && response.session_id != 0;
        match (accepted, attempt.asked) {
            (true, _) => self.establish(now, attempt, &response),
            (false, ConnectKind::Resume) => {
                // The server works: a new session does not need a pause.
                self.host_provider.connection_stable();
                self.expire(now);
            }
            // No known server refuses a new session in this way. The next server may accept it.
            (false, ConnectKind::NewSession) => {
                self.protocol_error(now, "the server refused a new session as expired")
            }
        }
    }

    fn establish(&mut self, now: Instant, attempt: ConnectAttempt, response: &ConnectResponse) {
        let ConnectAttempt { link, asked, sent_at } = attempt;
        let mode = match response.read_only {
            ReadOnlyField::Present(true) => ServerMode::ReadOnly,
            ReadOnlyField::Present(false) | ReadOnlyField::Absent => ServerMode::ReadWrite,
        };
        let origin = match (mode, asked) {
            // A resumed session belongs to the ensemble, even on a read-only server.
            (ServerMode::ReadWrite, _) | (ServerMode::ReadOnly, ConnectKind::Resume) => {
                SessionOrigin::ReadWrite
            }
            (ServerMode::ReadOnly, ConnectKind::NewSession) => SessionOrigin::ReadOnly,
        };
        let credentials =
            SessionCredentials { id: SessionId(response.session_id), password: response.password };
        let first = self.epoch == 0 || asked == ConnectKind::NewSession;
        if first {
            self.epoch += 1;
        }
        self.current = Some(CurrentSession { credentials, origin });
        self.timeout = Duration::from_millis(u64::try_from(response.timeout_ms).unwrap_or(1));
        self.last_received = Some(now);
        match mode {
            ServerMode::ReadWrite => self.lease.begin(now, sent_at, self.timeout),
            // A read-only server does not know whether the session is alive.
            ServerMode::ReadOnly => {}
        }
        self.host_provider.session_established();
        let start = ConnectionStart { link, mode };
        match self.settings.sasl.clone() {
            Some(sasl) => self.authenticate(now, start, &sasl),
            None => self.serve(now, start),
        }
    }

    /// Begins to send requests on an accepted connection.
    pub(super) fn serve(&mut self, now: Instant, start: ConnectionStart) {
        let ConnectionStart { link, mode } = start;
        // A connection that ended during SASL did not serve its session.
        let is_first = std::mem::replace(&mut self.served_epoch, self.epoch) != self.epoch;
        let search = (mode == ServerMode::ReadOnly)
            .then(|| ReadWriteSearch { next: now + SEARCH_PAUSE, pause: SEARCH_PAUSE });
        self.connections += 1;
        let usage = self.first_use(now);
        self.phase = SessionPhase::Connected { link, since: now, search, usage };
        for index in 0..self.credentials.len() {
            self.send_credential(now, index);
        }
        self.register_watches_again(now);
        self.begin_discovery(now);
        let state = match mode {
            ServerMode::ReadOnly => SessionState::ReadOnly,
            ServerMode::ReadWrite if is_first => SessionState::Connected,
            ServerMode::ReadWrite => SessionState::Reconnected,
        };
        if self.state == state {
            // The client has moved: the server is another one.
            self.actions.push_back(SessionAction::Status(self.status()));
        }
        self.set_state(state);
        self.hand_over_if_idle();
    }

    fn register_watches_again(&mut self, now: Instant) {
        for chunk in self.watches.chunks(self.last_zxid, REWATCH_BYTES) {
            let mut body = Vec::new();
            chunk.record.encode(&mut body);
            let purpose = RequestPurpose::Rewatch { persistent: chunk.persistent };
            self.send_now(now, chunk.record.op_code(), &body, purpose);
        }
    }

    /// Leaves the connection for another server. Requests in flight are answered first, so that a move never
    /// makes an outcome unknown.
    pub(super) fn move_to_other_server(&mut self, now: Instant) {
        let deadline = now + self.timeout / 3;
        if let SessionPhase::Connected { usage: usage @ ConnectionUse::Serving, .. } = &mut self.phase {
            *usage = ConnectionUse::Leaving { deadline };
            self.move_if_idle(now);
        }
    }

    pub(super) fn move_if_idle(&mut self, now: Instant) {
        let leaving =
            matches!(&self.phase, SessionPhase::Connected { usage: ConnectionUse::Leaving { .. }, .. });
        if leaving && self.in_flight.is_empty() && !self.continue_elsewhere(now) {
            self.connection_lost(now, Cause::ConnectionLost, "moving to another server");
        }
    }

    /// Disconnects because the server violated the protocol.
    pub(super) fn protocol_error(&mut self, now: Instant, what: &str) {
        self.connection_lost(now, Cause::BadReply(what.into()), what);
    }

    /// Ends the connection or the attempt, and schedules the next attempt.
    pub(super) fn connection_lost(&mut self, now: Instant, cause: Cause, reason: &str) {
        let Some(link) = self.phase.link().cloned() else { return };
        let event = LogEvent::ConnectionLost { server: link.name.clone(), reason: reason.into() };
        self.actions.push_back(SessionAction::Log(event));
        self.actions.push_back(SessionAction::Drop { link: link.id });
        self.drop_spare();
        self.lose_feeds();
        self.input.clear();
        self.output.clear();
        self.pings.clear();
        self.lease.disconnect();
        self.auth_in_flight.clear();
        if let SessionPhase::Connected { since, usage, .. } = &self.phase {
            let (since, usage) = (*since, *usage);
            if now.saturating_duration_since(since) >= STABLE_AFTER {
                self.host_provider.connection_stable();
            }
            let has_lost_calls = self.in_flight.iter().any(|sent| sent.purpose.is_call());
            self.fail_in_flight(&cause);
            match usage {
                // No call was lost: queued calls go to the next server.
                ConnectionUse::Leaving { .. } if !has_lost_calls => self.fail_bound_calls(),
                // Calls that were pipelined after a lost one must not overtake it on the next connection.
                ConnectionUse::Serving | ConnectionUse::Leaving { .. } => self.fail_queue(&cause),
                ConnectionUse::Closing { .. } | ConnectionUse::HandingOver { .. } => {
                    return self.end(SessionEnding::Closed);
                }
            }
        }
        self.schedule_connect(now);
        self.suspend_if_due(now);
        self.expire_if_due(now);
    }

    /// Ends the session as expired.
    pub(super) fn expire(&mut self, now: Instant) {
        if let Some(link) = self.phase.link() {
            self.actions.push_back(SessionAction::Drop { link: link.id });
        }
        self.drop_spare();
        self.lose_feeds();
        self.current = None;
        self.last_zxid = 0;
        self.event_zxid = 0;
        self.last_received = None;
        self.lease.end();
        self.input.clear();
        self.output.clear();
        self.pings.clear();
        self.auth_in_flight.clear();
        self.fail_in_flight(&Cause::SessionExpired);
        self.moves.end();
        match self.settings.policy {
            // A new session would only be closed.
            _ if self.pending_end.is_some() => self.end(SessionEnding::Expired),
            SessionPolicy::Terminal => self.end(SessionEnding::Expired),
            SessionPolicy::Renew => {
                self.fail_queue(&Cause::SessionExpired);
                self.schedule_connect(now);
                // Persistent watches go to the next session.
                let keep_persistent = true;
                self.lose_watches(keep_persistent);
                self.timeout = self.settings.session_timeout;
                self.set_state(SessionState::Expired);
            }
        }
    }
}
