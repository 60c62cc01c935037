//! From no connection to a session on one: attempts, the handshake, what is sent first, and every way in
//! which a connection ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::client::{ConnectResponse, ReplyHeader};
use zebu_proto::{DecodeError, ErrorCode, Jute, Reader, SessionId};

use super::action::{Action, Note};
use super::connect_string::ServerAddress;
use super::failure::Cause;
use super::frames;
use super::phase::{Asked, Ending, Link, LinkId, Phase, Search, ServerMode, Use};
use super::queue::Purpose;
use super::session::{Held, Origin, Session};
use super::settings::{ReadOnlyServers, SessionCredentials, SessionPolicy};
use super::status::SessionState;
use super::watch_table::KeepPersistent;

/// A connection that lasted this long was a good one: the next attempt starts without a pause.
const SETTLED: Duration = Duration::from_secs(1);

/// The least time that an attempt gets, however many servers there are.
const PATIENCE_MIN: Duration = Duration::from_millis(200);

/// Paths per request that registers watches again; servers refuse frames of a MiB.
const REWATCH_BYTES: usize = 128 << 10;

/// First pause of the search for a read-write server; it doubles.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);

/// What a first frame means that is no connect response. A read-only server without local sessions answers
/// a new session with the bare header of a reply.
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

impl<T> Session<T> {
    /// Chooses the next server and the moment of the attempt.
    pub(super) fn plan_attempt(&mut self, now: Instant) {
        let (address, pause) = self.hosts.next(&mut self.random);
        self.phase = Phase::Waiting { until: now + pause, address };
        self.begin_attempt(now);
    }

    /// Starts the attempt if its moment has come.
    pub(super) fn begin_attempt(&mut self, now: Instant) {
        let Phase::Waiting { until, address } = &self.phase else { return };
        if now < *until {
            return;
        }
        let address: ServerAddress = address.clone();
        self.links += 1;
        let name: Arc<str> = address.to_string().into();
        let link = Link { id: LinkId(self.links), address: address.clone(), name };
        // All servers must fit into the time that the session has left.
        let share = self.timeout / u32::try_from(self.hosts.len()).unwrap_or(u32::MAX).max(1);
        let patience = share.max(PATIENCE_MIN).min(self.settings.connection_timeout);
        self.actions.push_back(Action::Open { link: link.id, server: address, patience });
        self.phase = Phase::Opening { link, deadline: now + patience };
    }

    /// The stream is open: the handshake starts.
    pub fn opened(&mut self, now: Instant, link: LinkId) {
        if !self.current_link(link) {
            return;
        }
        let Phase::Opening { link, deadline } = &self.phase else { return };
        let (link, deadline) = (link.clone(), *deadline);
        let resumed = self.held.filter(|held| held.origin == Origin::ReadWrite);
        let (asked, id, password) = match resumed {
            Some(held) => (Asked::Resume, held.credentials.id, held.credentials.password),
            None => (Asked::NewSession, SessionId::NONE, [0; 16]),
        };
        let timeout_ms = i32::try_from(self.settings.session_timeout.as_millis()).unwrap_or(i32::MAX);
        let accepts = self.settings.read_only == ReadOnlyServers::Accept;
        self.input.clear();
        self.output.clear();
        let seen = self.last_zxid.max(self.told_zxid);
        frames::connect(seen, timeout_ms, id.0, &password, accepts, &mut self.output);
        self.phase = Phase::Handshake { link, deadline, asked, sent_at: now };
    }

    /// The stream could not be opened, or it broke.
    pub fn lost(&mut self, now: Instant, link: LinkId, reason: &str) {
        if self.current_link(link) {
            self.link_down(now, Cause::ConnectionLost, reason);
        }
    }

    /// The first frame of the server.
    pub(super) fn answer_handshake(&mut self, now: Instant, payload: &[u8]) {
        let Phase::Handshake { link, asked, sent_at, .. } = &self.phase else { return };
        let (link, asked, sent_at) = (link.clone(), *asked, *sent_at);
        let response = match ConnectResponse::decode(&mut Reader::new(payload)) {
            Ok(response) => response,
            Err(error) => return self.broken(now, &refusal(payload, &error)),
        };
        let accepted = response.timeout_ms > 0 && response.session_id != 0;
        match (accepted, asked) {
            (true, _) => self.establish(now, link, asked, sent_at, &response),
            (false, Asked::Resume) => {
                // The server is alive and well: a new session need not wait.
                self.hosts.settled();
                self.expire(now);
            }
            // No server refuses a new session this way; the next one may know better.
            (false, Asked::NewSession) => self.broken(now, "a new session was refused as expired"),
        }
    }

    fn establish(
        &mut self,
        now: Instant,
        link: Link,
        asked: Asked,
        sent_at: Instant,
        response: &ConnectResponse,
    ) {
        let mode = match response.read_only {
            ReadOnlyField::Present(true) => ServerMode::ReadOnly,
            ReadOnlyField::Present(false) | ReadOnlyField::Absent => ServerMode::ReadWrite,
        };
        let origin = match (mode, asked) {
            // A session that came along is the ensemble's, also where it may only read.
            (ServerMode::ReadWrite, _) | (ServerMode::ReadOnly, Asked::Resume) => Origin::ReadWrite,
            (ServerMode::ReadOnly, Asked::NewSession) => Origin::ReadOnly,
        };
        let credentials =
            SessionCredentials { id: SessionId(response.session_id), password: response.password };
        let first = self.epoch == 0 || asked == Asked::NewSession;
        if first {
            self.epoch += 1;
        }
        self.held = Some(Held { credentials, origin });
        self.timeout = Duration::from_millis(u64::try_from(response.timeout_ms).unwrap_or(1));
        self.last_received = Some(now);
        match mode {
            ServerMode::ReadWrite => self.lease.begin(now, sent_at, self.timeout),
            // Who takes no writes does not know whether the session lives.
            ServerMode::ReadOnly => {}
        }
        self.hosts.established();
        let search =
            (mode == ServerMode::ReadOnly).then(|| Search { next: now + SEARCH_PAUSE, pause: SEARCH_PAUSE });
        self.phase = Phase::Connected { link, since: now, search, use_: Use::Serving };
        for index in 0..self.credentials.len() {
            self.send_credential(now, index);
        }
        self.register_watches_again(now);
        self.set_state(match mode {
            ServerMode::ReadOnly => SessionState::ReadOnly,
            ServerMode::ReadWrite if first => SessionState::Connected,
            ServerMode::ReadWrite => SessionState::Reconnected,
        });
    }

    fn register_watches_again(&mut self, now: Instant) {
        for chunk in self.watches.chunks(self.last_zxid, REWATCH_BYTES) {
            let mut body = Vec::new();
            chunk.record.encode(&mut body);
            let purpose = Purpose::Rewatch { persistent: chunk.persistent };
            self.send_now(now, chunk.record.op_code(), &body, purpose);
        }
    }

    /// The connection is given up for another server. What is in flight is answered first, so that moving
    /// never makes the outcome of a call unknown.
    pub(super) fn leave(&mut self, now: Instant) {
        let deadline = now + self.timeout / 3;
        if let Phase::Connected { use_: use_ @ Use::Serving, .. } = &mut self.phase {
            *use_ = Use::Leaving { deadline };
            self.leave_if_idle(now);
        }
    }

    pub(super) fn leave_if_idle(&mut self, now: Instant) {
        let leaving = matches!(&self.phase, Phase::Connected { use_: Use::Leaving { .. }, .. });
        if leaving && self.in_flight.is_empty() {
            self.link_down(now, Cause::ConnectionLost, "moving to another server");
        }
    }

    /// Lets go of the session when nothing is on its way any more.
    pub(super) fn hand_over_if_idle(&mut self) {
        let hands_over = matches!(&self.phase, Phase::Connected { use_: Use::HandingOver { .. }, .. });
        if hands_over && self.outstanding() == 0 {
            self.end(Ending::Closed);
        }
    }

    /// The server sent something that is not this protocol.
    pub(super) fn broken(&mut self, now: Instant, what: &str) {
        self.link_down(now, Cause::BadReply(what.into()), what);
    }

    /// The connection or the attempt is over; the next attempt is planned.
    pub(super) fn link_down(&mut self, now: Instant, cause: Cause, reason: &str) {
        let Some(link) = self.phase.link().cloned() else { return };
        let note = Note::LinkLost { server: link.name.clone(), reason: reason.into() };
        self.actions.push_back(Action::Note(note));
        self.actions.push_back(Action::Drop { link: link.id });
        self.input.clear();
        self.output.clear();
        self.pings.clear();
        self.lease.disconnect();
        self.auth_in_flight.clear();
        if let Phase::Connected { since, use_, .. } = &self.phase {
            let (since, use_) = (*since, *use_);
            if now.saturating_duration_since(since) >= SETTLED {
                self.hosts.settled();
            }
            let has_lost_calls = self.in_flight.iter().any(|sent| sent.purpose.is_call());
            self.fail_in_flight(&cause);
            match use_ {
                // Nothing was lost: the calls that wait go to the next server.
                Use::Leaving { .. } if !has_lost_calls => {}
                // Calls that were pipelined behind a lost one must not overtake it on the next connection.
                Use::Serving | Use::Leaving { .. } => self.fail_queue(&cause),
                Use::Closing { .. } | Use::HandingOver { .. } => return self.end(Ending::Closed),
            }
        }
        self.plan_attempt(now);
        // Whoever was told that the session is over is not told that it may be alive.
        if self.state.is_connected() {
            self.set_state(SessionState::Suspended);
        }
        self.expire_if_due(now);
    }

    /// The session is over.
    pub(super) fn expire(&mut self, now: Instant) {
        if let Some(link) = self.phase.link() {
            self.actions.push_back(Action::Drop { link: link.id });
        }
        self.held = None;
        self.last_zxid = 0;
        self.told_zxid = 0;
        self.last_received = None;
        self.lease.end();
        self.input.clear();
        self.output.clear();
        self.pings.clear();
        self.auth_in_flight.clear();
        self.fail_in_flight(&Cause::SessionExpired);
        match self.settings.policy {
            SessionPolicy::Terminal => self.end(Ending::Expired),
            SessionPolicy::Renew => {
                self.fail_queue(&Cause::SessionExpired);
                self.plan_attempt(now);
                self.lose_watches(KeepPersistent::Yes);
                self.timeout = self.settings.session_timeout;
                self.set_state(SessionState::Expired);
            }
        }
    }
}
