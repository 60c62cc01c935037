//! The calls and replies of clients, with their times.

use std::rc::Rc;

use zebu_proto::SessionId;

use crate::operation::Operation;
use crate::queue::VirtualTime;

/// A call of a client.
#[derive(Debug)]
pub(crate) struct ClientCall {
    pub(crate) client: usize,
    pub(crate) operation: Rc<Operation>,
    pub(crate) at: VirtualTime,
    /// The latest zxid that any client had a reply for when this call was made.
    pub(crate) acked_before: i64,
    /// The latest transaction that any client had seen then.
    pub(crate) seen_before: i64,
    /// Set when the request leaves.
    pub(crate) sent: Option<SentRequest>,
    /// The zxid of its transaction, if it has one.
    pub(crate) place: Option<i64>,
    pub(crate) end: Option<CallEnd>,
}

/// The session of a sent request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentRequest {
    pub(crate) session: SessionId,
    /// Connections that the client had opened.
    pub(crate) dials: u64,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub(crate) enum CallEnd {
    Answered { zxid: i64, code: i32 },
    Failed,
}

/// A guarantee that was violated.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The checker that has found it, by the name of its file.
    pub checker: &'static str,
    /// A description of the violation.
    pub text: String,
}

impl Violation {
    pub(crate) fn new(checker: &'static str, text: String) -> Violation {
        Violation { checker, text }
    }
}

/// The result of a check.
pub(crate) type CheckResult = Result<(), Violation>;
