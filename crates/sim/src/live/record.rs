//! What clients of a real ensemble have said and heard, in the order in which it happened.

use zebu_client::core::Answer;
use zebu_proto::SessionId;
use zebu_proto::client::SetWatches;

use crate::check::Frame;
use crate::operation::Operation;

/// One thing that happened at a client. All records of a run stand in one list: something that a client
/// heard before another one spoke has to come first in it.
#[derive(Clone, Debug)]
pub struct Record {
    pub(super) client: usize,
    pub(super) what: What,
}

/// What happened.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// A call is made; calls have numbers of their own at each client.
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
        answer: Answer,
    },
    Failed {
        number: usize,
    },
    /// A session begins, or goes on, on a connection.
    Began {
        session: SessionId,
        timeout_ms: u64,
    },
    /// The client asks for the end of its session.
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
    /// Something came that no server sends.
    Garbage {
        bytes: Vec<u8>,
    },
    Disconnected,
    /// The session was lost.
    Expired,
}
