//! Calls before and after they are written: what waits, what is in flight, and what its answer is for.

use std::time::Instant;

use bytes::Bytes;
use zebu_proto::OpCode;
use zebu_proto::client::WatcherType;

use super::request::WatchRegistration;
use super::watch_table::WatchKind;

/// Bytes of a body that count as much as a call without one.
const UNIT: usize = 1024;

/// What a call counts in the limits on calls: one, and one more for every KiB.
pub(crate) fn units(body: &[u8]) -> u32 {
    1 + u32::try_from(body.len() / UNIT).unwrap_or(u32::MAX / 2)
}

/// What a request is for.
#[derive(Debug)]
pub(crate) enum Purpose<T> {
    /// A call of the application.
    Call { ticket: T, watch: Option<WatchRegistration> },
    /// Watches are registered again; these persistent ones are in place afterwards.
    Rewatch { persistent: Vec<(WatchKind, Box<str>)> },
    /// The last watcher of a watch has gone.
    Unwatch { watcher_type: WatcherType, path: Box<str> },
    /// The lease is renewed.
    Renew,
    /// The session ends.
    Close,
}

impl<T> Purpose<T> {
    /// Whether the application waits for the answer.
    pub(crate) fn is_call(&self) -> bool {
        match self {
            Purpose::Call { .. } => true,
            Purpose::Rewatch { .. } | Purpose::Unwatch { .. } | Purpose::Renew | Purpose::Close => false,
        }
    }
}

/// A request that no byte of has left.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    pub(crate) op: OpCode,
    pub(crate) body: Bytes,
    pub(crate) purpose: Purpose<T>,
    /// When it fails if there is no connection by then.
    pub(crate) deadline: Instant,
}

/// A request whose answer is awaited.
#[derive(Debug)]
pub(crate) struct InFlight<T> {
    pub(crate) xid: i32,
    pub(crate) purpose: Purpose<T>,
    pub(crate) sent_at: Instant,
    /// What it counts in the limit on calls in flight; zero for requests of the machine's own.
    pub(crate) units: u32,
    /// What an answer without an error proves: that the leader knows of a message that was sent then.
    pub(crate) proves: Option<Instant>,
}

/// A credential that is sent again on every connection.
#[derive(Debug)]
pub(crate) struct Credential<T> {
    pub(crate) scheme: Box<str>,
    pub(crate) secret: Bytes,
    /// The call that added it, until a server has answered.
    pub(crate) ticket: Option<T>,
}
