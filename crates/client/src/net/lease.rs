//! The local lease: until when no server can have expired the session. Written by the driver, read by
//! anybody without waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Microseconds after `base`, plus one; zero for "no session".
#[derive(Debug)]
pub(crate) struct Lease {
    base: Instant,
    micros: AtomicU64,
}

impl Lease {
    pub(crate) fn new(base: Instant) -> Lease {
        Lease { base, micros: AtomicU64::new(0) }
    }

    pub(crate) fn set(&self, deadline: Option<Instant>) {
        let after = deadline.map(|deadline| deadline.saturating_duration_since(self.base).as_micros());
        let micros = after.map_or(0, |after| u64::try_from(after).unwrap_or(u64::MAX - 1) + 1);
        self.micros.store(micros, Ordering::Release);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.micros.load(Ordering::Acquire) {
            0 => None,
            micros => Some(self.base + Duration::from_micros(micros - 1)),
        }
    }
}
