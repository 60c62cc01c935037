//! Lets one call pass per interval. The caller passes the time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The limiter of one command.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    interval: Duration,
    last: Mutex<Option<Instant>>,
}

impl RateLimiter {
    /// Allows one call per interval.
    pub(crate) fn new(interval: Duration) -> RateLimiter {
        RateLimiter { interval, last: Mutex::new(None) }
    }

    /// Takes the call of the interval, or returns how long it is away.
    pub(crate) fn try_pass(&self, now: Instant) -> Result<(), Duration> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let next = last.map(|last| last + self.interval);
        match next.filter(|next| *next > now) {
            Some(next) => Err(next - now),
            None => {
                *last = Some(now);
                Ok(())
            }
        }
    }

    /// Gives the call back, because it had no effect.
    pub(crate) fn give_back(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_passes_per_interval() {
        let limiter = RateLimiter::new(Duration::from_secs(10));
        let begin = Instant::now();
        assert_eq!(limiter.try_pass(begin), Ok(()));
        assert_eq!(limiter.try_pass(begin + Duration::from_secs(4)), Err(Duration::from_secs(6)));
        assert_eq!(limiter.try_pass(begin + Duration::from_secs(10)), Ok(()));
        limiter.give_back();
        assert_eq!(limiter.try_pass(begin + Duration::from_secs(11)), Ok(()));
    }
}
