//! The read-only role of an ensemble member without a leader. It answers reads of clients that accept
//! read-only mode, and changes nothing. It owns the sessions of its connections, which no other server knows.

mod read_only_timer;
mod refused_ops;
mod session;

pub(crate) use read_only_timer::Leaderless;
pub(crate) use refused_ops::needs_leader;

use zebu_proto::SessionId;
use zebu_proto::client::WriteRequest;

use crate::connection::{ConnectionId, Connections, DisconnectReason};
use crate::context::ServeContext;
use crate::core::NodeState;
use crate::prepared_reply::{PreparedReply, ReplyZxid};
use crate::receive::{RequestKind, SubmittedRequest};
use crate::session::{SessionOwner, SessionTracker, TrackerReport};

#[derive(Debug)]
pub(crate) struct ReadOnlyRole {
    /// Sessions of the connections here: sessions that were opened here, and resumed sessions of the
    /// ensemble. The end of an ensemble session here has no effect elsewhere.
    sessions: SessionTracker,
}

impl ReadOnlyRole {
    pub(crate) fn new(state: &NodeState) -> ReadOnlyRole {
        ReadOnlyRole { sessions: SessionTracker::new(state.settings.tick_ms) }
    }

    pub(crate) fn next_deadline(&self) -> i64 {
        self.sessions.next_deadline().unwrap_or(i64::MAX)
    }

    pub(crate) fn session_report(&self) -> TrackerReport {
        self.sessions.report()
    }

    pub(crate) fn detach(&mut self, session: SessionId, connection: ConnectionId, touched_ms: i64) {
        self.sessions.detach(session, connection, touched_ms);
    }

    /// Closes the connections of silent sessions, without a transaction.
    pub(crate) fn tick(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        let mut expired = Vec::new();
        self.sessions.expire(
            context.now.monotonic_ms,
            |connection| context.connections.with(connection, |connection| connection.touched_ms),
            |session| expired.push(session),
        );
        for session in expired {
            if let Some(SessionOwner::Connection(connection)) = self.sessions.remove(session) {
                context.close(connection, DisconnectReason::SessionEnded);
            }
        }
    }

    /// Handles the closeSession of a session that was opened here. Other writes were refused when they were
    /// received.
    pub(crate) fn handle_request(
        &mut self,
        state: &mut NodeState,
        submitted: SubmittedRequest,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let SubmittedRequest { connection, slot, session, kind, charged_bytes, .. } = submitted;
        state.completed_requests.add(charged_bytes);
        let RequestKind::Write(WriteRequest::CloseSession) = kind else {
            unreachable!("a connection that was accepted by a reader sends no writes on, found {kind:?}");
        };
        if self.sessions.has_moved_from(session, SessionOwner::Connection(connection)) {
            // The connection is closed, and the session uses another one.
            return;
        }
        self.sessions.remove(session);
        context.connections.with(connection, |connection| {
            let reply = PreparedReply::header(ReplyZxid::Applied, None).then_drain();
            connection.set_slot_reply(slot, reply);
            context.replica.run_ready_requests(connection, context.now.monotonic_ms);
        });
    }
}
