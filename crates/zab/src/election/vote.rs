//! Votes, and the comparison of received votes.

use zebu_proto::quorum::election::NotificationVersion;
use zebu_proto::quorum::{Notification, ServerState};
use zebu_proto::{ServerId, Zxid};

/// A vote for a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectionVote {
    /// The candidate.
    pub leader: ServerId,
    /// The last transaction of the candidate.
    pub zxid: Zxid,
    /// The current epoch of the candidate.
    pub epoch: i64,
}

impl ElectionVote {
    /// The vote of a server that may not be elected. Every other vote is better.
    pub const NONE: ElectionVote =
        ElectionVote { leader: ServerId(i64::MIN), zxid: Zxid(i64::MIN), epoch: i64::MIN };
}

/// The last vote of another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceivedVote {
    pub(super) vote: ElectionVote,
    pub(super) round: i64,
    pub(super) state: ServerState,
    pub(super) version: NotificationVersion,
}

impl ReceivedVote {
    pub(super) fn from_notification(notification: &Notification) -> ReceivedVote {
        ReceivedVote {
            vote: ElectionVote {
                leader: notification.leader,
                zxid: notification.zxid,
                epoch: notification.epoch,
            },
            round: notification.round,
            state: notification.state,
            version: notification.version,
        }
    }

    /// Whether two votes support the same leader. Servers with a leader may remember the election
    /// differently, so only leader and epoch are compared. Notifications of version 0 have no epoch.
    pub(super) fn agrees_with(&self, other: &ReceivedVote) -> bool {
        if self.state == ServerState::Looking || other.state == ServerState::Looking {
            return self.vote == other.vote && self.round == other.round;
        }
        let old = |received_vote: &ReceivedVote| received_vote.version == NotificationVersion::V0;
        self.vote.leader == other.vote.leader
            && (old(self) != old(other) || self.vote.epoch == other.vote.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(leader: i64, zxid: i64, epoch: i64) -> ElectionVote {
        ElectionVote { leader: ServerId(leader), zxid: Zxid(zxid), epoch }
    }

    #[test]
    fn likeness_depends_on_what_they_do() {
        let received_vote = |state, zxid, round, epoch, version| ReceivedVote {
            vote: candidate(3, zxid, epoch),
            round,
            state,
            version,
        };
        use NotificationVersion::{V0, V2};
        use ServerState::{Following, Leading, Looking};
        assert!(received_vote(Following, 1, 1, 5, V2).agrees_with(&received_vote(Leading, 9, 7, 5, V2)));
        assert!(!received_vote(Following, 1, 1, 5, V2).agrees_with(&received_vote(Leading, 1, 1, 6, V2)));
        assert!(received_vote(Following, 1, 1, 5, V2).agrees_with(&received_vote(Leading, 1, 1, 6, V0)));
        assert!(!received_vote(Following, 1, 1, 5, V0).agrees_with(&received_vote(Leading, 1, 1, 6, V0)));
        assert!(!received_vote(Looking, 1, 1, 5, V2).agrees_with(&received_vote(Leading, 9, 1, 5, V2)));
        assert!(!received_vote(Looking, 1, 1, 5, V2).agrees_with(&received_vote(Looking, 1, 2, 5, V2)));
    }
}
