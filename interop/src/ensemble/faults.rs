//! What is done to the members, drawn from a seed.

use std::time::Duration;

use anyhow::Result;

use super::members::{Members, Signal};
use crate::differential::Random;

/// Something that happens to an ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// The leader is killed.
    KillLeader,
    /// A member that does not lead is killed.
    KillFollower,
    /// All are killed at once.
    KillAll,
    /// The leader is stopped in order, and started again.
    RestartLeader,
    /// The leader stands still for a while.
    PauseLeader,
    /// A member that does not lead stands still for a while.
    PauseFollower,
}

const FAULTS: [Fault; 6] = [
    Fault::KillLeader,
    Fault::KillFollower,
    Fault::KillAll,
    Fault::RestartLeader,
    Fault::PauseLeader,
    Fault::PauseFollower,
];

impl Fault {
    pub(super) fn draw(random: &mut Random) -> Fault {
        FAULTS[random.below(FAULTS.len())]
    }

    /// Makes it happen, and heals it.
    pub(super) fn happen(self, members: &mut Members, random: &mut Random) -> Result<()> {
        let leader = members.leader().unwrap_or(0);
        let follower = (leader + 1 + random.below(members.len() - 1)) % members.len();
        let short = Duration::from_millis(50 + random.below(1500) as u64);
        let all: Vec<usize> = (0..members.len()).collect();
        let (victims, signal): (&[usize], Signal) = match self {
            Fault::KillLeader => (&[leader], Signal::Kill),
            Fault::KillFollower => (&[follower], Signal::Kill),
            Fault::KillAll => (&all, Signal::Kill),
            Fault::RestartLeader => (&[leader], Signal::Terminate),
            Fault::PauseLeader => (&[leader], Signal::Stop),
            Fault::PauseFollower => (&[follower], Signal::Stop),
        };
        for &victim in victims {
            members.signal(victim, signal)?;
        }
        std::thread::sleep(short);
        for &victim in victims {
            if signal == Signal::Stop {
                // Long enough, sometimes, that the others go on without it.
                std::thread::sleep(Duration::from_millis(random.below(4000) as u64));
                members.signal(victim, Signal::Continue)?;
            } else {
                members.start(victim)?;
            }
        }
        Ok(())
    }
}
