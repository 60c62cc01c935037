//! A call on its way to the server, and what comes back. Bodies are opaque here: the typed side encodes
//! and decodes them, the machine only needs to know what is watched.

use std::sync::Arc;

use bytes::Bytes;
use zebu_proto::OpCode;

use super::failure::Failure;
use super::watch_table::WatcherId;

/// Which watch a successful call leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchIntent {
    /// getData with its watch flag.
    Data,
    /// exists with its watch flag; a node that is missing is watched too.
    Exists,
    /// getChildren with its watch flag.
    Children,
    /// addWatch, persistent.
    Persistent,
    /// addWatch, persistent and recursive.
    Recursive,
}

/// A watcher that starts when the call succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRegistration {
    /// Who is told.
    pub watcher: WatcherId,
    /// What is watched.
    pub intent: WatchIntent,
    /// The node, as the server knows it.
    pub path: Box<str>,
}

/// A call.
#[derive(Clone, Debug)]
pub struct Request {
    /// Operation code.
    pub op: OpCode,
    /// The encoded record after the header.
    pub body: Bytes,
    /// The watch that it leaves behind.
    pub watch: Option<WatchRegistration>,
    /// [`Session::losses`](super::Session::losses) when the caller made the call. If calls were lost since,
    /// the caller could not know: this one was meant to follow them and fails with them.
    pub losses_seen: u64,
}

/// A reply of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The last transaction that the server had applied.
    pub zxid: i64,
    /// Zero or an error code.
    pub code: i32,
    /// What follows the header.
    pub body: Bytes,
    /// Who answered.
    pub server: Arc<str>,
}

/// How a call ended.
pub type Outcome = Result<Answer, Failure>;
