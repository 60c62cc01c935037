//! A call on its way to the server, and what comes back. Bodies are opaque here: the typed side encodes
//! and decodes them, the machine only needs to know what is watched.

use std::sync::Arc;

use bytes::Bytes;
use zebu_proto::OpCode;

use super::failure::CallFailure;
use super::watch_table::WatcherId;

/// The watch that a successful call registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchIntent {
    /// getData with its watch flag.
    Data,
    /// exists with its watch flag; it also watches a missing node.
    Exists,
    /// getChildren with its watch flag.
    Children,
    /// addWatch, persistent.
    Persistent,
    /// addWatch, persistent and recursive.
    Recursive,
}

/// A watcher that becomes active when the call succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRegistration {
    /// The watcher.
    pub watcher: WatcherId,
    /// The kind of watch.
    pub intent: WatchIntent,
    /// The path at the server.
    pub path: Box<str>,
}

/// A call of the application.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    /// Operation code.
    pub op: OpCode,
    /// The encoded record after the header.
    pub body: Bytes,
    /// The watch that the call registers.
    pub watch: Option<WatchRegistration>,
    /// [`SessionMachine::disconnects`](super::SessionMachine::disconnects) at the time of the call. If the
    /// number has grown, earlier calls were lost; this one must not overtake them and fails too.
    pub disconnects_seen: u64,
    /// The [connection](super::SessionMachine::connection) to which the call is bound: on another one, whose
    /// server may not know the request, it fails as not sent. `None`: it may leave on every connection.
    pub connection: Option<u64>,
}

/// A reply of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerReply {
    /// The last zxid that the server had applied.
    pub zxid: i64,
    /// Zero or an error code.
    pub code: i32,
    /// The body after the header.
    pub body: Bytes,
    /// The server that replied.
    pub server: Arc<str>,
    /// The number of its connection.
    pub connection: u64,
}

/// The outcome of a call.
pub type CallOutcome = Result<ServerReply, CallFailure>;
