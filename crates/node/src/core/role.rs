//! The role in which a server serves clients. A role begins with the current tree and ends as a whole.

use zebu_proto::Zxid;

use crate::learner::LearnerRole;
use crate::primary::Primary;
use crate::read_only::ReadOnlyRole;
use crate::suspended::SuspendedRole;

#[derive(Debug)]
pub(crate) enum NodeRole {
    /// The server orders writes: a standalone server or a leader.
    Primary(Box<Primary>),
    /// The server forwards writes to the leader.
    Learner(Box<LearnerRole>),
    /// The server is partitioned from its ensemble and serves reads only.
    ReadOnly(Box<ReadOnlyRole>),
    /// The server has lost its leader and keeps its client connections for a while.
    Suspended(Box<SuspendedRole>),
    /// The server serves no clients: the ensemble has no leader, or the server is not synchronized.
    NotServing,
}

impl NodeRole {
    /// The zxid at which the epoch of this role begins. The state contains every transaction that was
    /// committed in earlier epochs. `None` without a leader, and for a standalone server.
    pub(crate) fn epoch_start(&self) -> Option<Zxid> {
        let epoch = match self {
            NodeRole::Primary(primary) => primary.epoch(),
            NodeRole::Learner(learner) => Some(learner.epoch()),
            NodeRole::ReadOnly(_) | NodeRole::Suspended(_) | NodeRole::NotServing => None,
        };
        epoch.map(|epoch| Zxid::new(epoch, 0))
    }
}
