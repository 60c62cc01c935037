//! One fault of a history: what happens to a server or a link, and how it ends.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::differential::Random;
use crate::netlab::clocks;
use crate::netlab::fleet::Fleet;
use crate::netlab::lab::Lab;
use crate::netlab::preloaded::Preloaded;

/// The kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// SIGKILL of the leader.
    LeaderKilled,
    /// SIGTERM of the leader: it hands over.
    LeaderAsked,
    /// The leader stands still for longer than the others wait.
    LeaderPaused,
    /// The same, and its clock stands still too.
    LeaderFrozen,
    /// Clients reach the leader, the other servers do not.
    LeaderIsolated,
    /// The leader hears nothing of the others.
    LeaderDeaf,
    /// The others hear nothing of the leader.
    LeaderMute,
    /// Clients reach a follower, the other servers do not.
    FollowerIsolated,
    /// A follower stands still.
    FollowerPaused,
    /// SIGKILL of a follower.
    FollowerKilled,
}

/// Faults that can make an old leader answer count twice.
const KINDS: [(usize, Fault); 10] = [
    (2, Fault::LeaderKilled),
    (2, Fault::LeaderAsked),
    (4, Fault::LeaderPaused),
    (4, Fault::LeaderFrozen),
    (4, Fault::LeaderIsolated),
    (2, Fault::LeaderDeaf),
    (2, Fault::LeaderMute),
    (2, Fault::FollowerIsolated),
    (1, Fault::FollowerPaused),
    (1, Fault::FollowerKilled),
];

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Fault::LeaderKilled => "leader killed",
            Fault::LeaderAsked => "leader asked to stop",
            Fault::LeaderPaused => "leader paused",
            Fault::LeaderFrozen => "leader paused with its clock",
            Fault::LeaderIsolated => "leader isolated",
            Fault::LeaderDeaf => "leader hears nothing",
            Fault::LeaderMute => "leader is not heard",
            Fault::FollowerIsolated => "follower isolated",
            Fault::FollowerPaused => "follower paused",
            Fault::FollowerKilled => "follower killed",
        })
    }
}

/// Draws one.
pub(super) fn draw(random: &mut Random) -> Fault {
    random.weighted(&KINDS)
}

/// The surroundings of the servers.
pub(super) struct Scene<'a> {
    pub(super) lab: &'a Lab,
    pub(super) fleet: &'a mut Fleet,
    pub(super) clock: &'a Preloaded,
}

impl Scene<'_> {
    /// Brings the fault about, waits, and ends it. A server that was ended runs again afterwards.
    pub(super) fn suffer(&mut self, fault: Fault, lasts: Duration) -> Result<()> {
        let leader = self.fleet.leader()?;
        let others: Vec<u8> = self.fleet.numbers().filter(|number| *number != leader).collect();
        let follower = others[0];
        match fault {
            Fault::LeaderKilled => self.kill(leader, lasts),
            Fault::FollowerKilled => self.kill(follower, lasts),
            Fault::LeaderAsked => {
                self.fleet.signal(leader, "TERM")?;
                let status = self.fleet.await_end(leader)?;
                ensure!(status.success(), "the leader that was asked to stop ended with {status}");
                std::thread::sleep(lasts / 2);
                self.fleet.start(leader)
            }
            Fault::LeaderPaused => self.pause(leader, lasts, false),
            Fault::LeaderFrozen => self.pause(leader, lasts, true),
            Fault::FollowerPaused => self.pause(follower, lasts, false),
            Fault::LeaderIsolated => self.cut(lasts, |lab| lab.isolate(leader)),
            Fault::FollowerIsolated => self.cut(lasts, |lab| lab.isolate(follower)),
            Fault::LeaderDeaf => {
                self.cut(lasts, |lab| others.iter().try_for_each(|other| lab.silence(*other, leader)))
            }
            Fault::LeaderMute => {
                self.cut(lasts, |lab| others.iter().try_for_each(|other| lab.silence(leader, *other)))
            }
        }
    }

    fn kill(&mut self, number: u8, lasts: Duration) -> Result<()> {
        self.fleet.kill(number)?;
        std::thread::sleep(lasts / 2);
        self.fleet.start(number)
    }

    fn pause(&self, number: u8, lasts: Duration, with_clock: bool) -> Result<()> {
        clocks::stop(self.fleet, number)?;
        let stopped = Instant::now();
        std::thread::sleep(lasts);
        if with_clock {
            clocks::stand_still(self.clock, number, stopped.elapsed())?;
        }
        self.fleet.signal(number, "CONT")
    }

    fn cut(&self, lasts: Duration, cut: impl FnOnce(&Lab) -> Result<()>) -> Result<()> {
        cut(self.lab)?;
        std::thread::sleep(lasts);
        self.lab.heal()
    }
}
