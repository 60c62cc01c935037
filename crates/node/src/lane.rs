//! A lane: one client connection as the brain sees it. It owns the order of replies: requests that must
//! wait stand in slots, and nothing is sent past a slot that is not answered yet.
//!
//! A lane has no socket. Whoever runs it moves bytes into [`Replica::receive`](crate::Replica::receive)
//! and out of the outbox.

use std::collections::VecDeque;

use zebu_proto::client::connect::{ConnectResponse, ReadOnlyField};
use zebu_proto::client::watch::{EventType, WatcherEvent};
use zebu_proto::client::{ReadRequest, ReplyHeader};
use zebu_proto::frame::{begin_frame, finish_frame, write_frame};
use zebu_proto::{ErrorCode, Jute, OpCode, SessionId, Xid, Zxid};
use zebu_tree::Credentials;

use crate::limits::{
    self, OUTBOX_CLOSE_BYTES, OUTBOX_PAUSE_BYTES, SLOTS_BYTES_MAX, SLOTS_MAX, WAITING_READS_MAX,
};
use crate::shape::ReplyShape;
use crate::stats::{LaneStats, Unreported};

/// A connection. Numbers are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u64);

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The connect request has not come yet, or is being decided.
    Handshake,
    /// Requests are served.
    Serving,
    /// Nothing more is taken; what is promised is still sent, then the connection is closed.
    Draining,
    /// Closed now; what was not sent is lost.
    Closed(CloseReason),
}

/// Why a connection is closed without a further word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed it.
    Peer,
    /// Bytes that are no request.
    BadFrame,
    /// The client does not read what it asked for.
    OutboxFull,
    /// The session ended.
    SessionEnded,
    /// The session is served by another connection now.
    Replaced,
    /// The client has seen a later state than this server has.
    AheadOfServer,
    /// Too many sessions at a time, or too many bytes of large requests.
    Throttled,
    /// Its client was asked to go to another server, so that all have their share.
    Shed,
    /// This server does not serve now: its ensemble has no leader, or it has lost it.
    NotServing,
    /// The transaction that came back is not what the client had asked for: it counts its requests anew, and the leader
    /// let its session move while an older request was on its way.
    AnswerMismatch,
    /// This server takes no writes now, and the client did not say that reads are enough.
    ReadOnly,
    /// A later request of the connection has come back from the leader before an earlier one. The client cannot be
    /// answered in order. Under a correct leader this is a defect of this server.
    AnsweredOutOfOrder,
}

/// Who decides about the writes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upstream {
    /// This server, alone.
    Standalone,
    /// This server, which leads others.
    Leading,
    /// Another server.
    Learning,
    /// Nobody: this server is cut off from its ensemble.
    Nobody,
}

/// What a connection was accepted into. Whatever it asks for is void when that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) upstream: Upstream,
    /// Counts the times that this server began to serve.
    pub(crate) term: u64,
}

/// The session of a connection, once it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSession {
    /// Its id.
    pub id: SessionId,
    /// Its negotiated timeout.
    pub timeout_ms: i32,
}

/// The zxid in the header of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderZxid {
    /// What the server has applied when the answer is sent.
    Applied,
    /// This number: some answers carry 0 or -1.
    Fixed(i64),
}

/// What happens to the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Continue,
    Drain,
}

/// An answer that is known but must wait for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A header alone.
    Header { zxid: HeaderZxid, error: Option<ErrorCode> },
    /// The answer to a SASL token when SASL is not configured: no error, no token.
    NoSasl,
}

#[derive(Debug)]
pub(crate) enum Work {
    Write(ReplyShape),
    Read(ReadRequest<'static>, Credentials),
    Answer(Answer, Then),
}

/// The part of a request that its reply needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) xid: i32,
    pub(crate) op: Option<OpCode>,
    pub(crate) received_ms: i64,
    /// Bytes of the request.
    pub(crate) bytes: u32,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) asked: Asked,
    pub(crate) work: Work,
}

/// One connection: its slots, its outbox, its credentials, its last touch.
#[derive(Debug)]
pub struct Lane {
    /// Its number.
    pub id: LaneId,
    /// How far it has come.
    pub phase: Phase,
    /// Its session, kept after the end for reports.
    pub session: Option<LaneSession>,
    /// Who the client is. A request keeps those of the moment at which it was received.
    pub credentials: Credentials,
    /// Monotonic milliseconds of the last request.
    pub touched_ms: i64,
    /// Counters for reports.
    pub stats: LaneStats,
    pub(crate) service: Service,
    unreported: Unreported,
    slots: VecDeque<Slot>,
    first_slot: u64,
    waiting_reads: u16,
    /// Bytes of the requests in slots: below the limit, and one request.
    waiting_bytes: u32,
    outbox: Vec<u8>,
}

impl Lane {
    /// A connection that was just accepted.
    pub fn new(id: LaneId, credentials: Credentials, established_ms: i64, now_ms: i64) -> Lane {
        Lane {
            id,
            phase: Phase::Handshake,
            session: None,
            credentials,
            touched_ms: now_ms,
            stats: LaneStats::new(established_ms),
            service: Service { upstream: Upstream::Standalone, term: 0 },
            unreported: Unreported::default(),
            slots: VecDeque::new(),
            first_slot: 0,
            waiting_reads: 0,
            waiting_bytes: 0,
            outbox: Vec::new(),
        }
    }

    /// Whether another request may be looked at now.
    pub fn has_room(&self) -> bool {
        self.phase == Phase::Serving
            && self.slots.len() < SLOTS_MAX
            && (self.waiting_bytes as usize) < SLOTS_BYTES_MAX
            && usize::from(self.waiting_reads) < WAITING_READS_MAX
            && self.outbox.len() < OUTBOX_PAUSE_BYTES
    }

    /// Bytes that wait to be sent.
    pub fn outbox_len(&self) -> usize {
        self.outbox.len()
    }

    /// Whether everything that was promised has been handed out.
    pub fn is_drained(&self) -> bool {
        self.slots.is_empty() && self.outbox.is_empty()
    }

    /// Requests that were received and not answered yet, as `cons` shows them.
    pub fn outstanding(&self) -> usize {
        self.slots.iter().filter(|slot| slot.asked.xid > 0).count()
    }

    /// Requests that wait in slots.
    pub fn waiting(&self) -> usize {
        self.slots.len()
    }

    /// When the client was heard of last. Who waits for the server is not silent, however long that takes.
    pub(crate) fn last_sign_ms(&self, now_ms: i64) -> i64 {
        if self.slots.is_empty() { self.touched_ms } else { now_ms }
    }

    /// Moves the bytes to send into `bytes`, which must be empty, and what was counted into the result.
    pub fn take_outbox(&mut self, bytes: &mut Vec<u8>) -> Unreported {
        debug_assert!(bytes.is_empty(), "the caller sent what it took before");
        std::mem::swap(bytes, &mut self.outbox);
        std::mem::take(&mut self.unreported)
    }

    /// The bytes to send.
    pub fn outbox(&self) -> &[u8] {
        &self.outbox
    }

    /// So many of them were sent. What was counted moves into the result.
    pub fn sent(&mut self, count: usize) -> Unreported {
        self.outbox.drain(..count);
        if self.outbox.is_empty() {
            limits::relax(&mut self.outbox);
        }
        std::mem::take(&mut self.unreported)
    }

    /// Counts a frame that was received.
    pub fn count_received(&mut self) {
        self.stats.packets_received += 1;
        self.unreported.packets_received += 1;
    }

    /// Counts an authentication that was refused.
    pub(crate) fn count_auth_failure(&mut self) {
        self.unreported.auth_failures += 1;
    }

    /// Closes the connection now. The first reason stays.
    pub fn close(&mut self, reason: CloseReason) {
        if !matches!(self.phase, Phase::Closed(_)) {
            self.phase = Phase::Closed(reason);
            self.slots.clear();
            self.waiting_reads = 0;
            self.waiting_bytes = 0;
            self.outbox = Vec::new();
        }
    }

    /// Takes no further request; what is promised is still sent.
    pub fn drain(&mut self) {
        if !matches!(self.phase, Phase::Closed(_)) {
            self.phase = Phase::Draining;
        }
    }

    /// Answers the connect request: the session is the client's.
    pub(crate) fn accept(
        &mut self,
        session: LaneSession,
        read_only: ReadOnlyField,
        service: Service,
        now_ms: i64,
    ) {
        if self.phase != Phase::Handshake {
            return;
        }
        self.phase = Phase::Serving;
        self.service = service;
        self.session = Some(session);
        self.touched_ms = now_ms;
        let response = ConnectResponse::accepted(session.id, session.timeout_ms, read_only);
        let response = match service.upstream {
            Upstream::Standalone | Upstream::Leading | Upstream::Learning => response,
            Upstream::Nobody => response.in_read_only_mode(),
        };
        self.push_frame(|out| response.encode(out));
        self.stats.last_op = Some(OpCode::CreateSession);
    }

    /// Answers the connect request: there is no such session for this client.
    pub fn reject(&mut self, read_only: ReadOnlyField) {
        self.turn_away(&ConnectResponse::rejected(read_only));
    }

    /// The same, by a server that takes no writes.
    pub(crate) fn reject_read_only(&mut self, read_only: ReadOnlyField) {
        self.turn_away(&ConnectResponse::rejected(read_only).in_read_only_mode());
    }

    fn turn_away(&mut self, response: &ConnectResponse) {
        if self.phase == Phase::Handshake {
            self.push_frame(|out| response.encode(out));
            self.drain();
        }
    }

    /// Sends a watch event.
    pub fn push_event(&mut self, zxid: i64, kind: EventType, path: &str) {
        if matches!(self.phase, Phase::Closed(_)) {
            return;
        }
        if self.outbox.len() >= OUTBOX_CLOSE_BYTES {
            self.close(CloseReason::OutboxFull);
            return;
        }
        self.push_frame(|out| {
            ReplyHeader { xid: Xid::NOTIFICATION.0, zxid, err: 0 }.encode(out);
            WatcherEvent::encode_parts(kind, path, out);
        });
    }

    /// Sends an answer whose body is written by `body`. An error replaces what was written of it.
    pub(crate) fn push_reply(
        &mut self,
        asked: Asked,
        zxid: i64,
        now_ms: i64,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), ErrorCode>,
    ) {
        let start = begin_frame(&mut self.outbox);
        ReplyHeader { xid: asked.xid, zxid, err: 0 }.encode(&mut self.outbox);
        let after_header = self.outbox.len();
        if let Err(error) = body(&mut self.outbox) {
            self.outbox.truncate(after_header);
            self.outbox[after_header - 4..].copy_from_slice(&error.wire().to_be_bytes());
        }
        finish_frame(&mut self.outbox[..], start);
        self.count_reply(asked, zxid, now_ms, self.outbox.len() - start);
    }

    /// Sends an answer that needs nothing of the tree.
    pub(crate) fn push_answer(
        &mut self,
        asked: Asked,
        answer: Answer,
        then: Then,
        applied: Zxid,
        now_ms: i64,
    ) {
        let xid = asked.xid;
        match answer {
            Answer::Header { zxid: HeaderZxid::Applied, error } => {
                self.push_reply(asked, applied.0, now_ms, |_| error.map_or(Ok(()), Err));
            }
            // Answered without a look at the tree: no operation in the eyes of reports.
            Answer::Header { zxid: HeaderZxid::Fixed(zxid), error } => {
                let err = error.map_or(0, ErrorCode::wire);
                self.push_frame(|out| ReplyHeader { xid, zxid, err }.encode(out));
            }
            Answer::NoSasl => self.push_frame(|out| {
                ReplyHeader { xid, zxid: 0, err: 0 }.encode(out);
                (-1i32).encode(out);
            }),
        }
        if then == Then::Drain {
            self.drain();
        }
    }

    /// Puts a request behind those that wait already; returns its slot number.
    pub(crate) fn push_slot(&mut self, slot: Slot) -> u64 {
        if matches!(slot.work, Work::Read(..)) {
            self.waiting_reads += 1;
        }
        self.waiting_bytes += slot.asked.bytes;
        self.slots.push_back(slot);
        self.first_slot + self.slots.len() as u64 - 1
    }

    /// Whether a request that needs no transaction may be answered at once.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// Takes the first slot if it needs no transaction.
    pub(crate) fn pop_ready(&mut self) -> Option<Slot> {
        match self.slots.front()?.work {
            Work::Write(_) => None,
            Work::Read(..) | Work::Answer(..) => self.pop_front(),
        }
    }

    /// Takes the write with this number, which must stand first: writes finish in the order they came.
    /// `None` if the connection was closed meanwhile.
    pub(crate) fn pop_write(&mut self, number: u64) -> Option<(Asked, ReplyShape)> {
        if self.slots.is_empty() {
            return None;
        }
        assert_eq!(self.first_slot, number, "writes of one connection finish in order");
        match self.pop_front() {
            Some(Slot { asked, work: Work::Write(shape) }) => Some((asked, shape)),
            other => panic!("slot {number} holds a write, found {other:?}"),
        }
    }

    /// Whether this write is the next to be answered.
    pub(crate) fn is_first(&self, number: u64) -> bool {
        self.first_slot == number
    }

    /// Replaces a write that was not carried out by its answer.
    pub(crate) fn answer_slot(&mut self, number: u64, answer: Answer, then: Then) {
        let index = number.checked_sub(self.first_slot).and_then(|index| usize::try_from(index).ok());
        if let Some(slot) = index.and_then(|index| self.slots.get_mut(index)) {
            slot.work = Work::Answer(answer, then);
            slot.asked.op = None;
        }
    }

    /// Whether reads that the core runs for this connection still fit.
    pub(crate) fn outbox_is_full(&self) -> bool {
        self.outbox.len() >= OUTBOX_CLOSE_BYTES
    }

    fn pop_front(&mut self) -> Option<Slot> {
        let slot = self.slots.pop_front()?;
        self.first_slot += 1;
        self.waiting_bytes -= slot.asked.bytes;
        if matches!(slot.work, Work::Read(..)) {
            self.waiting_reads -= 1;
        }
        Some(slot)
    }

    fn push_frame(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        write_frame(&mut self.outbox, body);
        self.stats.packets_sent += 1;
        self.unreported.packets_sent += 1;
    }

    fn count_reply(&mut self, asked: Asked, zxid: i64, now_ms: i64, bytes: usize) {
        let latency_ms = u32::try_from((now_ms - asked.received_ms).max(0)).unwrap_or(u32::MAX);
        let stats = &mut self.stats;
        stats.packets_sent += 1;
        stats.last_op = asked.op;
        if asked.xid >= 0 {
            stats.last_cxid = asked.xid;
        }
        stats.last_zxid = zxid;
        stats.last_response_ms = now_ms;
        stats.last_latency_ms = latency_ms;
        stats.latency.add(latency_ms);
        self.unreported.packets_sent += 1;
        self.unreported.latency.add(latency_ms);
        self.unreported.response(u32::try_from(bytes).unwrap_or(u32::MAX));
    }
}

/// All lanes of a server, by number. The edge locks them one at a time, the simulator just owns them.
pub trait Lanes {
    /// Runs `action` on a lane; `None` if it is gone.
    fn with<R>(&mut self, lane: LaneId, action: impl FnOnce(&mut Lane) -> R) -> Option<R>;
}
