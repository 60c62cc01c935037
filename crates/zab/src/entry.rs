//! A transaction as agreement sees it: a position and bytes without meaning.

use std::sync::Arc;

use zebu_proto::Zxid;

/// A transaction with its place in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place.
    pub zxid: Zxid,
    /// Header, body and digest, as in the log.
    pub bytes: Arc<[u8]>,
}
