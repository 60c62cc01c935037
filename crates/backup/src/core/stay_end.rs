//! Why a stay at a leader is over, and what a wrong digest does.

use zebu_proto::Zxid;

/// Why a stay is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StayEnd {
    /// The connection was lost, or the leader is another one.
    Closed {
        /// The reason, for the log.
        reason: String,
    },
    /// The ensemble has another history than the backup. The next stay must begin with a whole state.
    OtherHistory(OtherHistory),
    /// The leader's epoch is below that of the last transaction. The leader may be one of the past, so that
    /// the state stays; if no other leader appears, the ensemble has lost its data.
    EarlierEpoch {
        /// The epoch of the leader.
        leader: u32,
        /// The epoch of the backup.
        known: u32,
    },
}

/// How the history of the ensemble differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherHistory {
    /// The ensemble lacks the last transactions of the backup, or the backup has no state.
    SetBack,
    /// The digest after this transaction is another one.
    Digest(Zxid),
}

/// What a wrong digest does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WrongDigest {
    /// The stay ends, and the next one begins with a whole state. Of the continued history another one may
    /// have the same zxids, and of a received state some part may be wrong.
    #[default]
    BeginAgain,
    /// The history goes on: a whole state had a wrong digest too. The first right digest ends this.
    GoOn,
}
