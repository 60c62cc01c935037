//! A frame that a client has received, as the checks need it.

/// A frame that a client has received.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) zxid: i64,
    pub(crate) kind: FrameKind,
}

/// The content of a frame.
#[derive(Clone, Debug)]
pub(crate) enum FrameKind {
    Reply { xid: i32, code: i32 },
    Ping,
    Event { kind: zebu_proto::client::EventType, path: Box<str> },
}
