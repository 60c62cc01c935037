//! The servers that a learner can connect to: its leader, or for an observer the followers that are observer
//! masters. Followers are tried in turn, and the leader if none is reachable.

use zebu_proto::ServerId;

use crate::action::LearnerPort;
use crate::observer_settings::ObserverMasters;
use crate::zab_state::ZabState;

/// The number of attempts to connect to a leader.
const LEADER_TRIES: u32 = 10;

/// The possible masters, and the current one.
#[derive(Debug)]
pub(crate) struct LearnerMasters {
    leader_id: ServerId,
    /// The followers that may be masters of this observer, in the order of attempts.
    followers: Vec<ServerId>,
    selected: MasterChoice,
}

#[derive(Clone, Copy, Debug)]
enum MasterChoice {
    Leader,
    Follower { index: usize },
}

/// Whether followers are tried again before the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MasterSearch {
    FollowersFirst,
    LeaderOnly,
}

impl LearnerMasters {
    pub(crate) fn leader_only(leader: ServerId) -> LearnerMasters {
        LearnerMasters { leader_id: leader, followers: Vec::new(), selected: MasterChoice::Leader }
    }

    /// The masters of an observer. `turn` grows with every attempt, so that each attempt starts with another
    /// follower.
    pub(crate) fn for_observer(leader: ServerId, turn: u64, state: &ZabState) -> LearnerMasters {
        let settings = &state.settings;
        let mut masters = LearnerMasters::leader_only(leader);
        if settings.observer.masters == ObserverMasters::Followers {
            let followers = settings.quorum.voters().filter(|voter| ![leader, settings.me].contains(voter));
            masters.followers = followers.collect();
            // Each observer has its own order, which spreads the load.
            let order_key =
                |voter: &ServerId| hash3(settings.observer.seed, settings.me.0 as u64, voter.0 as u64);
            masters.followers.sort_by_key(order_key);
            if let Some(first) = turn.checked_rem(masters.followers.len() as u64) {
                masters.followers.rotate_left(first as usize);
                masters.selected = MasterChoice::Follower { index: 0 };
            }
        }
        masters
    }

    pub(crate) fn current(&self) -> (ServerId, LearnerPort) {
        match self.selected {
            MasterChoice::Leader => (self.leader_id, LearnerPort::Quorum),
            MasterChoice::Follower { index } => (self.followers[index], LearnerPort::ObserverMaster),
        }
    }

    /// Whether the current master is the leader itself.
    pub(super) fn is_leader_selected(&self) -> bool {
        matches!(self.selected, MasterChoice::Leader)
    }

    /// The number of attempts. With several masters only the time is limited.
    pub(super) fn attempts_max(&self) -> u32 {
        if self.followers.is_empty() { LEADER_TRIES } else { u32::MAX }
    }

    /// The current master is unreachable. After an election followers serve slightly later than the leader,
    /// so they are tried again while time is left.
    pub(super) fn advance(&mut self, search: MasterSearch) {
        self.selected = match (self.selected, search) {
            (MasterChoice::Leader, _) | (_, MasterSearch::LeaderOnly) => MasterChoice::Leader,
            (MasterChoice::Follower { index }, MasterSearch::FollowersFirst) => {
                MasterChoice::Follower { index: (index + 1) % self.followers.len() }
            }
        };
    }
}

/// A pseudo-random number, equal for equal arguments.
pub(crate) fn hash3(seed: u64, one: u64, other: u64) -> u64 {
    let mut z = seed ^ one.rotate_left(32) ^ other.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
