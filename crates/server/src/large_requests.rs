//! The budget for large requests: together they may not take more than a configured number of bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::LimitConfig;

/// The budget. Off unless a threshold is configured.
#[derive(Debug)]
pub(crate) struct LargeRequests {
    threshold: Option<usize>,
    bytes_max: u64,
    bytes: Arc<AtomicU64>,
}

/// A share of the budget, given back when dropped.
#[derive(Debug)]
pub(crate) struct LargeShare {
    size: u64,
    bytes: Arc<AtomicU64>,
}

impl Drop for LargeShare {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.size, Ordering::AcqRel);
    }
}

/// The budget is used up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OverBudget;

impl LargeRequests {
    pub(crate) fn new(limits: &LimitConfig) -> LargeRequests {
        LargeRequests {
            threshold: limits.large_request_threshold.map(|threshold| threshold as usize),
            bytes_max: u64::from(limits.large_request_max_bytes),
            bytes: Arc::default(),
        }
    }

    /// A share for a frame of this length; `None` for a frame that is not large.
    pub(crate) fn admit(&self, length: usize) -> Result<Option<LargeShare>, OverBudget> {
        if self.threshold.is_none_or(|threshold| length <= threshold) {
            return Ok(None);
        }
        let size = length as u64;
        let share = LargeShare { size, bytes: self.bytes.clone() };
        // The share is taken first and given back by its drop if it was too much.
        if self.bytes.fetch_add(size, Ordering::AcqRel) + size > self.bytes_max {
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
        let budget = LargeRequests::new(&limits);
        assert!(budget.admit(10).unwrap().is_none(), "not large");
        let first = budget.admit(60).unwrap();
        assert_eq!(budget.admit(60).unwrap_err(), OverBudget);
        drop(first);
        assert!(budget.admit(100).unwrap().is_some());
        assert!(LargeRequests::new(&LimitConfig::default()).admit(1 << 20).unwrap().is_none(), "off");
    }
}
