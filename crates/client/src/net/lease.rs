//! The lease deadline, shared by the driver, which writes it, and by all handles, which read it without
//! locking.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::clock::Suspension;

/// The deadline in microseconds after `base`, plus one; zero without a session.
#[derive(Debug)]
pub(crate) struct LeaseDeadline {
    base: Instant,
    micros: AtomicU64,
    suspension: Suspension,
}

impl LeaseDeadline {
    pub(crate) fn new(base: Instant, suspension: Suspension) -> LeaseDeadline {
        LeaseDeadline { base, micros: AtomicU64::new(0), suspension }
    }

    /// Sets the deadline by the driver's clock, which includes the time in suspension.
    pub(crate) fn set(&self, deadline: Option<Instant>) {
        let after = deadline.map(|deadline| deadline.saturating_duration_since(self.base).as_micros());
        let micros = after.map_or(0, |after| u64::try_from(after).unwrap_or(u64::MAX - 1) + 1);
        self.micros.store(micros, Ordering::Release);
    }

    /// The deadline by the clock of [`Instant`], which excludes it: each suspension brings it nearer.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.micros.load(Ordering::Acquire) {
            0 => None,
            micros => Some(self.awake(Duration::from_micros(micros - 1), self.suspension.now())),
        }
    }

    fn awake(&self, after: Duration, suspended: Duration) -> Instant {
        self.base + after.saturating_sub(suspended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_suspension_is_taken_off() {
        let base = Instant::now();
        let lease = LeaseDeadline::new(base, Suspension::start());
        assert_eq!(lease.deadline(), None);
        lease.set(Some(base + Duration::from_secs(10)));
        assert_eq!(lease.deadline(), Some(base + Duration::from_secs(10)));
        let after = Duration::from_secs(10);
        assert_eq!(lease.awake(after, Duration::from_secs(4)), base + Duration::from_secs(6));
        assert_eq!(lease.awake(after, Duration::from_secs(60)), base, "it is over");
    }
}
