//! Whom a learner turns to: its leader, or, for an observer whose ensemble has them, followers that serve observers.
//! One after the other, and the leader when nobody else can be reached.

use zebu_proto::ServerId;

use crate::action::Door;
use crate::member::Member;
use crate::observing::ObserverMasters;

/// How often a leader that cannot be reached is tried.
const LEADER_TRIES: u32 = 10;

/// Those who may be asked, and who is asked now.
#[derive(Debug)]
pub(crate) struct Targets {
    leader: ServerId,
    /// Followers that may serve this observer, in its order.
    followers: Vec<ServerId>,
    now: Target,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    Leader,
    Follower { index: usize },
}

/// Whether there is time to ask others once more before the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    Early,
    Late,
}

impl Targets {
    pub(crate) fn leader(leader: ServerId) -> Targets {
        Targets { leader, followers: Vec::new(), now: Target::Leader }
    }

    /// For an observer. `turn` grows with every attempt, so that it begins with another one each time.
    pub(crate) fn of_observer(leader: ServerId, turn: u64, member: &Member) -> Targets {
        let settings = &member.settings;
        let mut targets = Targets::leader(leader);
        if settings.observing.masters == ObserverMasters::Followers {
            let followers = settings.quorum.voters().filter(|voter| ![leader, settings.me].contains(voter));
            targets.followers = followers.collect();
            // Observers are to spread: each has an order of its own.
            let place =
                |voter: &ServerId| mixed(settings.observing.seed, settings.me.0 as u64, voter.0 as u64);
            targets.followers.sort_by_key(place);
            if let Some(first) = turn.checked_rem(targets.followers.len() as u64) {
                targets.followers.rotate_left(first as usize);
                targets.now = Target::Follower { index: 0 };
            }
        }
        targets
    }

    pub(crate) fn current(&self) -> (ServerId, Door) {
        match self.now {
            Target::Leader => (self.leader, Door::Quorum),
            Target::Follower { index } => (self.followers[index], Door::ObserverMaster),
        }
    }

    /// How many attempts are made. Where there are several to ask, only time ends them.
    pub(super) fn tries(&self) -> u32 {
        if self.followers.is_empty() { LEADER_TRIES } else { u32::MAX }
    }

    /// The present one cannot be reached. After an election followers begin to serve a moment after the leader, so
    /// they are asked again and again while there is time.
    pub(super) fn advance(&mut self, time: Time) {
        self.now = match (self.now, time) {
            (Target::Leader, _) | (_, Time::Late) => Target::Leader,
            (Target::Follower { index }, Time::Early) => {
                Target::Follower { index: (index + 1) % self.followers.len() }
            }
        };
    }
}

/// A number that looks random, and is the same for the same three.
pub(crate) fn mixed(seed: u64, one: u64, other: u64) -> u64 {
    let mut z = seed ^ one.rotate_left(32) ^ other.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
