//! Whom a learner turns to: its leader, or, for an observer whose ensemble has them, followers that serve observers.
//! One after the other, and the leader when nobody else can be reached.

use zebu_proto::ServerId;

use crate::action::Door;
use crate::member::Member;
use crate::observing::ObserverMasters;

/// How often followers are tried before the leader is: after an election they begin to serve a moment after him.
const ROUNDS: usize = 3;

/// Those who may be asked, in order, and who is asked now.
#[derive(Debug)]
pub(crate) struct Targets {
    all: Vec<(ServerId, Door)>,
    now: usize,
}

impl Targets {
    pub(crate) fn leader(leader: ServerId) -> Targets {
        Targets { all: vec![(leader, Door::Quorum)], now: 0 }
    }

    /// For an observer. `turn` grows with every attempt, so that it begins with another one each time.
    pub(crate) fn of_observer(leader: ServerId, turn: u64, member: &Member) -> Targets {
        let settings = &member.settings;
        let mut targets = Targets::leader(leader);
        if settings.observing.masters == ObserverMasters::Followers {
            let followers = settings.quorum.voters().filter(|voter| ![leader, settings.me].contains(voter));
            let mut followers: Vec<ServerId> = followers.collect();
            // Observers are to spread: each has an order of its own.
            followers
                .sort_by_key(|voter| mixed(settings.observing.seed, settings.me.0 as u64, voter.0 as u64));
            let first = turn.checked_rem(followers.len() as u64).unwrap_or(0);
            followers.rotate_left(first as usize);
            let masters = followers.iter().map(|voter| (*voter, Door::ObserverMaster)).collect::<Vec<_>>();
            targets.all = masters.repeat(ROUNDS);
            targets.all.push((leader, Door::Quorum));
        }
        targets
    }

    pub(crate) fn current(&self) -> (ServerId, Door) {
        self.all[self.now]
    }

    /// How many attempts it takes to try everybody.
    pub(crate) fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// The present one cannot be reached.
    pub(crate) fn advance(&mut self) {
        self.now = (self.now + 1) % self.all.len();
    }
}

/// A number that looks random, and is the same for the same three.
pub(crate) fn mixed(seed: u64, one: u64, other: u64) -> u64 {
    let mut z = seed ^ one.rotate_left(32) ^ other.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
