//! Receives one frame: decodes it, answers a read that need not wait, and puts other requests into a slot.

use std::sync::Arc;

use zebu_proto::client::auth::AuthPacket;
use zebu_proto::client::{ReadRequest, Request, RequestError, RequestHeader, WriteRequest};
use zebu_proto::{ErrorCode, Jute, OpCode, Reader, SessionId};
use zebu_tree::access::EnsembleMatch;
use zebu_tree::{Credentials, access};

use crate::connection::{
    ClientConnection, ConnectionId, ConnectionPhase, DisconnectReason, RequestMeta, RequestSlot, ServingTerm,
    SlotWork,
};
use crate::freshness::FenceRequest;
use crate::limits::{CREDENTIALS_BYTES_MAX, CREDENTIALS_MAX};
use crate::pending_request::{PendingRequest, charged_bytes};
use crate::prepared_reply::{PreparedReply, ReplyZxid};
use crate::read::ReadCall;
use crate::read_only::needs_leader;
use crate::replica::Replica;
use crate::serving_mode::ServingMode;
use crate::settings::AuthEnforcement;
use crate::shape::ReplyShape;

/// The kind of request that the core executes.
#[derive(Debug)]
pub enum RequestKind {
    /// A write, which becomes a transaction.
    Write(WriteRequest),
    /// A sync, answered when all transactions committed now are applied.
    Sync,
    /// A read waits in a slot until the state is fresh enough.
    Fence(FenceRequest),
}

/// An undecoded request, to be forwarded to the leader.
#[derive(Debug)]
pub(crate) struct ForwardPayload {
    pub(crate) op: i32,
    /// The bytes after the request header.
    pub(crate) record: Arc<[u8]>,
}

/// A request on its way to the core.
#[derive(Debug)]
pub struct SubmittedRequest {
    /// The connection that receives the reply.
    pub connection: ConnectionId,
    /// The slot of the request.
    pub slot: u64,
    /// The session of the request.
    pub session: SessionId,
    /// The client's xid.
    pub xid: i32,
    /// The decoded request.
    pub kind: RequestKind,
    /// The client's credentials when the request was received.
    pub credentials: Credentials,
    /// Monotonic milliseconds of the receipt.
    pub received_ms: i64,
    /// Bytes that the request takes of the server's limit in bytes.
    pub charged_bytes: u32,
    /// The serving term in which the connection was accepted.
    pub(crate) serving_term: ServingTerm,
    /// The undecoded request, if this server forwards it to the leader, or may do so later.
    pub(crate) forward: Option<ForwardPayload>,
}

impl SubmittedRequest {
    pub(crate) fn pending(&self) -> PendingRequest {
        PendingRequest { connection: self.connection, slot: self.slot, charged_bytes: self.charged_bytes }
    }
}

impl Replica {
    /// Processes one frame after the handshake. Returns a request that the core must execute; other requests
    /// are answered or wait in a slot. The caller holds the replica at least shared.
    pub fn receive(
        &self,
        connection: &mut ClientConnection,
        payload: &[u8],
        now_ms: i64,
    ) -> Option<SubmittedRequest> {
        connection.count_received();
        if connection.phase != ConnectionPhase::Serving {
            return None;
        }
        connection.touched_ms = now_ms;
        let mut reader = Reader::new(payload);
        let Ok(header) = RequestHeader::decode(&mut reader) else {
            connection.close(DisconnectReason::BadFrame);
            return None;
        };
        let bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let meta = RequestMeta {
            xid: header.xid,
            op: OpCode::from_wire(header.op),
            received_ms: now_ms,
            bytes,
            path_bytes: 0,
        };
        if self.refuse_by_code(connection, meta) {
            return None;
        }
        let frame = RequestFrame { op: header.op, payload };
        match self.decode(header.op, &mut reader, connection.is_clickhouse) {
            Ok(Request::Read(ReadRequest::Sync(path)))
                if connection.serving_term.mode != ServingMode::Standalone =>
            {
                let shape = ReplyShape::Sync(path.map(|path| path.into_owned().into_boxed_str()));
                queue_request(connection, meta, RequestKind::Sync, shape, frame)
            }
            Ok(Request::Read(request)) if self.is_linearizable_by_path(&request) => {
                self.receive_linearizable(connection, meta, request)
            }
            Ok(Request::Read(request)) => {
                self.read_in_order(connection, meta, request);
                None
            }
            Ok(Request::With(freshness, request)) => self.receive_with(connection, meta, freshness, request),
            Ok(Request::Hello(hello)) => {
                self.receive_hello(connection, meta, hello);
                None
            }
            Ok(Request::Feed(request)) => {
                self.receive_feed(connection, meta, request);
                None
            }
            Ok(Request::Write(request))
                if request.is_private() && !self.accepts_private_writes(connection) =>
            {
                self.refuse_private(connection, meta);
                None
            }
            Ok(Request::Write(request))
                if request.is_keeper() && !self.accepts_private_writes(connection) =>
            {
                // ClickHouse opens another session and reads again what the server can do.
                self.reply_to_bad_request(connection, meta, RequestError::UnknownOp);
                None
            }
            Ok(Request::Write(request)) => {
                self.observe_write(connection, &request);
                let meta = RequestMeta { path_bytes: self.queue_path(connection, &request), ..meta };
                let shape = ReplyShape::of(&request);
                queue_request(connection, meta, RequestKind::Write(request), shape, frame)
            }
            Ok(Request::Auth(packet)) => {
                self.authenticate(connection, meta, &packet);
                None
            }
            Ok(Request::Sasl(packet)) => {
                self.receive_sasl(connection, meta, packet.token);
                None
            }
            Err(error) => {
                self.reply_to_bad_request(connection, meta, error);
                None
            }
        }
    }

    /// Refuses a request for which its operation code is enough: the client must authenticate first, or this
    /// server only reads. Returns whether it did.
    fn refuse_by_code(&self, connection: &mut ClientConnection, meta: RequestMeta) -> bool {
        let is_auth = matches!(meta.op, Some(OpCode::Auth | OpCode::Sasl));
        if !is_auth && !self.enforcement.is_satisfied_by(&connection.credentials) {
            let error = Some(ErrorCode::SessionClosedRequireSaslAuth);
            let reply = PreparedReply::header(ReplyZxid::Fixed(0), error).then_drain();
            self.reply_in_order(connection, meta, reply);
            return true;
        }
        if connection.serving_term.mode == ServingMode::ReadOnly
            && let Some(op) = meta.op
            && needs_leader(op, connection.session.map(|session| session.id), &self.tree)
        {
            // Stats show no operation for a failed write.
            let meta = RequestMeta { op: None, ..meta };
            let reply = PreparedReply::header(ReplyZxid::Applied, Some(ErrorCode::NotReadOnly));
            self.reply_in_order(connection, meta, reply);
            return true;
        }
        false
    }

    /// Without private requests, their operation codes are unknown, as to ZooKeeper.
    fn decode<'a>(
        &self,
        op: i32,
        reader: &mut Reader<'a>,
        is_clickhouse: bool,
    ) -> Result<Request<'a>, RequestError> {
        match Request::decode(op, reader) {
            // First: the read inside may be one of ClickHouse Keeper.
            Ok(request) if request.is_private() && !self.freshness.settings.private_requests => {
                Err(RequestError::UnknownOp)
            }
            Ok(request) if request.is_keeper() => {
                self.metrics.keeper_requests.increment();
                match (self.keeper.extensions, request) {
                    // Other clients get ZooKeeper's multiRead.
                    (true, Request::Read(ReadRequest::MultiRead(_)) | Request::With(..))
                        if !is_clickhouse =>
                    {
                        Err(RequestError::Undecodable)
                    }
                    (true, request) => Ok(request),
                    // As ZooKeeper answers to parts that it does not know.
                    (false, Request::Write(WriteRequest::Multi(_))) => {
                        Ok(Request::Write(WriteRequest::Refused(ErrorCode::MarshallingError)))
                    }
                    (false, Request::Read(ReadRequest::MultiRead(_)) | Request::With(..)) => {
                        Err(RequestError::Undecodable)
                    }
                    (false, _) => Err(RequestError::UnknownOp),
                }
            }
            Err(_) if is_keeper_op(op) && !self.keeper.extensions => Err(RequestError::UnknownOp),
            Err(error) if is_private_op(op) && !self.freshness.settings.private_requests => {
                debug_assert_ne!(error, RequestError::CloseSilently, "only authentication closes");
                Err(RequestError::UnknownOp)
            }
            decoded => decoded,
        }
    }

    /// Answers all requests at the front of the queue that need no transaction.
    pub(crate) fn run_ready_requests(&self, connection: &mut ClientConnection, now_ms: i64) {
        let mut reads = 0;
        while let Some(RequestSlot { meta, work }) = connection.pop_ready() {
            if connection.outbox_is_full() {
                connection.close(DisconnectReason::OutboxFull);
                return;
            }
            match work {
                SlotWork::Read(request, credentials) => {
                    reads += 1;
                    self.metrics.read_wait_time.record_elapsed(now_ms - meta.received_ms);
                    let read = ReadCall { meta, request: &request, credentials: &credentials };
                    self.reply_to_read(connection, read, now_ms);
                }
                SlotWork::Reply(reply) => {
                    connection.push_prepared_reply(meta, reply, self.last_zxid(), now_ms)
                }
                SlotWork::Write(..) | SlotWork::Fenced { .. } | SlotWork::Listing(_) => {
                    unreachable!("pop_ready leaves requests that wait where they are")
                }
            }
        }
        if reads > 0 {
            self.metrics.reads_after_write.record(reads);
        }
    }

    pub(crate) fn read_in_order(
        &self,
        connection: &mut ClientConnection,
        meta: RequestMeta,
        request: ReadRequest<'_>,
    ) {
        let credentials = connection.credentials.clone();
        if request.is_listing() {
            if connection.is_idle() {
                self.begin_listing(connection, meta, request, credentials);
            } else {
                connection.push_listing(meta, request, credentials);
            }
        } else if connection.is_idle() {
            let read = ReadCall { meta, request: &request, credentials: &credentials };
            self.reply_to_read(connection, read, meta.received_ms);
        } else {
            connection
                .push_slot(RequestSlot { meta, work: SlotWork::Read(request.into_owned(), credentials) });
        }
    }

    pub(crate) fn reply_in_order(
        &self,
        connection: &mut ClientConnection,
        meta: RequestMeta,
        reply: PreparedReply,
    ) {
        if connection.is_idle() {
            connection.push_prepared_reply(meta, reply, self.last_zxid(), meta.received_ms);
        } else {
            let drains = reply.drains();
            connection.push_slot(RequestSlot { meta, work: SlotWork::Reply(reply) });
            if drains {
                // Requests behind this one are ignored.
                connection.drain();
            }
        }
    }

    fn reply_to_bad_request(
        &self,
        connection: &mut ClientConnection,
        meta: RequestMeta,
        error: RequestError,
    ) {
        let meta = RequestMeta { op: None, ..meta };
        match error {
            RequestError::UnknownOp => {
                let reply = PreparedReply::header(ReplyZxid::Fixed(-1), Some(ErrorCode::Unimplemented));
                self.reply_in_order(connection, meta, reply.then_drain());
            }
            RequestError::Undecodable => {
                let reply = PreparedReply::header(ReplyZxid::Applied, Some(ErrorCode::MarshallingError));
                self.reply_in_order(connection, meta, reply);
            }
            RequestError::BadArguments => {
                let reply = PreparedReply::header(ReplyZxid::Applied, Some(ErrorCode::BadArguments));
                self.reply_in_order(connection, meta, reply);
            }
            RequestError::CloseSilently => connection.close(DisconnectReason::BadFrame),
        }
    }

    /// The credentials apply at once to later requests; the reply keeps its place in the order.
    fn authenticate(&self, connection: &mut ClientConnection, meta: RequestMeta, packet: &AuthPacket) {
        if packet.scheme.as_deref() == Some("ensemble")
            && let Some(scheme) = &self.policy.auth.ensemble
        {
            let answer = scheme.check(packet.auth.as_deref());
            self.count_ensemble_auth(answer);
            match answer {
                EnsembleMatch::Expected | EnsembleMatch::Skipped => {
                    let reply = PreparedReply::header(ReplyZxid::Fixed(0), None);
                    self.reply_in_order(connection, meta, reply);
                }
                EnsembleMatch::Other => connection.close(DisconnectReason::OtherEnsemble),
            }
            return;
        }
        let (scheme, data) = (packet.scheme.as_deref(), packet.auth.as_deref());
        let accepted = access::authenticate(scheme, data, &connection.credentials, &self.policy);
        let added = accepted.is_ok_and(|ids| {
            ids.into_iter().for_each(|id| connection.credentials.add(id));
            connection.credentials.len() <= CREDENTIALS_MAX
                && connection.credentials.encoded_length() <= CREDENTIALS_BYTES_MAX
        });
        let reply = if added {
            PreparedReply::header(ReplyZxid::Fixed(0), None)
        } else {
            connection.count_auth_failure();
            PreparedReply::header(ReplyZxid::Fixed(0), Some(ErrorCode::AuthFailed)).then_drain()
        };
        self.reply_in_order(connection, meta, reply);
    }
}

/// Whether only Zebu, and forks of ZooKeeper, know an operation.
fn is_private_op(op: i32) -> bool {
    matches!(
        OpCode::from_wire(op),
        Some(
            OpCode::Hello
                | OpCode::With
                | OpCode::GetChildrenPaginated
                | OpCode::Page
                | OpCode::Scan
                | OpCode::DeleteTree
                | OpCode::Feed
                | OpCode::FeedCredit
        )
    )
}

/// Whether only ClickHouse Keeper knows an operation.
fn is_keeper_op(op: i32) -> bool {
    (OpCode::FilteredList.wire()..=OpCode::ListRecursive.wire()).contains(&op)
}

impl AuthEnforcement {
    pub(crate) fn is_satisfied_by(&self, credentials: &Credentials) -> bool {
        match self {
            AuthEnforcement::Off => true,
            AuthEnforcement::Schemes(schemes) => {
                credentials.iter().any(|id| schemes.iter().any(|scheme| id.scheme.as_ref() == Some(scheme)))
            }
        }
    }
}

/// Bytes of a request header: xid and operation.
const REQUEST_HEADER_SIZE: usize = 8;

/// A frame whose request header was decoded.
#[derive(Clone, Copy)]
struct RequestFrame<'a> {
    op: i32,
    payload: &'a [u8],
}

fn queue_request(
    connection: &mut ClientConnection,
    meta: RequestMeta,
    kind: RequestKind,
    shape: ReplyShape,
    frame: RequestFrame<'_>,
) -> Option<SubmittedRequest> {
    let closes = shape == ReplyShape::Close;
    let slot = connection.push_slot(RequestSlot { meta, work: SlotWork::Write(shape) });
    if closes {
        // Requests behind a closeSession are ignored.
        connection.drain();
    }
    let forward = match connection.serving_term.mode {
        ServingMode::Leader if !connection.serving_term.keeps_requests => None,
        ServingMode::Standalone | ServingMode::ReadOnly => None,
        ServingMode::Leader | ServingMode::Follower | ServingMode::Observer => {
            let record = frame.payload.get(REQUEST_HEADER_SIZE..).unwrap_or_default().into();
            Some(ForwardPayload { op: frame.op, record })
        }
    };
    submit(connection, meta, slot, kind, forward)
}

/// A request in a slot, for the core.
pub(crate) fn submit(
    connection: &ClientConnection,
    meta: RequestMeta,
    slot: u64,
    kind: RequestKind,
    forward: Option<ForwardPayload>,
) -> Option<SubmittedRequest> {
    Some(SubmittedRequest {
        connection: connection.id,
        slot,
        session: connection.session?.id,
        xid: meta.xid,
        kind,
        credentials: connection.credentials.clone(),
        received_ms: meta.received_ms,
        charged_bytes: charged_bytes(meta.bytes),
        serving_term: connection.serving_term,
        forward,
    })
}
