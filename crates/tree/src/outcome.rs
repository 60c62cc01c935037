//! The outcome of an applied transaction, from which the reply is built.

use zebu_proto::{ErrorCode, SessionId, Stat};

/// The result of applying a transaction, or of a part of a multi.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnOutcome {
    /// Nothing changed. The code is zero for a part that precedes the failing one of a multi.
    Error(i32),
    /// A node was created; its final path is in the transaction.
    Created {
        /// The new node.
        stat: Stat,
    },
    /// A node was deleted.
    Deleted,
    /// Data was replaced.
    DataSet {
        /// The stat right afterwards.
        stat: Stat,
    },
    /// An ACL was replaced.
    AclSet {
        /// The stat right afterwards.
        stat: Stat,
    },
    /// A version check held when it was prepared.
    Checked,
    /// A session is in the table now.
    SessionCreated,
    /// A session and its ephemeral nodes were removed.
    SessionClosed {
        /// The session.
        session: SessionId,
    },
    /// The parts of a multi, in order. All are errors if one is.
    Multi(Vec<TxnOutcome>),
    /// A new configuration is in `/zookeeper/config`.
    Reconfigured {
        /// The stat right afterwards.
        stat: Stat,
    },
}

impl TxnOutcome {
    /// Nothing changed, with this error code.
    pub const fn error(code: ErrorCode) -> TxnOutcome {
        TxnOutcome::Error(code.wire())
    }
}
