//! The clocks of a machine. A suspended machine does nothing, and its CLOCK_MONOTONIC stands still with it;
//! its CLOCK_BOOTTIME and its wall clock go on. A virtual machine that is frozen takes CLOCK_BOOTTIME along.
//! A wall clock may also be wrong.

use zebu_node::Now;

use crate::queue::{MS, VirtualTime};

/// A clock of the operating system that never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockSource {
    /// Counts the time during which the machine was suspended.
    BootTime,
    /// Does not count that time.
    #[allow(dead_code, reason = "a known bug puts it back")]
    Monotonic,
}

/// The clock that a server reads, as in `crates/server/src/clock.rs`.
pub(crate) const SERVER_CLOCK: ClockSource = ClockSource::BootTime;

/// The clock that a client reads, as in `crates/client/src/net`.
pub(crate) const CLIENT_CLOCK: ClockSource = ClockSource::BootTime;

/// The wall clock at the start of every run.
const WALL_START_MS: i64 = 1_790_000_000_000;

/// The start of the steady clock: the machine has been up for a while.
const STEADY_START_MS: i64 = 100_000;

/// How the clocks of a machine differ from the time of the run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clocks {
    pub(crate) wall_offset_ms: i64,
    /// The time for which CLOCK_MONOTONIC stands still: suspended or frozen.
    suspended: Standstill,
    /// The time for which CLOCK_BOOTTIME stands still too.
    frozen: Standstill,
}

/// How long a clock stood still.
#[derive(Clone, Copy, Debug, Default)]
struct Standstill {
    /// The present standstill up to its end included.
    total: VirtualTime,
    /// When the last one ends.
    ends_at: VirtualTime,
}

impl Standstill {
    fn begin(&mut self, now: VirtualTime, until: VirtualTime) {
        let from = now.max(self.ends_at);
        self.total += until.saturating_sub(from);
        self.ends_at = self.ends_at.max(until);
    }

    fn end(&mut self, now: VirtualTime) {
        self.total -= self.ends_at.saturating_sub(now);
        self.ends_at = self.ends_at.min(now);
    }

    /// What a clock that stands still with it has counted since the run began.
    fn counted(&self, now: VirtualTime) -> VirtualTime {
        now + self.ends_at.saturating_sub(now) - self.total
    }
}

impl Clocks {
    /// The machine is suspended until a moment.
    pub(crate) fn suspend(&mut self, now: VirtualTime, until: VirtualTime) {
        self.suspended.begin(now, until);
    }

    /// The machine is frozen until a moment, with every clock that never goes back.
    pub(crate) fn freeze(&mut self, now: VirtualTime, until: VirtualTime) {
        self.suspended.begin(now, until);
        self.frozen.begin(now, until);
    }

    /// The machine goes on before its time.
    pub(crate) fn resume(&mut self, now: VirtualTime) {
        self.suspended.end(now);
        self.frozen.end(now);
    }

    /// When a suspended machine resumes; `None` if it is not suspended.
    pub(crate) fn suspended_until(&self, now: VirtualTime) -> Option<VirtualTime> {
        (self.suspended.ends_at > now).then_some(self.suspended.ends_at)
    }

    /// The time that a steady clock has counted since the run began.
    pub(crate) fn steady(&self, source: ClockSource, now: VirtualTime) -> VirtualTime {
        match source {
            ClockSource::BootTime => self.frozen.counted(now),
            ClockSource::Monotonic => self.suspended.counted(now),
        }
    }

    /// When a steady clock shows this, unless the machine is suspended again before.
    pub(crate) fn time_of(&self, source: ClockSource, steady: VirtualTime) -> VirtualTime {
        match source {
            ClockSource::BootTime => steady + self.frozen.total,
            ClockSource::Monotonic => steady + self.suspended.total,
        }
    }

    /// The clocks of a server at a moment.
    pub(crate) fn moment(&self, now: VirtualTime) -> Now {
        let steady_ms = (self.steady(SERVER_CLOCK, now) / MS) as i64;
        let wall_ms = WALL_START_MS + (now / MS) as i64 + self.wall_offset_ms;
        Now { monotonic_ms: STEADY_START_MS + steady_ms, wall_ms }
    }

    /// When the steady clock of a server shows this.
    pub(crate) fn deadline(&self, monotonic_ms: i64) -> VirtualTime {
        let steady_ms = monotonic_ms.saturating_sub(STEADY_START_MS).max(0) as VirtualTime;
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

    #[test]
    fn a_frozen_machine_takes_both_clocks_along() {
        let mut clocks = Clocks::default();
        clocks.suspend(10, 20);
        clocks.freeze(30, 50);
        let steady = |source, now| clocks.steady(source, now);
        assert_eq!((steady(ClockSource::BootTime, 40), steady(ClockSource::BootTime, 55)), (30, 35));
        assert_eq!((steady(ClockSource::Monotonic, 40), steady(ClockSource::Monotonic, 55)), (20, 25));
        assert_eq!(clocks.time_of(ClockSource::BootTime, 35), 55);
    }
}
