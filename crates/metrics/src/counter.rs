//! A counter with two readings: since the start for Prometheus, and since the last reset for `mntr`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter that only grows. `srst` changes what `mntr` shows; a Prometheus counter must not go back.
#[derive(Debug, Default)]
pub struct Counter {
    total: AtomicU64,
    at_reset: AtomicU64,
}

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.total.fetch_add(count, Relaxed);
    }

    /// The count since the start.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// The count since the last reset.
    pub fn since_reset(&self) -> u64 {
        self.total().saturating_sub(self.at_reset.load(Relaxed))
    }

    /// Begins a new count for `mntr`.
    pub fn reset(&self) {
        self.at_reset.store(self.total(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_keeps_the_total() {
        let counter = Counter::default();
        counter.add(5);
        counter.reset();
        counter.increment();
        assert_eq!((counter.total(), counter.since_reset()), (6, 1));
    }
}
