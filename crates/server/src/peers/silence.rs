//! Notices a peer that answers nothing while this server looks for a leader: the connection may be dead although the
//! system does not know it. Time comes in as an argument.

use std::time::{Duration, Instant};

/// How long votes of one round may stay unanswered before the connection is made anew. A peer that is well and looks
/// itself may be silent for longer; a new connection costs little then.
const UNANSWERED_MAX: Duration = Duration::from_secs(5);

/// Since when a peer has not answered the votes of a round.
#[derive(Debug, Default)]
pub(super) struct Silence {
    unanswered: Option<(i64, Instant)>,
}

impl Silence {
    /// The peer has said something.
    pub(super) fn heard(&mut self) {
        self.unanswered = None;
    }

    /// A vote of this round is to be sent. Whether the connection is to be made anew for it.
    pub(super) fn is_dead(&mut self, round: i64, now: Instant) -> bool {
        match self.unanswered {
            Some((of, since)) if of == round => now.duration_since(since) >= UNANSWERED_MAX,
            Some(_) | None => {
                self.unanswered = Some((round, now));
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
        let mut silence = Silence::default();
        assert!(!silence.is_dead(1, at(0)));
        assert!(!silence.is_dead(1, at(4)));
        assert!(silence.is_dead(1, at(5)));
        // The votes of another round begin anew, however long ago the last round was.
        assert!(!silence.is_dead(2, at(1000)));
        assert!(!silence.is_dead(2, at(1004)));
        silence.heard();
        assert!(!silence.is_dead(2, at(1006)));
        assert!(silence.is_dead(2, at(1011)));
    }
}
