//! One client connection: its request queue, outbox, credentials and session. It owns the order of replies. A
//! request that must wait occupies a slot, and no reply overtakes the reply of an earlier slot.
//!
//! A connection has no socket. The caller passes received bytes to
//! [`Replica::receive`](crate::Replica::receive) and sends the bytes of the outbox.

mod auth_failures;
mod connect;
mod feeds;
mod fences;
mod leaving;
mod listings;
mod lookup;
mod observed;
mod queued_paths;
mod slot;

pub(crate) use leaving::Departure;
pub use lookup::Connections;
pub(crate) use slot::{RequestMeta, RequestSlot, SlotWork, WriteSlot};

use std::collections::VecDeque;

use leaving::Leaving;
use observed::Observed;
use zebu_metrics::RequestClass;
use zebu_proto::client::connect::{ConnectResponse, ReadOnlyField};
use zebu_proto::client::watch::{EventType, WatcherEvent};
use zebu_proto::client::{ConnectRequest, ReplyHeader};
use zebu_proto::frame::{begin_frame, finish_frame, write_frame};
use zebu_proto::jute::encode_buffer;
use zebu_proto::{ErrorCode, Jute, OpCode, SessionId, Xid, Zxid};
use zebu_tree::Credentials;

use crate::limits::{
    self, OUTBOX_CLOSE_BYTES, OUTBOX_PAUSE_BYTES, SLOTS_BYTES_MAX, SLOTS_MAX, WAITING_READS_MAX,
};
use crate::prepared_reply::{PreparedReply, ReplyContent, ReplyZxid};
use crate::sasl::SaslExchange;
use crate::serving_mode::ServingMode;
use crate::stats::{ConnectionStats, StatsDelta};

/// The number of a connection. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionPhase {
    /// The connect request has not been received, or its session is not opened yet.
    Handshake,
    /// Requests are served.
    Serving,
    /// Further requests are ignored. Outstanding replies are still sent, then the connection is closed.
    Draining,
    /// Closed. Unsent replies are dropped.
    Closed(DisconnectReason),
}

/// The reason for closing a connection without a further reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// The peer closed it.
    ClientClosed,
    /// Bytes that are not a request.
    BadFrame,
    /// The client does not read its replies.
    OutboxFull,
    /// The session ended.
    SessionEnded,
    /// The session has moved to another connection.
    Replaced,
    /// A SASL exchange did not end in time.
    SaslTimeout,
    /// The client expects another ensemble (scheme `ensemble`). It gets no reply, so that it tries another
    /// server.
    OtherEnsemble,
    /// The client has seen a later zxid than this server has applied.
    AheadOfServer,
    /// Too many sessions at a time, or too many bytes of large requests.
    Throttled,
    /// No quorum has room on its disks for a new session.
    NoRoom,
    /// The connection was shed so that clients are balanced over the servers.
    Shed,
    /// This server stops, and nothing was outstanding: the client continues on another server.
    Drained,
    /// This server does not serve clients: the ensemble has no leader, or this server has lost it.
    NotServing,
    /// The committed transaction does not match the pending request. This happens when a client restarts its
    /// xids and the leader moves its session while an older request is in flight.
    ReplyMismatch,
    /// This server is read-only, and the client did not accept read-only mode.
    ReadOnly,
    /// The leader answered a later request of the connection before an earlier one, so replies cannot be sent
    /// in order. Under a correct leader this is a defect of this server.
    ReplyOutOfOrder,
}

/// The serving mode and term in which a connection was accepted. Its requests are void when the term ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServingTerm {
    pub(crate) mode: ServingMode,
    /// Incremented each time that this server begins to serve.
    pub(crate) term: u32,
    /// Whether requests keep their bytes, so that the next leader can get them.
    pub(crate) keeps_requests: bool,
}

/// The session of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSession {
    /// The session id.
    pub id: SessionId,
    /// The negotiated session timeout.
    pub timeout_ms: i32,
}

/// One client connection: its slots, outbox, credentials and session.
#[derive(Debug)]
pub struct ClientConnection {
    /// The number of the connection.
    pub id: ConnectionId,
    /// The phase of the connection.
    pub phase: ConnectionPhase,
    /// The session, kept after its end for reports.
    pub session: Option<ConnectionSession>,
    /// The identities of the client. A request keeps the credentials that were valid when it was received.
    pub credentials: Credentials,
    /// Monotonic milliseconds of the last request.
    pub touched_ms: i64,
    /// Counters for reports.
    pub stats: ConnectionStats,
    pub(crate) serving_term: ServingTerm,
    /// Kept only while connections outlive their leader.
    unanswered_connect: Option<Box<ConnectRequest>>,
    unreported_stats: StatsDelta,
    slots: VecDeque<RequestSlot>,
    first_slot: u64,
    /// Reads that wait, a heavy one with its weight.
    waiting_reads: u16,
    /// Whether a shared fence is on its way to the core, which has not begun it.
    is_fence_submitted: bool,
    /// Whether the client has read what ClickHouse can use here. It expects the replies of its own server.
    pub(crate) is_clickhouse: bool,
    leaving: Leaving,
    /// Whether the client has said that it understands pushes of feeds.
    takes_feeds: bool,
    /// Bytes of the requests in slots. One request may exceed the limit.
    waiting_bytes: u32,
    outbox: Vec<u8>,
    /// The SASL exchange, from its first token on.
    pub(crate) sasl: Option<Box<SaslExchange>>,
    observed: Option<Box<Observed>>,
    /// Requests up to the next sample, itself included; zero before the first request.
    until_sample: u32,
}

impl ClientConnection {
    /// Creates a connection that was just accepted.
    pub fn new(
        id: ConnectionId,
        credentials: Credentials,
        established_ms: i64,
        now_ms: i64,
    ) -> ClientConnection {
        ClientConnection {
            id,
            phase: ConnectionPhase::Handshake,
            session: None,
            credentials,
            touched_ms: now_ms,
            stats: ConnectionStats::new(established_ms),
            serving_term: ServingTerm { mode: ServingMode::Standalone, term: 0, keeps_requests: false },
            unanswered_connect: None,
            unreported_stats: StatsDelta::default(),
            slots: VecDeque::new(),
            first_slot: 0,
            waiting_reads: 0,
            is_fence_submitted: false,
            is_clickhouse: false,
            leaving: Leaving::No { can_move: false },
            takes_feeds: false,
            waiting_bytes: 0,
            outbox: Vec::new(),
            sasl: None,
            observed: None,
            until_sample: 0,
        }
    }

    /// Whether another request may be decoded now.
    pub fn has_room(&self) -> bool {
        self.has_room_below(OUTBOX_PAUSE_BYTES)
    }

    /// Like [`ClientConnection::has_room`], with another limit for unsent bytes.
    pub fn has_room_below(&self, outbox_bytes_max: usize) -> bool {
        self.phase == ConnectionPhase::Serving
            && self.slots.len() < SLOTS_MAX
            && (self.waiting_bytes as usize) < SLOTS_BYTES_MAX
            && usize::from(self.waiting_reads) < WAITING_READS_MAX
            && self.outbox.len() < outbox_bytes_max
            && !self.awaits_sasl_mechanism()
            && !self.awaits_listing()
    }

    /// The number of unsent bytes.
    pub fn outbox_len(&self) -> usize {
        self.outbox.len()
    }

    /// Whether all replies have been sent.
    pub fn is_drained(&self) -> bool {
        self.slots.is_empty() && self.outbox.is_empty()
    }

    /// The number of requests without a reply, as `cons` shows it.
    pub fn outstanding(&self) -> usize {
        self.slots.iter().filter(|slot| slot.meta.xid > 0).count()
    }

    /// The number of requests in slots.
    pub fn queued_requests(&self) -> usize {
        self.slots.len()
    }

    /// Monotonic milliseconds at which the client was last heard. A client that waits for a reply counts as
    /// heard now, however long the reply takes.
    pub(crate) fn last_heard_ms(&self, now_ms: i64) -> i64 {
        if self.slots.is_empty() { self.touched_ms } else { now_ms }
    }

    /// Moves the unsent bytes into `bytes`, which must be empty. Returns the unreported counters.
    pub fn take_outbox(&mut self, bytes: &mut Vec<u8>) -> StatsDelta {
        debug_assert!(bytes.is_empty(), "the caller sent what it took before");
        std::mem::swap(bytes, &mut self.outbox);
        std::mem::take(&mut self.unreported_stats)
    }

    /// The unsent bytes.
    pub fn outbox(&self) -> &[u8] {
        &self.outbox
    }

    /// Removes `count` sent bytes from the outbox. Returns the unreported counters.
    pub fn mark_sent(&mut self, count: usize) -> StatsDelta {
        self.outbox.drain(..count);
        if self.outbox.is_empty() {
            limits::shrink_buffer(&mut self.outbox);
        }
        std::mem::take(&mut self.unreported_stats)
    }

    /// Counts a received frame.
    pub fn count_received(&mut self) {
        self.stats.packets_received += 1;
        self.unreported_stats.packets_received += 1;
    }

    /// Closes the connection now. The first reason is kept.
    pub fn close(&mut self, reason: DisconnectReason) {
        if !matches!(self.phase, ConnectionPhase::Closed(_)) {
            self.phase = ConnectionPhase::Closed(reason);
            self.unanswered_connect = None;
            self.slots.clear();
            self.forget_paths();
            self.waiting_reads = 0;
            self.waiting_bytes = 0;
            self.outbox = Vec::new();
        }
    }

    /// Ignores further requests. Outstanding replies are still sent.
    pub fn drain(&mut self) {
        if !matches!(self.phase, ConnectionPhase::Closed(_)) {
            self.phase = ConnectionPhase::Draining;
        }
    }

    /// Answers the connect request with the session.
    pub(crate) fn accept(
        &mut self,
        session: ConnectionSession,
        read_only: ReadOnlyField,
        serving_term: ServingTerm,
        now_ms: i64,
    ) {
        if self.phase != ConnectionPhase::Handshake {
            return;
        }
        self.phase = ConnectionPhase::Serving;
        self.unanswered_connect = None;
        self.serving_term = serving_term;
        self.session = Some(session);
        self.touched_ms = now_ms;
        let response = ConnectResponse::accepted(session.id, session.timeout_ms, read_only);
        let response = match serving_term.mode {
            ServingMode::Standalone | ServingMode::Leader | ServingMode::Follower | ServingMode::Observer => {
                response
            }
            ServingMode::ReadOnly => response.in_read_only_mode(),
        };
        self.push_frame(|out| response.encode(out));
        self.stats.last_op = Some(OpCode::CreateSession);
    }

    /// Answers the connect request with session id 0: the client has no such session.
    pub fn reject(&mut self, read_only: ReadOnlyField) {
        self.reject_with(&ConnectResponse::rejected(read_only));
    }

    /// Like [`ClientConnection::reject`], by a read-only server.
    pub(crate) fn reject_read_only(&mut self, read_only: ReadOnlyField) {
        self.reject_with(&ConnectResponse::rejected(read_only).in_read_only_mode());
    }

    fn reject_with(&mut self, response: &ConnectResponse) {
        if self.phase == ConnectionPhase::Handshake {
            self.unanswered_connect = None;
            self.push_frame(|out| response.encode(out));
            self.drain();
        }
    }

    /// Sends a watch event.
    pub fn push_event(&mut self, zxid: i64, kind: EventType, path: &str) {
        if matches!(self.phase, ConnectionPhase::Closed(_)) {
            return;
        }
        if self.outbox.len() >= OUTBOX_CLOSE_BYTES {
            self.close(DisconnectReason::OutboxFull);
            return;
        }
        let before = self.outbox.len();
        self.push_frame(|out| {
            ReplyHeader { xid: Xid::NOTIFICATION.0, zxid, err: 0 }.encode(out);
            WatcherEvent::encode_parts(kind, path, out);
        });
        let bytes = u32::try_from(self.outbox.len() - before).unwrap_or(u32::MAX);
        self.unreported_stats.watch_bytes = self.unreported_stats.watch_bytes.saturating_add(bytes);
    }

    /// Sends a reply whose body is written by `body`. An error replaces the partial body.
    pub(crate) fn push_reply(
        &mut self,
        meta: RequestMeta,
        zxid: i64,
        now_ms: i64,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), ErrorCode>,
    ) {
        self.push_reply_of(RequestClass::Read, meta, zxid, now_ms, body);
    }

    /// Like [`ClientConnection::push_reply`], for a request of this class.
    pub(crate) fn push_reply_of(
        &mut self,
        class: RequestClass,
        meta: RequestMeta,
        zxid: i64,
        now_ms: i64,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), ErrorCode>,
    ) {
        let start = begin_frame(&mut self.outbox);
        ReplyHeader { xid: meta.xid, zxid, err: 0 }.encode(&mut self.outbox);
        let after_header = self.outbox.len();
        if let Err(error) = body(&mut self.outbox) {
            self.outbox.truncate(after_header);
            self.outbox[after_header - 4..].copy_from_slice(&error.wire().to_be_bytes());
        }
        finish_frame(&mut self.outbox[..], start);
        let latency_ms = u32::try_from((now_ms - meta.received_ms).max(0)).unwrap_or(u32::MAX);
        self.unreported_stats.latencies.add(class, latency_ms);
        self.count_reply(meta, zxid, latency_ms, self.outbox.len() - start);
        self.stats.last_response_ms = now_ms;
    }

    /// Sends a reply that does not depend on the tree.
    pub(crate) fn push_prepared_reply(
        &mut self,
        meta: RequestMeta,
        reply: PreparedReply,
        applied: Zxid,
        now_ms: i64,
    ) {
        let xid = meta.xid;
        match reply.content {
            ReplyContent::Header { zxid: ReplyZxid::Applied, error } => {
                self.push_reply(meta, applied.0, now_ms, |_| error.map_or(Ok(()), Err));
            }
            // A reply that does not depend on the tree is not counted as an operation.
            ReplyContent::Header { zxid: ReplyZxid::Fixed(zxid), error } => {
                let err = error.map_or(0, ErrorCode::wire);
                self.push_frame(|out| ReplyHeader { xid, zxid, err }.encode(out));
            }
            ReplyContent::Body(body) => self.push_reply(meta, applied.0, now_ms, |out| {
                out.extend_from_slice(&body);
                Ok(())
            }),
            ReplyContent::Sasl { error, token } => {
                let err = error.map_or(0, ErrorCode::wire);
                self.push_frame(|out| {
                    ReplyHeader { xid, zxid: 0, err }.encode(out);
                    encode_buffer(token.as_deref(), out);
                });
            }
        }
        if reply.drains {
            self.drain();
        }
    }

    /// Appends a request to the slots. Returns its slot number.
    pub(crate) fn push_slot(&mut self, slot: RequestSlot) -> u64 {
        self.waiting_reads += slot.work.read_weight();
        self.waiting_bytes += slot.meta.bytes;
        self.slots.push_back(slot);
        self.first_slot + self.slots.len() as u64 - 1
    }

    /// Whether a request that needs no transaction may be answered at once.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// Removes the first slot if it needs no transaction.
    pub(crate) fn pop_ready(&mut self) -> Option<RequestSlot> {
        match self.slots.front()?.work {
            SlotWork::Write(..) | SlotWork::Fenced { .. } | SlotWork::Listing(_) => None,
            SlotWork::Read(..) | SlotWork::Reply(_) => self.pop_front(),
        }
    }

    /// Removes the write with this number, which must be first: writes finish in request order. `None` if the
    /// connection was closed meanwhile.
    pub(crate) fn pop_write(&mut self, number: u64) -> Option<WriteSlot> {
        if self.slots.is_empty() {
            return None;
        }
        assert_eq!(self.first_slot, number, "writes of one connection finish in order");
        match self.pop_front() {
            Some(RequestSlot { meta, work: SlotWork::Write(shape) }) => Some(WriteSlot { meta, shape }),
            other => panic!("slot {number} holds a write, found {other:?}"),
        }
    }

    /// Whether this write is the next to be answered.
    pub(crate) fn is_first(&self, number: u64) -> bool {
        self.first_slot == number
    }

    /// Replaces a write that was not executed with its reply.
    pub(crate) fn set_slot_reply(&mut self, number: u64, reply: PreparedReply) {
        let index = number.checked_sub(self.first_slot).and_then(|index| usize::try_from(index).ok());
        if let Some(slot) = index.and_then(|index| self.slots.get_mut(index)) {
            slot.work = SlotWork::Reply(reply);
            slot.meta.op = None;
        }
    }

    /// Whether the outbox has no room for reads that the core runs for this connection.
    pub(crate) fn outbox_is_full(&self) -> bool {
        self.outbox.len() >= OUTBOX_CLOSE_BYTES
    }

    fn pop_front(&mut self) -> Option<RequestSlot> {
        let slot = self.slots.pop_front()?;
        self.first_slot += 1;
        self.waiting_bytes -= slot.meta.bytes;
        self.leave_path(slot.meta.path_bytes);
        self.waiting_reads -= slot.work.read_weight();
        Some(slot)
    }

    fn push_frame(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        write_frame(&mut self.outbox, body);
        self.stats.packets_sent += 1;
        self.unreported_stats.packets_sent += 1;
    }

    fn count_reply(&mut self, meta: RequestMeta, zxid: i64, latency_ms: u32, bytes: usize) {
        let stats = &mut self.stats;
        stats.packets_sent += 1;
        stats.last_op = meta.op;
        if meta.xid >= 0 {
            stats.last_cxid = meta.xid;
        }
        stats.last_zxid = zxid;
        stats.last_latency_ms = latency_ms;
        stats.latency.add(latency_ms);
        self.unreported_stats.packets_sent += 1;
        self.unreported_stats.latency.add(latency_ms);
        self.unreported_stats.record_response(u32::try_from(bytes).unwrap_or(u32::MAX));
    }
}
