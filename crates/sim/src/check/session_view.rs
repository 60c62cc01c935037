//! The state of a session as the checker knows it.

/// The state of a session as the checker knows it.
#[derive(Clone, Debug)]
pub(crate) struct SessionView {
    pub(crate) client: usize,
    pub(crate) timeout_ms: u64,
    /// The latest zxid that the session has seen in any reply or event.
    pub(crate) seen: i64,
    /// The latest one that was not committed then: a read-only server showed its log.
    pub(crate) seen_in_log: i64,
    /// The zxid of the latest of its own writes that was answered.
    pub(crate) wrote: i64,
    /// The xid of the last write that was answered.
    pub(crate) last_xid: i32,
    /// Whether the client has sent closeSession.
    pub(crate) closing: bool,
    /// The server at which it began, and the mode of the one that it is connected to.
    pub(crate) server: usize,
    pub(crate) mode: ServerMode,
    /// Connections that its client had opened when the session began.
    pub(crate) dials: u64,
    /// The same when the session was last resumed at a server that accepts writes.
    pub(crate) resumed: u64,
}

/// Whether the server of a session accepts writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerMode {
    ReadWrite,
    ReadOnly,
}
