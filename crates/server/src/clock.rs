//! The clocks. Only this module reads them for the core.
//!
//! Where the system has such a clock, the monotonic time includes suspension. After it, timeouts of
//! sessions and peers are over, as on all other machines.
//! A stopped virtual machine may stop all its clocks; no safety property depends on them alone.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use zebu_node::Now;

/// Reads both clocks. The monotonic time starts at 0 with the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: ClockStart,
}

/// The start time of the server, by the best available clock.
#[derive(Clone, Copy, Debug)]
enum ClockStart {
    /// Time since boot, including suspension.
    SinceBoot(Duration),
    /// Monotonic time without suspension.
    Monotonic(Instant),
}

impl Clock {
    pub(crate) fn start() -> Clock {
        let start = since_boot().map_or_else(|| ClockStart::Monotonic(Instant::now()), ClockStart::SinceBoot);
        Clock { start }
    }

    pub(crate) fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Now { monotonic_ms: self.monotonic_ms(), wall_ms: millis(wall) }
    }

    pub(crate) fn monotonic_ms(&self) -> i64 {
        millis(match self.start {
            // A clock that was read once can be read again.
            ClockStart::SinceBoot(start) => since_boot().unwrap_or(start).saturating_sub(start),
            ClockStart::Monotonic(start) => start.elapsed(),
        })
    }

    /// The time until a monotonic time of the core; zero if it has passed.
    pub(crate) fn duration_until(&self, monotonic_ms: i64) -> Duration {
        let left_ms = monotonic_ms.saturating_sub(self.monotonic_ms());
        Duration::from_millis(u64::try_from(left_ms).unwrap_or(0))
    }
}

#[cfg(target_os = "linux")]
fn since_boot() -> Option<Duration> {
    use nix::time::{ClockId, clock_gettime};

    clock_gettime(ClockId::CLOCK_BOOTTIME).ok().map(Duration::from)
}

#[cfg(not(target_os = "linux"))]
fn since_boot() -> Option<Duration> {
    None
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_counts_from_the_start() {
        for start in [Clock::start().start, ClockStart::Monotonic(Instant::now())] {
            let clock = Clock { start };
            let (before, wanted_ms) = (clock.monotonic_ms(), clock.monotonic_ms() + 20);
            assert!((0..10_000).contains(&before), "{before}");
            while clock.monotonic_ms() < wanted_ms {
                std::thread::sleep(clock.duration_until(wanted_ms));
            }
            assert_eq!(clock.duration_until(wanted_ms), Duration::ZERO);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn time_in_suspension_counts() {
        assert!(matches!(Clock::start().start, ClockStart::SinceBoot(_)), "the clock that goes on is used");
        let earlier = since_boot().unwrap().saturating_sub(Duration::from_millis(1500));
        let clock = Clock { start: ClockStart::SinceBoot(earlier) };
        assert!(clock.monotonic_ms() >= 1500);
    }
}
