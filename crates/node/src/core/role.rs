//! What a server does for its clients now. A role is taken up with the state of the tree and dropped as a whole.

use crate::deciding::Decider;
use crate::learning::Learner;
use crate::reading::Reader;

#[derive(Debug)]
pub(crate) enum Role {
    /// It makes transactions: a standalone server, or a leader.
    Deciding(Box<Decider>),
    /// It has another server make them.
    Learning(Box<Learner>),
    /// Nobody makes them: it is cut off, and shows what it has to whom that is enough.
    Reading(Box<Reader>),
    /// It serves nobody: its ensemble has no leader, or it has not caught up.
    Idle,
}
