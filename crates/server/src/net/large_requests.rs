//! The budget for large requests: bounds the sum of their bytes (`largeRequestMaxBytes`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::LimitConfig;

/// The budget. It is off unless a threshold is configured.
#[derive(Debug)]
pub(crate) struct LargeRequestBudget {
    threshold: Option<usize>,
    bytes_max: u64,
    reserved_bytes: Arc<AtomicU64>,
}

/// Reserved bytes of the budget, released when dropped.
#[derive(Debug)]
pub(crate) struct LargeRequestPermit {
    size: u64,
    reserved_bytes: Arc<AtomicU64>,
}

impl Drop for LargeRequestPermit {
    fn drop(&mut self) {
        self.reserved_bytes.fetch_sub(self.size, Ordering::AcqRel);
    }
}

impl LargeRequestPermit {
    /// Merges two permits of the same budget.
    pub(crate) fn and(mut self, mut other: LargeRequestPermit) -> LargeRequestPermit {
        self.size += std::mem::take(&mut other.size);
        self
    }
}

/// The budget is exhausted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OverBudget;

impl LargeRequestBudget {
    pub(crate) fn new(limits: &LimitConfig) -> LargeRequestBudget {
        LargeRequestBudget {
            threshold: limits.large_request_threshold.map(|threshold| threshold as usize),
            bytes_max: u64::from(limits.large_request_max_bytes),
            reserved_bytes: Arc::default(),
        }
    }

    /// Reserves bytes for a frame of this length; `None` for a frame that is not large.
    pub(crate) fn try_reserve(&self, length: usize) -> Result<Option<LargeRequestPermit>, OverBudget> {
        if self.threshold.is_none_or(|threshold| length <= threshold) {
            return Ok(None);
        }
        let size = length as u64;
        let share = LargeRequestPermit { size, reserved_bytes: self.reserved_bytes.clone() };
        // The bytes are reserved first; the drop of the permit releases them if they exceed the
        // budget.
        if self.reserved_bytes.fetch_add(size, Ordering::AcqRel) + size > self.bytes_max {
            return Err(OverBudget);
        }
        Ok(Some(share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_come_back() {
        let limits = LimitConfig {
            large_request_threshold: Some(10),
            large_request_max_bytes: 100,
            ..LimitConfig::default()
        };
        let budget = LargeRequestBudget::new(&limits);
        assert!(budget.try_reserve(10).unwrap().is_none(), "not large");
        let first = budget.try_reserve(60).unwrap();
        assert_eq!(budget.try_reserve(60).unwrap_err(), OverBudget);
        drop(first);
        assert!(budget.try_reserve(100).unwrap().is_some());
        let both = budget.try_reserve(60).unwrap().unwrap().and(budget.try_reserve(40).unwrap().unwrap());
        assert_eq!(budget.try_reserve(11).unwrap_err(), OverBudget);
        drop(both);
        assert!(budget.try_reserve(100).unwrap().is_some());
        assert!(
            LargeRequestBudget::new(&LimitConfig::default()).try_reserve(1 << 20).unwrap().is_none(),
            "off"
        );
    }
}
