//! Candidates, their order, and when two ballots are alike.

use zebu_proto::quorum::election::NotificationVersion;
use zebu_proto::quorum::{Notification, PeerState};
use zebu_proto::{ServerId, Zxid};

/// Somebody to vote for, with what makes him worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Who.
    pub leader: ServerId,
    /// His last transaction.
    pub zxid: Zxid,
    /// His current epoch.
    pub epoch: i64,
}

impl Candidate {
    /// What a server that may not be elected puts in: everybody beats it.
    pub const NOBODY: Candidate =
        Candidate { leader: ServerId(i64::MIN), zxid: Zxid(i64::MIN), epoch: i64::MIN };
}

/// What a server said last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ballot {
    pub(super) candidate: Candidate,
    pub(super) round: i64,
    pub(super) state: PeerState,
    pub(super) version: NotificationVersion,
}

impl Ballot {
    pub(super) fn of(notification: &Notification) -> Ballot {
        Ballot {
            candidate: Candidate {
                leader: notification.leader,
                zxid: notification.zxid,
                epoch: notification.epoch,
            },
            round: notification.round,
            state: notification.state,
            version: notification.version,
        }
    }

    /// Whether two servers mean the same. Those who have a leader may remember the election differently, so
    /// only the leader and his epoch count; the oldest messages have no epoch to compare.
    pub(super) fn is_alike(&self, other: &Ballot) -> bool {
        if self.state == PeerState::Looking || other.state == PeerState::Looking {
            return self.candidate == other.candidate && self.round == other.round;
        }
        let old = |ballot: &Ballot| ballot.version == NotificationVersion::V0;
        self.candidate.leader == other.candidate.leader
            && (old(self) != old(other) || self.candidate.epoch == other.candidate.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(leader: i64, zxid: i64, epoch: i64) -> Candidate {
        Candidate { leader: ServerId(leader), zxid: Zxid(zxid), epoch }
    }

    #[test]
    fn likeness_depends_on_what_they_do() {
        let ballot = |state, zxid, round, epoch, version| Ballot {
            candidate: candidate(3, zxid, epoch),
            round,
            state,
            version,
        };
        use NotificationVersion::{V0, V2};
        use PeerState::{Following, Leading, Looking};
        assert!(ballot(Following, 1, 1, 5, V2).is_alike(&ballot(Leading, 9, 7, 5, V2)));
        assert!(!ballot(Following, 1, 1, 5, V2).is_alike(&ballot(Leading, 1, 1, 6, V2)));
        assert!(ballot(Following, 1, 1, 5, V2).is_alike(&ballot(Leading, 1, 1, 6, V0)));
        assert!(!ballot(Following, 1, 1, 5, V0).is_alike(&ballot(Leading, 1, 1, 6, V0)));
        assert!(!ballot(Looking, 1, 1, 5, V2).is_alike(&ballot(Leading, 9, 1, 5, V2)));
        assert!(!ballot(Looking, 1, 1, 5, V2).is_alike(&ballot(Looking, 1, 2, 5, V2)));
    }
}
