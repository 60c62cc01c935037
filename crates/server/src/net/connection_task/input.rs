//! Parses received bytes: the first frame of a connection, then requests.
//!
//! Bytes are parsed in the buffer that they were read to. The caller keeps only an unfinished
//! frame.

use tracing::{debug, warn};
use zebu_node::limits::READ_WORK_PER_LOCK;
use zebu_node::{
    AuditOperation, AuditResult, ClientConnection, ClientEvent, ConnectionPhase, DisconnectReason, Now,
    SubmittedRequest,
};
use zebu_proto::Reader;
use zebu_proto::client::ConnectRequest;
use zebu_proto::frame::{self, Framed, LENGTH_SIZE};

use super::super::connection_state::ConnectionStage;
use super::{ConnectionTask, TaskSocket};
use crate::audit::AuditLog;
use crate::four_letter::FourLetterWord;

/// Most frames parsed under one hold of the replica lock, so that the core does not wait long for
/// it.
const FRAMES_PER_LOCK: usize = 512;

/// The setting of ClickHouse by which a first frame has another form than ZooKeeper's. It is known before
/// the length of the frame may be trusted.
fn clickhouse_handshake(bytes: &[u8]) -> Option<&'static str> {
    let version = bytes.get(LENGTH_SIZE..)?.first_chunk::<4>()?;
    match i32::from_be_bytes(*version) {
        10 => Some("use_compression"),
        11 => Some("use_xid_64"),
        12 => Some("pass_opentelemetry_tracing_context"),
        _ => None,
    }
}

impl<S: TaskSocket> ConnectionTask<S> {
    /// Parses the bytes that were kept.
    pub(super) fn parse_unparsed(&mut self, requests: &mut Vec<SubmittedRequest>) {
        let mut pending = std::mem::take(&mut self.unparsed);
        let used = self.parse_input(&pending, requests);
        if used < pending.len() {
            pending.drain(..used);
            self.unparsed = pending;
        }
    }

    /// Parses received bytes and returns how many of them were used.
    pub(super) fn parse_input(&mut self, bytes: &[u8], requests: &mut Vec<SubmittedRequest>) -> usize {
        let mut used = 0;
        if self.stage == ConnectionStage::FirstFrame {
            used = self.parse_first_frame(bytes);
        }
        while self.stage == ConnectionStage::Serving {
            let (count, may_have_more) = self.parse_requests(&bytes[used..], requests);
            used += count;
            if !may_have_more {
                break;
            }
        }
        used
    }

    /// Parses the first bytes of a connection: a four-letter word or the connect request.
    fn parse_first_frame(&mut self, bytes: &[u8]) -> usize {
        if let Some(head) = bytes.first_chunk::<LENGTH_SIZE>()
            && let Some(word) = FourLetterWord::from_bytes(*head)
        {
            let counted = {
                let mut connection = self.guard.entry.lock();
                connection.count_received();
                connection.mark_sent(0)
            };
            // Counted at once, because the reply may show the counter.
            self.guard.shared.stats.add(&counted);
            self.stage = ConnectionStage::FourLetterWord(word);
            return LENGTH_SIZE;
        }
        if let Some(setting) = clickhouse_handshake(bytes)
            && self.guard.shared.config.keeper.extensions
        {
            self.refuse_clickhouse_handshake(setting);
            return bytes.len();
        }
        match frame::peek(bytes, self.frame_length_max()) {
            Framed::Partial => 0,
            Framed::Refused { length } => {
                debug!(length, "refused: not a connect request");
                self.guard.entry.lock().close(DisconnectReason::BadFrame);
                bytes.len()
            }
            Framed::Complete { length } => {
                let payload = &bytes[LENGTH_SIZE..LENGTH_SIZE + length];
                let mut connection = self.guard.entry.lock();
                connection.count_received();
                match ConnectRequest::decode(&mut Reader::new(payload)) {
                    Ok(request) => {
                        let connection = connection.id;
                        self.guard
                            .shared
                            .inbox
                            .push_client_event(ClientEvent::Connect { connection, request });
                        self.stage = ConnectionStage::Connecting;
                        LENGTH_SIZE + length
                    }
                    Err(error) => {
                        debug!(%error, "refused: not a connect request");
                        connection.close(DisconnectReason::BadFrame);
                        bytes.len()
                    }
                }
            }
        }
    }

    /// Closes the connection of a ClickHouse server whose settings change the protocol. Its bytes behind the
    /// connect request are not counted in any length.
    fn refuse_clickhouse_handshake(&self, setting: &'static str) {
        let peer = self.guard.entry.remote_address;
        let message = "refused: a ClickHouse server asks for an extension of the protocol; set it to 0 in the \
                       section <zookeeper> of its configuration";
        // A client that is refused comes again at once.
        match self.guard.shared.clickhouse_refusals.is_due(&peer.ip().to_string(), setting) {
            true => warn!(%peer, setting, "{message}"),
            false => debug!(%peer, setting, "{message}"),
        }
        self.guard.entry.lock().close(DisconnectReason::BadFrame);
    }

    /// Parses requests, and runs feeds that a client has opened or granted credit.
    fn parse_requests(&mut self, bytes: &[u8], requests: &mut Vec<SubmittedRequest>) -> (usize, bool) {
        let parsed = self.parse_frames(bytes, requests);
        if self.guard.shared.feeds.take_news() {
            self.guard.shared.feed_signals.requested();
        }
        parsed
    }

    /// Parses requests while the connection has room, a bounded number under one hold of the locks.
    /// Returns the number of used bytes, and whether the others may hold more complete frames.
    fn parse_frames(&mut self, bytes: &[u8], requests: &mut Vec<SubmittedRequest>) -> (usize, bool) {
        let now_ms = self.guard.shared.clock.monotonic_ms();
        let allowance = self.allowance();
        let replica = self.guard.shared.read_replica();
        let mut connection = self.guard.entry.lock();
        if connection.phase == ConnectionPhase::Draining {
            return (bytes.len(), false);
        }
        let audited = self.guard.shared.audit.as_ref().filter(|audit| audit.records_extra_events());
        // The core has run reads too, under other holds of the locks.
        connection.take_read_work();
        let mut read_work: u32 = 0;
        let mut auth = audited.map(|_| AuthSnapshot::of(&connection));
        let mut used = 0;
        for _ in 0..FRAMES_PER_LOCK {
            if !connection.has_room_below(allowance) {
                // The core must wake this task when there is room again.
                connection.require_task_send();
                if connection.awaits_sasl_mechanism() {
                    self.stage = ConnectionStage::Authenticating;
                } else if connection.has_listing_to_run() {
                    self.stage = ConnectionStage::Listing;
                }
                return (used, false);
            }
            let rest = &bytes[used..];
            match frame::peek(rest, self.guard.shared.config.limits.jute_max_buffer as usize) {
                Framed::Partial => {
                    return (used, false);
                }
                Framed::Refused { length } => {
                    debug!(length, "closed: frame length is not allowed");
                    connection.close(DisconnectReason::BadFrame);
                    return (bytes.len(), false);
                }
                Framed::Complete { length } => {
                    match self.guard.shared.large_requests.try_reserve(length) {
                        Ok(Some(share)) => {
                            // Only this task releases the permit, so it must be woken by the reply.
                            connection.require_task_send();
                            self.large_permits = Some(match self.large_permits.take() {
                                Some(large) => large.and(share),
                                None => share,
                            });
                        }
                        Ok(None) => {}
                        Err(_) => {
                            self.guard.shared.metrics.large_requests_rejected.increment();
                            connection.close(DisconnectReason::Throttled);
                            return (bytes.len(), false);
                        }
                    }
                    let payload = &rest[LENGTH_SIZE..LENGTH_SIZE + length];
                    requests.extend(replica.receive(&mut connection, payload, now_ms));
                    used += LENGTH_SIZE + length;
                    if let (Some(audit), Some(auth)) = (audited, &mut auth) {
                        auth.record_changes(&connection, audit, self.guard.shared.clock.now());
                    }
                    read_work = read_work.saturating_add(connection.take_read_work());
                    if read_work > READ_WORK_PER_LOCK {
                        return (used, true);
                    }
                }
            }
        }
        (used, true)
    }

    fn frame_length_max(&self) -> usize {
        self.guard.shared.config.limits.jute_max_buffer as usize
    }
}

/// The authentication of a connection before its requests, for the audit log.
#[derive(Clone, Copy)]
struct AuthSnapshot {
    failures: u64,
    is_super: bool,
}

impl AuthSnapshot {
    fn of(connection: &ClientConnection) -> AuthSnapshot {
        AuthSnapshot {
            failures: connection.unreported_auth_failures(),
            is_super: connection.credentials.is_super(),
        }
    }

    /// Records a login as super user, and failed authentication. The lock of the connection is held since the
    /// snapshot, so that its counters were not taken meanwhile.
    fn record_changes(&mut self, connection: &ClientConnection, audit: &AuditLog, now: Now) {
        let after = AuthSnapshot::of(connection);
        let before = std::mem::replace(self, after);
        let session = connection.session.map(|session| session.id);
        let record = |operation, result| {
            audit.record_extra(session, &connection.credentials, operation, result, now);
        };
        if after.is_super && !before.is_super {
            record(AuditOperation::SuperLogin, AuditResult::Success);
        }
        for _ in before.failures..after.failures {
            record(AuditOperation::AuthFailure, AuditResult::Failure);
        }
    }
}
