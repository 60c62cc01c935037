//! Connect requests in the node: admitted ones, and connections that wait for their session.

use zebu_proto::SessionId;
use zebu_proto::client::ConnectRequest;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::password::password_matches;

use crate::connection::{ConnectionId, ConnectionSession};
use crate::consensus::RequestOrigin;

/// A connect request that was admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmittedConnect<'a> {
    pub(crate) connection: ConnectionId,
    /// The negotiated session timeout.
    pub(crate) timeout_ms: i32,
    pub(crate) request: &'a ConnectRequest,
}

/// A connection that waits for its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingConnect {
    pub(crate) connection: ConnectionId,
    pub(crate) session: ConnectionSession,
    /// The read-only field of the connect request.
    pub(crate) read_only: ReadOnlyField,
}

impl AdmittedConnect<'_> {
    /// The connection with the session that it opens or resumes.
    pub(crate) fn with_session(self, id: SessionId) -> PendingConnect {
        let session = ConnectionSession { id, timeout_ms: self.timeout_ms };
        PendingConnect { connection: self.connection, session, read_only: self.request.read_only }
    }

    /// Whether the request contains the password of a session.
    pub(crate) fn has_password_of(self, session: SessionId) -> bool {
        password_matches(session, self.request.password.as_deref().unwrap_or_default())
    }
}

impl PendingConnect {
    pub(crate) fn origin(self) -> RequestOrigin {
        RequestOrigin::Connect { connection: self.connection, read_only: self.read_only }
    }
}
