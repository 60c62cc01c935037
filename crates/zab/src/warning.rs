//! Conditions that a peer cannot repair, or whose repair an operator has to know about.

use std::fmt;

use zebu_proto::{ServerId, Zxid};

use crate::disk_health::HandOverReason;

/// A condition that an operator has to know about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerWarning {
    /// On a leader: a voter has accepted a later epoch, so its acks do not count in this epoch.
    LearnerAcceptedLaterEpoch {
        /// The voter.
        server: ServerId,
        /// The accepted epoch of the voter.
        accepted: i64,
        /// The epoch of this leader.
        epoch: u32,
    },
    /// On a voter: its accepted epoch is later than the leader's epoch. It learns and serves like an
    /// observer.
    FollowingWithoutVote {
        /// The leader.
        leader: ServerId,
        /// The epoch of the leader.
        epoch: u32,
        /// The accepted epoch of this server.
        accepted: i64,
    },
    /// On a learner: its current epoch is later than the leader's epoch, so it cannot follow.
    CannotFollow {
        /// The leader.
        leader: ServerId,
        /// The epoch of the leader.
        epoch: u32,
        /// The accepted epoch of this server.
        accepted: i64,
        /// The current epoch of this server.
        current: i64,
    },
    /// On an elected server: no epoch is left after the highest accepted epoch.
    EpochsExhausted {
        /// The highest accepted epoch.
        highest: i64,
    },
    /// After a transaction, the digest of the state differs from the leader's.
    DigestMismatch {
        /// The transaction.
        zxid: Zxid,
        /// The digest of the leader.
        expected: i64,
        /// The digest of this server.
        found: i64,
    },
    /// After transactions with different digests, the digest is the leader's again.
    DigestMatchesAgain {
        /// The first transaction whose digest matches.
        zxid: Zxid,
        /// The number of digests that differed.
        differed: u64,
    },
    /// The state that this server started with differs from the ensemble's. It is moved aside, and the
    /// leader sends a snapshot.
    DataQuarantined {
        /// The last transaction that was applied to the state.
        zxid: Zxid,
        /// The number of digests that differed; none matched.
        differed: u64,
    },
    /// This leader hands over, so that another server leads.
    HandsOver {
        /// The reason.
        reason: HandOverReason,
        /// The 99th percentile of its appends over ten seconds, in milliseconds.
        append_p99_ms: i64,
    },
}

impl fmt::Display for PeerWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerWarning::LearnerAcceptedLaterEpoch { server, accepted, epoch } => write!(
                f,
                "server {} has accepted epoch {accepted}, later than epoch {epoch} of this leader: its acks do not \
                 count until the next election; restart this leader when all other servers serve; if its \
                 acceptedEpoch file is wrong, stop it and empty its data directory",
                server.0
            ),
            PeerWarning::FollowingWithoutVote { leader, epoch, accepted } => write!(
                f,
                "this server has accepted epoch {accepted} (acceptedEpoch), later than epoch {epoch} of the leader, \
                 server {}: its acks do not count until the next election; restart the leader when all other \
                 servers serve",
                leader.0
            ),
            PeerWarning::CannotFollow { leader, epoch, accepted, current } => write!(
                f,
                "this server has the history of epoch {current} (currentEpoch; acceptedEpoch is {accepted}), later \
                 than epoch {epoch} of the leader, server {}: it cannot follow; its data belongs to another \
                 ensemble or its epoch files are wrong; stop it, move its data directory away and start it empty",
                leader.0
            ),
            PeerWarning::EpochsExhausted { highest } => write!(
                f,
                "epoch {highest} was accepted, and no later epoch exists: the acceptedEpoch file of a server is \
                 wrong; stop all servers, restore the files and start them again"
            ),
            PeerWarning::DigestMismatch { zxid, expected, found } => write!(
                f,
                "after {zxid} the state of the leader has digest {expected:#x}, the state of this server \
                 {found:#x}: the data differs; compare the servers and start the wrong one with an empty data \
                 directory"
            ),
            PeerWarning::DigestMatchesAgain { zxid, differed } => {
                write!(
                    f,
                    "after {zxid} the digest of the state is the leader's again; {differed} digests differed"
                )
            }
            PeerWarning::DataQuarantined { zxid, differed } => write!(
                f,
                "{differed} of {differed} digests up to {zxid} differed: the data that this server started with \
                 is not the ensemble's; it is moved aside, and the leader sends a snapshot"
            ),
            PeerWarning::HandsOver { reason: HandOverReason::FullDisk, .. } => write!(
                f,
                "the disk of this leader has less room than disk.stop, and a follower has room: another server \
                 is elected; make room on the disk of this server"
            ),
            PeerWarning::HandsOver { reason: HandOverReason::SlowDisk, append_p99_ms } => write!(
                f,
                "a write of the transaction log took {append_p99_ms} ms, far longer than on the followers: \
                 another server is elected; check the disk of this server"
            ),
            PeerWarning::HandsOver { reason: HandOverReason::Asked, .. } => {
                write!(f, "an operator asked this leader to hand over: another server is elected")
            }
        }
    }
}
