//! Receives a read with freshness: answers it at once if the state will do, and puts it behind a fence if
//! not. A fence that this server cannot pass is refused, and the connection stays open.

use zebu_proto::client::{ClientHello, FEATURE_MOVE, Freshness, ReadRequest, ServerHello};
use zebu_proto::{ErrorCode, Jute, Zxid};

use crate::connection::{ClientConnection, RequestMeta};
use crate::prepared_reply::{PreparedReply, ReplyZxid};
use crate::receive::{RequestKind, SubmittedRequest, submit};
use crate::replica::Replica;
use crate::serving_mode::ServingMode;

/// A read waits for a transaction at most for this part of its session timeout.
const ZXID_WAIT_PART: i64 = 4;

/// The conditions of a read behind a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceRequest {
    /// The leader must prove that the state is complete.
    pub(crate) needs_leader: bool,
    /// The transaction that must be applied, and the end of the wait in monotonic milliseconds.
    pub(crate) awaited: Option<(Zxid, i64)>,
}

impl FenceRequest {
    /// Whether other reads of the connection may share the fence.
    pub(crate) fn is_shared(self) -> bool {
        self.awaited.is_none()
    }
}

impl Replica {
    /// Receives a read with these demands. Returns a request for the core if it has to wait.
    pub(crate) fn receive_with(
        &self,
        connection: &mut ClientConnection,
        meta: RequestMeta,
        freshness: Freshness,
        request: ReadRequest<'_>,
    ) -> Option<SubmittedRequest> {
        let meta = RequestMeta { op: Some(request.op()), ..meta };
        let needs_leader = self.needs_leader(connection, freshness, meta.received_ms);
        if needs_leader && !self.has_strict_leader(connection) {
            self.refuse_private(connection, meta);
            return None;
        }
        let timeout_ms = connection.session.map_or(0, |session| i64::from(session.timeout_ms));
        let deadline_ms = meta.received_ms + timeout_ms / ZXID_WAIT_PART;
        let missing = freshness.min_zxid.filter(|zxid| *zxid > self.last_zxid());
        let fence = FenceRequest { needs_leader, awaited: missing.map(|zxid| (zxid, deadline_ms)) };
        if !fence.needs_leader && fence.awaited.is_none() {
            self.read_in_order(connection, meta, request);
            return None;
        }
        let slot = connection.push_fenced_read(meta, request, fence.is_shared());
        let is_submitted = fence.is_shared() && connection.is_fence_submitted();
        if is_submitted {
            // The core has not begun the check of an earlier read; it counts for this one.
            return None;
        }
        if fence.is_shared() {
            connection.mark_fence_submitted();
        }
        submit(connection, meta, slot, RequestKind::Fence(fence), None)
    }

    /// Makes a plain read linearizable. Without a leader that can prove it, the read is answered as usual.
    pub(crate) fn receive_linearizable(
        &self,
        connection: &mut ClientConnection,
        meta: RequestMeta,
        request: ReadRequest<'_>,
    ) -> Option<SubmittedRequest> {
        if self.has_strict_leader(connection) {
            return self.receive_with(connection, meta, Freshness::LINEARIZABLE, request);
        }
        self.read_in_order(connection, meta, request);
        None
    }

    /// Answers hello with the features of this server, and notes those of the client.
    pub(crate) fn receive_hello(
        &self,
        connection: &mut ClientConnection,
        meta: RequestMeta,
        hello: ClientHello,
    ) {
        if hello.features & FEATURE_MOVE != 0 {
            self.metrics.client_hellos.increment();
        }
        connection.note_features(hello.features, self.last_zxid());
        connection.note_feed_feature(hello.features);
        let moves = if sends_clients_away(connection) { FEATURE_MOVE } else { 0 };
        let features = moves | self.feed_feature(connection);
        let mut body = Vec::new();
        ServerHello { features }.encode(&mut body);
        self.reply_in_order(connection, meta, PreparedReply::body(body));
    }

    fn needs_leader(&self, connection: &ClientConnection, freshness: Freshness, now_ms: i64) -> bool {
        match connection.serving_term.mode {
            // The only server has applied every transaction that it has answered.
            ServingMode::Standalone => false,
            ServingMode::Leader | ServingMode::Follower | ServingMode::Observer | ServingMode::ReadOnly => {
                freshness.linearizable
                    || freshness.max_age_ms.is_some_and(|age_ms| !self.freshness.is_within(age_ms, now_ms))
            }
        }
    }

    pub(super) fn has_strict_leader(&self, connection: &ClientConnection) -> bool {
        match connection.serving_term.mode {
            ServingMode::Standalone => true,
            ServingMode::Leader | ServingMode::Follower | ServingMode::Observer => {
                self.freshness.has_strict_leader()
            }
            ServingMode::ReadOnly => false,
        }
    }

    /// Whether a private write of a client becomes a transaction.
    pub(crate) fn accepts_private_writes(&self, connection: &ClientConnection) -> bool {
        match connection.serving_term.mode {
            ServingMode::Standalone | ServingMode::Leader => true,
            ServingMode::Follower | ServingMode::Observer => self.freshness.has_private_leader(),
            ServingMode::ReadOnly => false,
        }
    }

    /// Refuses a request that works on other servers or at other times.
    pub(crate) fn refuse_private(&self, connection: &mut ClientConnection, meta: RequestMeta) {
        let meta = RequestMeta { op: None, ..meta };
        let reply = PreparedReply::header(ReplyZxid::Applied, Some(ErrorCode::Unimplemented));
        self.reply_in_order(connection, meta, reply);
    }
}

/// Whether this server asks its clients to move before it stops. A server alone has no place for them.
pub(super) fn sends_clients_away(connection: &ClientConnection) -> bool {
    match connection.serving_term.mode {
        ServingMode::Leader | ServingMode::Follower | ServingMode::Observer => true,
        ServingMode::Standalone | ServingMode::ReadOnly => false,
    }
}
