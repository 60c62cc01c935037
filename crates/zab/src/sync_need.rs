//! The kind of synchronization that a learner needs. It does not affect the vote, which always names the log
//! on disk.

/// The kind of synchronization that a learner needs from its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncNeed {
    /// The transactions after its own last one.
    Diff,
    /// A snapshot. The leader of this epoch sent a TRUNC that this log cannot execute, because it starts
    /// with a later snapshot. Only this leader is told that the learner has no history: a quorum has acked
    /// its epoch, so no voter is ahead of it. Every other leader gets the true last zxid.
    Snapshot {
        /// The epoch of that leader.
        epoch: u32,
    },
}

impl SyncNeed {
    /// The need towards the leader of an epoch.
    pub(crate) fn for_leader_of(self, epoch: u32) -> SyncNeed {
        match self {
            SyncNeed::Snapshot { epoch: asked } if asked == epoch => self,
            SyncNeed::Snapshot { .. } | SyncNeed::Diff => SyncNeed::Diff,
        }
    }
}
