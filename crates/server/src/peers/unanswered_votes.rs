//! Detects a peer that answers no votes while this server is looking. Its connection may be dead
//! although TCP has not noticed. Time is passed in as an argument.

use std::time::{Duration, Instant};

/// How long votes of one round may stay unanswered before the connection is replaced. A healthy
/// peer that is looking too may be silent longer; a new connection is cheap then.
const UNANSWERED_MAX: Duration = Duration::from_secs(5);

/// The round whose votes are unanswered, and since when.
#[derive(Debug, Default)]
pub(super) struct UnansweredVotes {
    since: Option<(i64, Instant)>,
}

impl UnansweredVotes {
    /// Records that the peer has sent a message.
    pub(super) fn mark_answered(&mut self) {
        self.since = None;
    }

    /// Records a vote of this round and returns whether to replace the connection first.
    pub(super) fn is_unresponsive(&mut self, round: i64, now: Instant) -> bool {
        match self.since {
            Some((of, since)) if of == round => now.duration_since(since) >= UNANSWERED_MAX,
            Some(_) | None => {
                self.since = Some((round, now));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_without_an_answer_is_given_up_after_a_while() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let mut unanswered = UnansweredVotes::default();
        assert!(!unanswered.is_unresponsive(1, at(0)));
        assert!(!unanswered.is_unresponsive(1, at(4)));
        assert!(unanswered.is_unresponsive(1, at(5)));
        // The votes of another round start a new wait.
        assert!(!unanswered.is_unresponsive(2, at(1000)));
        assert!(!unanswered.is_unresponsive(2, at(1004)));
        unanswered.mark_answered();
        assert!(!unanswered.is_unresponsive(2, at(1006)));
        assert!(unanswered.is_unresponsive(2, at(1011)));
    }
}
