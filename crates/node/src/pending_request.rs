//! A client request that the core has accepted and not answered: the slot of its reply and its share of the
//! server's limits. It holds no part of the request itself, unless the next leader may get a copy.

use zebu_proto::SessionId;

use crate::connection::ConnectionId;
use crate::request_copy::RequestCopy;

/// Requests up to this length count by number only, not by bytes.
pub const UNCHARGED_BYTES_MAX: u32 = 4 << 10;

/// An accepted request without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingRequest {
    pub(crate) connection: ConnectionId,
    pub(crate) slot: u64,
    /// See [`charged_bytes`].
    pub(crate) charged_bytes: u32,
}

/// A sync of a client that has no answer.
#[derive(Debug)]
pub(crate) struct UnansweredSync {
    pub(crate) pending: PendingRequest,
    pub(crate) session: SessionId,
    pub(crate) xid: i32,
    pub(crate) copy: Option<Box<RequestCopy>>,
}

/// Bytes that a request of this length counts towards the limit in bytes.
pub(crate) fn charged_bytes(length: u32) -> u32 {
    if length <= UNCHARGED_BYTES_MAX { 0 } else { length }
}

/// Requests that were answered or dropped. Their share of the limits is free again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnsweredRequests {
    /// The number of requests.
    pub requests: usize,
    /// Their charged bytes.
    pub bytes: usize,
}

impl AnsweredRequests {
    /// Counts one more request.
    pub(crate) fn add(&mut self, charged_bytes: u32) {
        self.requests += 1;
        self.bytes += charged_bytes as usize;
    }
}
