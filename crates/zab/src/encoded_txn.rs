//! A transaction as Zab sees it: a zxid and opaque bytes.

use std::sync::Arc;

use zebu_proto::Zxid;

/// A transaction with its zxid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedTxn {
    /// The position in the history.
    pub zxid: Zxid,
    /// Header, body and digest, as in the log.
    pub bytes: Arc<[u8]>,
}
