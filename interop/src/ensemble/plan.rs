//! Which faults come, drawn from a seed: every kind as often as every other one, in an order that the seed
//! decides.

use std::fmt;

use crate::differential::Random;

/// Something that happens to an ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    KillLeader,
    KillFollower,
    KillAll,
    RestartLeader,
    PauseLeader,
    PauseFollower,
    IsolateLeader,
    IsolateFollower,
    Halves,
    LeaderNotHeard,
    LeaderHearsNothing,
    Bridge,
    SlowNetwork,
    ResetAtByte,
    StalledReader,
    ClientsCut,
    ClientsStalled,
    ClientVanishes,
    FailingSync,
    FullDisk,
}

impl Fault {
    pub(super) const ALL: [Fault; 20] = [
        Fault::KillLeader,
        Fault::KillFollower,
        Fault::KillAll,
        Fault::RestartLeader,
        Fault::PauseLeader,
        Fault::PauseFollower,
        Fault::IsolateLeader,
        Fault::IsolateFollower,
        Fault::Halves,
        Fault::LeaderNotHeard,
        Fault::LeaderHearsNothing,
        Fault::Bridge,
        Fault::SlowNetwork,
        Fault::ResetAtByte,
        Fault::StalledReader,
        Fault::ClientsCut,
        Fault::ClientsStalled,
        Fault::ClientVanishes,
        Fault::FailingSync,
        Fault::FullDisk,
    ];

    fn words(self) -> &'static str {
        match self {
            Fault::KillLeader => "kill -9 of the leader",
            Fault::KillFollower => "kill -9 of a follower",
            Fault::KillAll => "kill -9 of all at once",
            Fault::RestartLeader => "leader stopped in order",
            Fault::PauseLeader => "SIGSTOP of the leader",
            Fault::PauseFollower => "SIGSTOP of a follower",
            Fault::IsolateLeader => "leader cut off",
            Fault::IsolateFollower => "follower cut off",
            Fault::Halves => "two halves",
            Fault::LeaderNotHeard => "one-way: nobody hears the leader",
            Fault::LeaderHearsNothing => "one-way: the leader hears nobody",
            Fault::Bridge => "bridge: one sees both halves",
            Fault::SlowNetwork => "slow network",
            Fault::ResetAtByte => "connections reset at a byte",
            Fault::StalledReader => "stalled reader",
            Fault::ClientsCut => "clients cut off a member",
            Fault::ClientsStalled => "clients stalled at a member",
            Fault::ClientVanishes => "client vanishes",
            Fault::FailingSync => "failing fsync",
            Fault::FullDisk => "full disk",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.words())
    }
}

/// Draws faults: all kinds once in some order, then again.
pub(super) struct Plan {
    kinds: Vec<Fault>,
    left: Vec<Fault>,
}

impl Plan {
    pub(super) fn new(kinds: Vec<Fault>) -> Plan {
        Plan { kinds, left: Vec::new() }
    }

    pub(super) fn next(&mut self, random: &mut Random) -> Fault {
        if self.left.is_empty() {
            self.left.clone_from(&self.kinds);
        }
        self.left.swap_remove(random.below(self.left.len()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_comes_before_one_comes_twice() {
        let mut plan = Plan::new(Fault::ALL.to_vec());
        let mut random = Random::new(3);
        for _ in 0..3 {
            let drawn: BTreeSet<Fault> = Fault::ALL.iter().map(|_| plan.next(&mut random)).collect();
            assert_eq!(drawn.len(), Fault::ALL.len());
        }
    }
}
