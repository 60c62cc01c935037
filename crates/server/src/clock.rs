//! The clocks. This is the one place that reads them for the brain.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use zebu_node::Moment;

/// Reads both clocks; the monotonic one counts from the start of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Moment {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Moment { monotonic_ms: self.monotonic_ms(), wall_ms: millis(wall) }
    }

    pub(crate) fn monotonic_ms(&self) -> i64 {
        millis(self.start.elapsed())
    }

    /// How long until a monotonic time of the brain; nothing if it has passed.
    pub(crate) fn until(&self, monotonic_ms: i64) -> Duration {
        let left_ms = monotonic_ms.saturating_sub(self.monotonic_ms());
        Duration::from_millis(u64::try_from(left_ms).unwrap_or(0))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
