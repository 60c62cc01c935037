//! Sessions outside the table of global sessions: local sessions of this server and of learners.

use zebu_proto::client::WriteRequest;
use zebu_proto::{ErrorCode, SessionId};

use super::{Primary, TxnRequest, TxnSource};
use crate::connection::{ConnectionSession, Connections};
use crate::context::ServeContext;
use crate::core::NodeState;
use crate::session::{SessionIdGenerator, SessionOwner, TrackedState};

/// The permissions of a session.
pub(super) struct SessionPermissions {
    /// Whether the session may write.
    pub(super) write: Result<(), ErrorCode>,
    /// Whether the session may have ephemeral nodes.
    pub(super) ephemeral: Result<(), ErrorCode>,
}

impl SessionPermissions {
    const NONE: SessionPermissions = SessionPermissions {
        write: Err(ErrorCode::SessionExpired),
        ephemeral: Err(ErrorCode::SessionExpired),
    };
}

impl Primary {
    /// Returns the permissions of a session. The leader accepts a learner's local sessions, which it cannot
    /// know. It knows every live session whose id this server generated.
    pub(super) fn session_permissions(
        &self,
        state: &NodeState,
        session: SessionId,
        source: TxnSource,
    ) -> SessionPermissions {
        let of_local = |ephemeral| SessionPermissions { write: Ok(()), ephemeral: Err(ephemeral) };
        match (self.sessions.state(session), source) {
            (Some(TrackedState::Open), _) => SessionPermissions { write: Ok(()), ephemeral: Ok(()) },
            (Some(TrackedState::Closing), _) => SessionPermissions::NONE,
            (None, TxnSource::Local) if self.local_sessions.contains(session) => {
                of_local(ErrorCode::EphemeralOnLocalSession)
            }
            (None, TxnSource::Learner)
                if self.local_sessions.enabled()
                    && !self.ended_sessions.contains(session)
                    && !SessionIdGenerator::is_made_by(state.settings.server_id, session) =>
            {
                // A learner makes the session global first, or explains the error to its client.
                of_local(ErrorCode::SessionExpired)
            }
            (None, TxnSource::Local | TxnSource::Learner) => SessionPermissions::NONE,
        }
    }

    /// Makes a local session global. The createSession transaction precedes the transaction of the request.
    pub(super) fn upgrade(
        &mut self,
        state: &mut NodeState,
        session: ConnectionSession,
        owner: Option<SessionOwner>,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let ConnectionSession { id, timeout_ms } = session;
        self.sessions.track(id, timeout_ms, owner, context.now.monotonic_ms);
        let txn_request = TxnRequest::internal(id, WriteRequest::CreateSession { timeout_ms });
        self.propose(state, txn_request, context);
    }
}
