//! Why a server cannot go on applying what was decided.

use zebu_proto::Zxid;
use zebu_proto::jute::DecodeError;

/// A committed transaction cannot be applied. Going on without it would make this server differ from the others,
/// so it has to stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Its bytes are no transaction that this server knows.
    #[error(
        "the ensemble has committed transaction {zxid}, which this server cannot read: {reason}. Nothing was applied \
         from there on; run a version that knows this kind of transaction, or remove this server from \
         the ensemble"
    )]
    Undecodable {
        /// Which.
        zxid: Zxid,
        /// What is wrong with it.
        reason: DecodeError,
    },
    /// Its header names another place than the one that was agreed upon.
    #[error(
        "the ensemble has committed transaction {zxid}, whose bytes say that it is {found}. Nothing was applied from there \
         on; compare the logs of the members with `zebu log dump`"
    )]
    Misplaced {
        /// Where it stands in the history.
        zxid: Zxid,
        /// What it says.
        found: Zxid,
    },
}
