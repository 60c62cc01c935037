//! Findings: conditions that a member cannot mend by itself, or mends in a way that an operator should know of.

use std::fmt;

use zebu_proto::{ServerId, Zxid};

/// A condition that an operator should know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// At a leader: a voter has promised a later epoch, so it cannot be counted in this one.
    PromisedLater {
        /// The voter.
        server: ServerId,
        /// What it has promised.
        accepted: i64,
        /// The epoch of this leader.
        epoch: u32,
    },
    /// At a voter: it has promised a later epoch than its leader's. It learns and serves without being counted.
    FollowsUncounted {
        /// Its leader.
        leader: ServerId,
        /// The leader's epoch.
        epoch: u32,
        /// What is promised here.
        accepted: i64,
    },
    /// At a learner: it has a history of a later epoch than its leader's, so it cannot follow him.
    StaysOut {
        /// The leader.
        leader: ServerId,
        /// The leader's epoch.
        epoch: u32,
        /// What is promised here.
        accepted: i64,
        /// The epoch whose history is here.
        current: i64,
    },
    /// At a server that was elected: behind the highest epoch that was promised there is no other one.
    NoEpochLeft {
        /// The highest epoch.
        highest: i64,
    },
    /// The state is not the one that the leader had after a transaction.
    DigestDiffers {
        /// The transaction.
        zxid: Zxid,
        /// The leader's digest.
        expected: i64,
        /// The digest of the state here.
        found: i64,
    },
    /// After some transactions whose digest differed, the state is the leader's.
    DigestsEqualAgain {
        /// The transaction.
        zxid: Zxid,
        /// How many differed.
        differed: u64,
    },
    /// The state that this member started with is not the ensemble's. It is set aside; the leader sends its own.
    StateGivenUp {
        /// The last transaction that was applied to it.
        zxid: Zxid,
        /// How many digests differed; none was right.
        differed: u64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::PromisedLater { server, accepted, epoch } => write!(
                f,
                "server {} has promised epoch {accepted} and cannot be counted in epoch {epoch}; it takes part again \
                 after the next election, so restart this leader when all others serve; if its acceptedEpoch file is \
                 wrong, stop it and empty its data directory",
                server.0
            ),
            Finding::FollowsUncounted { leader, epoch, accepted } => write!(
                f,
                "this server has promised epoch {accepted} (acceptedEpoch), and the leader, server {}, is in epoch \
                 {epoch}: it follows without a vote until the next election; restart the leader when all others serve",
                leader.0
            ),
            Finding::StaysOut { leader, epoch, accepted, current } => write!(
                f,
                "this server has the history of epoch {current} (currentEpoch; acceptedEpoch is {accepted}), and the \
                 leader, server {}, is in epoch {epoch}: it cannot follow; its data belongs to another ensemble or its \
                 epoch files are wrong: stop it, move its data directory away and start it empty",
                leader.0
            ),
            Finding::NoEpochLeft { highest } => write!(
                f,
                "epoch {highest} was promised, and there is none behind it: the acceptedEpoch file of a member is \
                 wrong; stop the members, restore the files and start them again"
            ),
            Finding::DigestDiffers { zxid, expected, found } => write!(
                f,
                "after {zxid} the state of the leader has digest {expected:#x}, the state here {found:#x}: two members \
                 have different data; compare them and start the wrong one with an empty data directory"
            ),
            Finding::DigestsEqualAgain { zxid, differed } => {
                write!(f, "after {zxid} the state is the leader's again; {differed} digests differed")
            }
            Finding::StateGivenUp { zxid, differed } => write!(
                f,
                "{differed} of {differed} digests up to {zxid} differed: the data that this member started with is not \
                 the ensemble's; it is set aside, and the leader sends the whole state"
            ),
        }
    }
}
