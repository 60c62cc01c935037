//! The client's clock: tokio's clock plus the time in suspension, which tokio's clock omits. A server counts
//! that time when it expires sessions, so a lease must count it too.

use std::time::{Duration, Instant};

/// Smaller differences are no suspension, because the two clocks are not read at the same instant.
const GRAIN: Duration = Duration::from_millis(10);

/// The limit of reads to get both clocks from about the same instant.
const READS_MAX: usize = 3;

/// The time in suspension since the client was built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspension {
    /// The total of the machine when the client was built.
    at_start: Duration,
    /// The time since then, at the last update.
    since: Duration,
}

impl Suspension {
    pub(crate) fn start() -> Suspension {
        Suspension { at_start: machine_suspended(), since: Duration::ZERO }
    }

    /// Reads the clocks. Returns whether the machine was suspended since the last update.
    pub(crate) fn update(&mut self) -> bool {
        self.record(machine_suspended())
    }

    /// The time in suspension since the client was built, read now.
    pub(crate) fn now(mut self) -> Duration {
        self.update();
        self.since
    }

    /// The time in suspension at the last update.
    pub(crate) fn total(&self) -> Duration {
        self.since
    }

    fn record(&mut self, machine: Duration) -> bool {
        let since = machine.saturating_sub(self.at_start);
        let has_grown = since >= self.since + GRAIN;
        if has_grown {
            self.since = since;
        }
        has_grown
    }
}

/// The current time of tokio's clock, which tests may pause.
pub(crate) fn awake_now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time in suspension since the machine was booted.
#[cfg(target_os = "linux")]
fn machine_suspended() -> Duration {
    use nix::time::{ClockId, clock_gettime};

    let read = |clock| clock_gettime(clock).ok().map(Duration::from);
    let mut least = None;
    for _ in 0..READS_MAX {
        let (Some(before), Some(boot), Some(after)) =
            (read(ClockId::CLOCK_MONOTONIC), read(ClockId::CLOCK_BOOTTIME), read(ClockId::CLOCK_MONOTONIC))
        else {
            break;
        };
        let suspended = boot.saturating_sub(before);
        least = Some(least.map_or(suspended, |least: Duration| least.min(suspended)));
        if after.saturating_sub(before) < GRAIN / 2 {
            break;
        }
    }
    least.unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn machine_suspended() -> Duration {
    let _ = READS_MAX;
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_suspension_counts() {
        let mut suspension = Suspension { at_start: Duration::from_secs(100), since: Duration::ZERO };
        assert!(!suspension.record(Duration::from_secs(100)));
        assert!(!suspension.record(Duration::from_millis(100_009)), "read a moment apart");
        assert!(suspension.record(Duration::from_millis(107_000)));
        assert!(!suspension.record(Duration::from_millis(107_003)));
        assert_eq!(suspension.total(), Duration::from_secs(7));
        let awake = Suspension::start();
        assert_eq!(awake.now(), Duration::ZERO, "a machine that runs is not suspended");
    }
}
