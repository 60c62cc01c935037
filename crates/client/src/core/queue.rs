//! Queued requests, requests in flight, and the purpose of their replies.

use std::time::Instant;

use bytes::Bytes;
use zebu_proto::OpCode;
use zebu_proto::client::WatcherType;

use super::feeds::FeedId;
use super::request::WatchRegistration;
use super::watch_table::WatchKind;

/// The size of a body that counts as one unit.
const UNIT: usize = 1024;

/// The units of a call in the limits: one, and one more per KiB.
pub(crate) fn units(body: &[u8]) -> u32 {
    1 + u32::try_from(body.len() / UNIT).unwrap_or(u32::MAX / 2)
}

/// The purpose of a request.
#[derive(Debug)]
pub(crate) enum RequestPurpose<T> {
    /// A call of the application.
    Call { token: T, watch: Option<WatchRegistration> },
    /// A call that opens a feed.
    OpenFeed { token: T, feed: FeedId },
    /// Registers watches again; the reply confirms these persistent ones.
    Rewatch { persistent: Vec<(WatchKind, Box<str>)> },
    /// Removes a watch without watchers.
    Unwatch { watcher_type: WatcherType, path: Box<str> },
    /// Asks the server for its features.
    Discover,
    /// Tells the server what the client understands.
    Hello,
    /// Grants credit to a feed, or closes it.
    GrantFeed,
    /// Renews the lease.
    Renew,
    /// Closes the session.
    Close,
}

impl<T> RequestPurpose<T> {
    /// Whether the application waits for the reply.
    pub(crate) fn is_call(&self) -> bool {
        match self {
            RequestPurpose::Call { .. } | RequestPurpose::OpenFeed { .. } => true,
            RequestPurpose::Rewatch { .. }
            | RequestPurpose::Unwatch { .. }
            | RequestPurpose::Discover
            | RequestPurpose::Hello
            | RequestPurpose::GrantFeed
            | RequestPurpose::Renew
            | RequestPurpose::Close => false,
        }
    }
}

/// A request that is not sent yet.
#[derive(Debug)]
pub(crate) struct QueuedRequest<T> {
    pub(crate) op: OpCode,
    pub(crate) body: Bytes,
    pub(crate) purpose: RequestPurpose<T>,
    /// The connection to which the request is bound.
    pub(crate) connection: Option<u64>,
    /// The time of failure without a connection.
    pub(crate) deadline: Instant,
}

/// A request without a reply.
#[derive(Debug)]
pub(crate) struct InFlightRequest<T> {
    pub(crate) xid: i32,
    pub(crate) purpose: RequestPurpose<T>,
    pub(crate) sent_at: Instant,
    /// The units in the limit of calls in flight; zero for requests of the machine itself.
    pub(crate) units: u32,
    /// The send time that a successful reply confirms; see the lease.
    pub(crate) proves: Option<Instant>,
}

/// A credential that is sent again on every connection.
#[derive(Debug)]
pub(crate) struct AuthCredential<T> {
    pub(crate) scheme: Box<str>,
    pub(crate) secret: Bytes,
    /// The token of the call that added it, until a server has answered.
    pub(crate) token: Option<T>,
}
