//! What a learner wants of its leader. Not a part of its vote: that always tells what its disk holds.

/// What a learner wants of its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// What its own history lacks.
    Rest,
    /// A whole state. The leader of this epoch has asked for a cut of the history where it cannot be cut, because
    /// it begins with a whole state that goes further. A leader asks only when a quorum has promised him the epoch
    /// and so has found nobody ahead of him; therefore he alone is told that there is nothing here. Every other
    /// leader hears the truth, and looks for himself.
    WholeState {
        /// Whose leader.
        epoch: u32,
    },
}

impl Wanted {
    /// What is wanted of the leader of an epoch.
    pub(crate) fn of_leader_of(self, epoch: u32) -> Wanted {
        match self {
            Wanted::WholeState { epoch: asked } if asked == epoch => self,
            Wanted::WholeState { .. } | Wanted::Rest => Wanted::Rest,
        }
    }
}
