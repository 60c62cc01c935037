//! The requests and frames of the clients of a real ensemble, in the order in which they happened.

use zebu_client::core::ServerReply;
use zebu_proto::SessionId;
use zebu_proto::client::SetWatches;

use crate::check::Frame;
use crate::operation::Operation;

/// An event at a client. All records of a run form one sequence. A frame that one client received before
/// another sent a request comes first in it.
#[derive(Clone, Debug)]
pub struct ClientRecord {
    pub(super) client: usize,
    pub(super) what: RecordKind,
}

/// The content of a record.
#[derive(Clone, Debug)]
pub(super) enum RecordKind {
    /// A call is made; each client numbers its calls.
    Called {
        number: usize,
        operation: Operation,
    },
    /// Its request leaves.
    Sent {
        number: usize,
        session: SessionId,
        xid: i32,
    },
    Answered {
        number: usize,
        answer: ServerReply,
    },
    Failed {
        number: usize,
    },
    /// A session begins or resumes on a connection.
    Began {
        session: SessionId,
        timeout_ms: u64,
    },
    /// The client closes its session.
    Closing {
        session: SessionId,
    },
    /// Watches are registered again.
    Rewatching {
        xid: i32,
        set: SetWatches,
    },
    Frame {
        session: SessionId,
        frame: Frame,
    },
    /// The client received bytes that no server sends.
    Garbage {
        bytes: Vec<u8>,
    },
    Disconnected,
    /// The session has expired.
    Expired,
}
