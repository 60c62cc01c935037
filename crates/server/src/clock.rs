//! The clocks. This is the one place that reads them for the core.
//!
//! The monotonic time goes on while the machine is suspended, where the system has such a clock: after it, timeouts of
//! sessions and of other servers are over, as they are for all other machines. A virtual machine that is stopped may
//! take all its clocks along; nothing that must be right rests on them alone.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use zebu_node::Moment;

/// Reads both clocks; the monotonic one counts from the start of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Start,
}

/// When the server started, by the best clock that there is.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// Since the machine was started, the time in suspension included.
    Boot(Duration),
    /// Without the time in suspension.
    Running(Instant),
}

impl Clock {
    pub(crate) fn start() -> Clock {
        let start = since_boot().map_or_else(|| Start::Running(Instant::now()), Start::Boot);
        Clock { start }
    }

    pub(crate) fn now(&self) -> Moment {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Moment { monotonic_ms: self.monotonic_ms(), wall_ms: millis(wall) }
    }

    pub(crate) fn monotonic_ms(&self) -> i64 {
        millis(match self.start {
            // A clock that could be read once can be read again.
            Start::Boot(start) => since_boot().unwrap_or(start).saturating_sub(start),
            Start::Running(start) => start.elapsed(),
        })
    }

    /// How long until a monotonic time of the core; nothing if it has passed.
    pub(crate) fn until(&self, monotonic_ms: i64) -> Duration {
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
        for start in [Clock::start().start, Start::Running(Instant::now())] {
            let clock = Clock { start };
            let (before, wanted_ms) = (clock.monotonic_ms(), clock.monotonic_ms() + 20);
            assert!((0..10_000).contains(&before), "{before}");
            while clock.monotonic_ms() < wanted_ms {
                std::thread::sleep(clock.until(wanted_ms));
            }
            assert_eq!(clock.until(wanted_ms), Duration::ZERO);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn time_in_suspension_counts() {
        assert!(matches!(Clock::start().start, Start::Boot(_)), "the clock that goes on is used");
        let earlier = since_boot().unwrap().saturating_sub(Duration::from_millis(1500));
        let clock = Clock { start: Start::Boot(earlier) };
        assert!(clock.monotonic_ms() >= 1500);
    }
}
