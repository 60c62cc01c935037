//! When the log warns about the end of a certificate: 30 days before, every day of the last week, and every
//! day after the end.

use std::time::{Duration, Instant};

const DAY: i64 = 86_400;
/// Time between two warnings of the same stage.
const REPEAT_INTERVAL: Duration = Duration::from_secs(86_400);

/// How near the end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpiryStage {
    /// Less than 30 days.
    Month,
    /// Less than 7 days.
    Week,
    /// The end is over.
    Ended,
}

impl ExpiryStage {
    fn of(seconds_left: i64) -> Option<ExpiryStage> {
        match seconds_left {
            left if left <= 0 => Some(ExpiryStage::Ended),
            left if left <= 7 * DAY => Some(ExpiryStage::Week),
            left if left <= 30 * DAY => Some(ExpiryStage::Month),
            _ => None,
        }
    }
}

/// The last warning.
#[derive(Debug, Default)]
pub(super) struct ExpiryWarnings {
    last: Option<(ExpiryStage, Instant)>,
}

impl ExpiryWarnings {
    /// Whether to warn now.
    pub(super) fn is_due(&mut self, seconds_left: i64, now: Instant) -> bool {
        let Some(stage) = ExpiryStage::of(seconds_left) else {
            self.last = None;
            return false;
        };
        let is_due = match self.last {
            Some((last, _)) if last != stage => true,
            Some((ExpiryStage::Month, _)) => false,
            Some((ExpiryStage::Week | ExpiryStage::Ended, time)) => {
                now.duration_since(time) >= REPEAT_INTERVAL
            }
            None => true,
        };
        if is_due {
            self.last = Some((stage, now));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_in_the_month_and_daily_in_the_week() {
        let start = Instant::now();
        let mut warnings = ExpiryWarnings::default();
        let mut due = |days_left: i64, days_since: u32| {
            warnings.is_due(days_left * DAY, start + REPEAT_INTERVAL * days_since)
        };
        assert!(!due(31, 0));
        assert!(due(30, 1));
        assert!(!due(29, 2) && !due(8, 23));
        assert!(due(7, 24) && !due(7, 24) && due(6, 25));
        assert!(due(0, 31) && !due(0, 31) && due(-1, 32));
        // A new certificate starts again.
        assert!(!due(365, 33) && due(20, 378));
    }
}
