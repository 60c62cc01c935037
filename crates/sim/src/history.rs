//! What clients have asked and heard, with the times at which they did.

use std::rc::Rc;

use zebu_proto::SessionId;

use crate::operation::Operation;
use crate::queue::Time;

/// A call of a client.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) client: usize,
    pub(crate) operation: Rc<Operation>,
    pub(crate) at: Time,
    /// The latest transaction that any client had an answer for when this call was made.
    pub(crate) acked_before: i64,
    /// Set when the request leaves.
    pub(crate) sent: Option<Sent>,
    /// Its transaction, if it has one.
    pub(crate) place: Option<i64>,
    pub(crate) end: Option<End>,
}

/// How a request left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) session: SessionId,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Answered { zxid: i64, code: i32 },
    Failed,
}

/// A promise that was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The checker that has seen it, by the name of its file.
    pub checker: &'static str,
    /// What was seen.
    pub text: String,
}

impl Violation {
    pub(crate) fn new(checker: &'static str, text: String) -> Violation {
        Violation { checker, text }
    }
}

/// What a check says.
pub(crate) type Verdict = Result<(), Violation>;
