//! The client's clock: tokio's, and the time that the machine was suspended, which tokio's clock leaves out. A server
//! counts it when it expires sessions, so a lease must count it too.

use std::time::{Duration, Instant};

/// Differences below this are not taken for a suspension: the two clocks are not read at the same moment.
const GRAIN: Duration = Duration::from_millis(10);

/// How often the clocks are read to get a pair from one moment.
const READS_MAX: usize = 3;

/// Time in suspension since the client was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspension {
    /// Of the machine, when the client was made.
    at_start: Duration,
    /// Since then, when it was looked at last.
    since: Duration,
}

impl Suspension {
    pub(crate) fn start() -> Suspension {
        Suspension { at_start: machine_suspended(), since: Duration::ZERO }
    }

    /// Reads the clocks. Returns whether the machine was suspended since the last look.
    pub(crate) fn look(&mut self) -> bool {
        self.take(machine_suspended())
    }

    /// All time in suspension since the client was made, as of now.
    pub(crate) fn now(mut self) -> Duration {
        self.look();
        self.since
    }

    /// All time in suspension at the last look.
    pub(crate) fn seen(&self) -> Duration {
        self.since
    }

    fn take(&mut self, machine: Duration) -> bool {
        let since = machine.saturating_sub(self.at_start);
        let has_grown = since >= self.since + GRAIN;
        if has_grown {
            self.since = since;
        }
        has_grown
    }
}

/// The moment by tokio's clock, which tests may stop.
pub(crate) fn awake_now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// How long the machine was suspended since it was started.
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
        assert!(!suspension.take(Duration::from_secs(100)));
        assert!(!suspension.take(Duration::from_millis(100_009)), "read a moment apart");
        assert!(suspension.take(Duration::from_millis(107_000)));
        assert!(!suspension.take(Duration::from_millis(107_003)));
        assert_eq!(suspension.seen(), Duration::from_secs(7));
        let awake = Suspension::start();
        assert_eq!(awake.now(), Duration::ZERO, "a machine that runs is not suspended");
    }
}
