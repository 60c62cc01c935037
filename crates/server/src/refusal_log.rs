//! Log lines about refused connections. A client or server that is refused tries again many times a second,
//! so that a line of one kind about one address is repeated once a minute only.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A warning is repeated after this time.
const REPEAT_AFTER: Duration = Duration::from_secs(60);

/// Most remembered warnings; beyond that the oldest is forgotten.
const REMEMBERED_MAX: usize = 64;

/// The warnings of the last minute.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog {
    logged: Mutex<VecDeque<(String, String, Instant)>>,
}

impl RefusalLog {
    /// Whether a warning about this peer is due.
    pub(crate) fn is_due(&self, peer: &str, reason: &str) -> bool {
        self.is_due_at(peer, reason, Instant::now())
    }

    fn is_due_at(&self, peer: &str, reason: &str, now: Instant) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        logged.retain(|(_, _, at)| now.saturating_duration_since(*at) < REPEAT_AFTER);
        if logged.iter().any(|(known, text, _)| known == peer && text == reason) {
            return false;
        }
        if logged.len() >= REMEMBERED_MAX {
            logged.pop_front();
        }
        logged.push_back((peer.to_owned(), reason.to_owned(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_repeated_after_a_minute() {
        let (log, start) = (RefusalLog::default(), Instant::now());
        assert!(log.is_due_at("10.0.0.1", "a", start));
        assert!(!log.is_due_at("10.0.0.1", "a", start + Duration::from_secs(59)));
        assert!(log.is_due_at("10.0.0.1", "b", start));
        assert!(log.is_due_at("10.0.0.2", "a", start));
        assert!(log.is_due_at("10.0.0.1", "a", start + REPEAT_AFTER));
    }

    #[test]
    fn few_are_remembered() {
        let (log, now) = (RefusalLog::default(), Instant::now());
        for number in 0..1000 {
            assert!(log.is_due_at(&number.to_string(), "a", now));
        }
        assert_eq!(log.logged.lock().unwrap().len(), REMEMBERED_MAX);
    }
}
