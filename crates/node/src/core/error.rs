//! Errors that prevent a server from applying a committed transaction.

use zebu_proto::Zxid;
use zebu_proto::jute::DecodeError;

/// A committed transaction cannot be applied. The server must stop: without the transaction its state would
/// differ from the ensemble's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The bytes are not a transaction that this server knows.
    #[error(
        "the ensemble has committed transaction {zxid}, which this server cannot read: {reason}. Nothing was applied \
         from there on; run a version that knows this kind of transaction, or remove this server from \
         the ensemble"
    )]
    Undecodable {
        /// The zxid of the transaction.
        zxid: Zxid,
        /// The decode error.
        reason: DecodeError,
    },
    /// The header contains another zxid than the committed one.
    #[error(
        "the ensemble has committed transaction {zxid}, whose bytes say that it is {found}. Nothing was applied from there \
         on; compare the logs of the members with `zebu log dump`"
    )]
    ZxidMismatch {
        /// The committed zxid.
        zxid: Zxid,
        /// The zxid in the header.
        found: Zxid,
    },
}
