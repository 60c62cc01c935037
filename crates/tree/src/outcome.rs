//! What a transaction did when it was applied: what the reply is made of.

use zebu_proto::{ErrorCode, SessionId, Stat};

/// The result of applying a transaction, or of a part of a multi.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
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
        /// The node right afterwards.
        stat: Stat,
    },
    /// An ACL was replaced.
    AclSet {
        /// The node right afterwards.
        stat: Stat,
    },
    /// A version check held when it was prepared.
    Checked,
    /// A session is in the table now.
    SessionCreated,
    /// A session and its ephemeral nodes are gone.
    SessionClosed {
        /// Which.
        session: SessionId,
    },
    /// The parts of a multi, in order. All are errors if one is.
    Multi(Vec<Outcome>),
    /// A new configuration is in `/zookeeper/config`.
    Reconfigured {
        /// The node right afterwards.
        stat: Stat,
    },
}

impl Outcome {
    /// Nothing changed, for this reason.
    pub const fn error(code: ErrorCode) -> Outcome {
        Outcome::Error(code.wire())
    }
}
