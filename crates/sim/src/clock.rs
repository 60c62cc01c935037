//! The clocks of a machine. A suspended machine does nothing, and its CLOCK_MONOTONIC stands still with it;
//! its CLOCK_BOOTTIME and its wall clock go on. A wall clock may also be wrong.

use zebu_node::Moment;

use crate::queue::{MS, Time};

/// A clock of the operating system that never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockSource {
    /// Counts the time during which the machine was suspended.
    BootTime,
    /// Does not count it.
    #[allow(dead_code, reason = "a known bug puts it back")]
    Monotonic,
}

/// The clock that a server reads, as in `crates/server/src/clock.rs`.
pub(crate) const SERVER_CLOCK: ClockSource = ClockSource::BootTime;

/// The clock that a client reads, as in `crates/client/src/net`.
pub(crate) const CLIENT_CLOCK: ClockSource = ClockSource::BootTime;

/// The wall clock at the start of every run.
const WALL_START_MS: i64 = 1_790_000_000_000;

/// The steady clock of a machine that runs for a while already.
const STEADY_START_MS: i64 = 100_000;

/// How the clocks of a machine differ from the time of the run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clocks {
    pub(crate) wall_offset_ms: i64,
    /// How long the machine was suspended, the present suspension up to its end included.
    suspended: Time,
    /// When the last suspension ends.
    resumes_at: Time,
}

impl Clocks {
    /// The machine is suspended until a moment.
    pub(crate) fn suspend(&mut self, now: Time, until: Time) {
        let from = now.max(self.resumes_at);
        self.suspended += until.saturating_sub(from);
        self.resumes_at = self.resumes_at.max(until);
    }

    /// A suspension ends before its time.
    pub(crate) fn resume(&mut self, now: Time) {
        self.suspended -= self.resumes_at.saturating_sub(now);
        self.resumes_at = self.resumes_at.min(now);
    }

    /// When a suspended machine goes on; `None` if it is not suspended.
    pub(crate) fn suspended_until(&self, now: Time) -> Option<Time> {
        (self.resumes_at > now).then_some(self.resumes_at)
    }

    /// What a steady clock has counted since the run began.
    pub(crate) fn steady(&self, source: ClockSource, now: Time) -> Time {
        match source {
            ClockSource::BootTime => now,
            ClockSource::Monotonic => now + self.resumes_at.saturating_sub(now) - self.suspended,
        }
    }

    /// When a steady clock shows this, unless the machine is suspended again before.
    pub(crate) fn time_of(&self, source: ClockSource, steady: Time) -> Time {
        match source {
            ClockSource::BootTime => steady,
            ClockSource::Monotonic => steady + self.suspended,
        }
    }

    /// What the clocks of a server show.
    pub(crate) fn moment(&self, now: Time) -> Moment {
        let steady_ms = (self.steady(SERVER_CLOCK, now) / MS) as i64;
        let wall_ms = WALL_START_MS + (now / MS) as i64 + self.wall_offset_ms;
        Moment { monotonic_ms: STEADY_START_MS + steady_ms, wall_ms }
    }

    /// When the steady clock of a server shows this.
    pub(crate) fn deadline(&self, monotonic_ms: i64) -> Time {
        let steady_ms = monotonic_ms.saturating_sub(STEADY_START_MS).max(0) as Time;
        self.time_of(SERVER_CLOCK, steady_ms * MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monotonic_clock_stands_still_with_its_machine() {
        let mut clocks = Clocks::default();
        clocks.suspend(10, 30);
        clocks.suspend(20, 40);
        let steady = |clocks: &Clocks, now| clocks.steady(ClockSource::Monotonic, now);
        assert_eq!((steady(&clocks, 10), steady(&clocks, 35), steady(&clocks, 45)), (10, 10, 15));
        assert_eq!(clocks.steady(ClockSource::BootTime, 35), 35);
        assert_eq!(clocks.time_of(ClockSource::Monotonic, 15), 45);
        assert_eq!((clocks.suspended_until(39), clocks.suspended_until(40)), (Some(40), None));
        clocks.resume(25);
        assert_eq!((steady(&clocks, 25), steady(&clocks, 30)), (10, 15));
    }
}
