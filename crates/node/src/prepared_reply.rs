//! Replies that do not depend on the tree: a header alone, a fixed body, or the reply to a SASL token.

use zebu_proto::ErrorCode;

/// The zxid in the header of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyZxid {
    /// The last zxid that the server has applied when the reply is sent.
    Applied,
    /// A fixed value: some replies carry 0 or -1.
    Fixed(i64),
}

/// A reply that does not depend on the tree and may wait for earlier slots.
#[derive(Debug)]
pub(crate) struct PreparedReply {
    pub(crate) content: ReplyContent,
    /// Whether the connection is closed after the reply.
    pub(crate) drains: bool,
}

#[derive(Debug)]
pub(crate) enum ReplyContent {
    /// A header alone.
    Header { zxid: ReplyZxid, error: Option<ErrorCode> },
    /// A successful reply with this body.
    Body(Box<[u8]>),
    /// The reply to a SASL token. It has a body in case of an error too.
    Sasl { error: Option<ErrorCode>, token: Option<Box<[u8]>> },
}

impl PreparedReply {
    /// The reply to a SASL token; `None` is the null token.
    pub(crate) fn sasl(error: Option<ErrorCode>, token: Option<Vec<u8>>) -> PreparedReply {
        let token = token.map(Vec::into_boxed_slice);
        PreparedReply { content: ReplyContent::Sasl { error, token }, drains: false }
    }

    /// A reply without a body.
    pub(crate) fn header(zxid: ReplyZxid, error: Option<ErrorCode>) -> PreparedReply {
        PreparedReply { content: ReplyContent::Header { zxid, error }, drains: false }
    }

    /// A successful reply with this body.
    pub(crate) fn body(body: Vec<u8>) -> PreparedReply {
        PreparedReply { content: ReplyContent::Body(body.into_boxed_slice()), drains: false }
    }

    /// Closes the connection after the reply.
    pub(crate) fn then_drain(self) -> PreparedReply {
        PreparedReply { drains: true, ..self }
    }

    /// Whether the connection is closed after the reply.
    pub(crate) fn drains(&self) -> bool {
        self.drains
    }
}
