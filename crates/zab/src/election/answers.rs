//! Answers to servers without a vote here. Such a server may have a vote on its own list, and then corrects a vote
//! that it finds worse: each would answer the other without end. So the same answer is not given again at once.

use std::collections::BTreeMap;

use zebu_proto::ServerId;
use zebu_proto::quorum::PeerState;

use super::candidate::Candidate;

/// Servers whose last answer is known. Beyond that the oldest answer is forgotten.
const KNOWN_MAX: usize = 64;

/// What a server was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) state: PeerState,
    pub(super) vote: Candidate,
    pub(super) round: i64,
}

/// The last answer to each server without a vote, and when it was given.
#[derive(Debug, Default)]
pub(super) struct Answers {
    given: BTreeMap<ServerId, (Answer, i64)>,
}

impl Answers {
    /// Whether an answer is to be given: it is another one, or the last one was given at least `pause_ms` ago. If so, it
    /// is noted.
    pub(super) fn is_due(&mut self, to: ServerId, answer: Answer, now_ms: i64, pause_ms: i64) -> bool {
        let last = self.given.get(&to);
        if last.is_some_and(|&(last, at_ms)| last == answer && now_ms < at_ms + pause_ms) {
            return false;
        }
        if last.is_none() && self.given.len() >= KNOWN_MAX {
            let oldest = self.given.iter().min_by_key(|(_, (_, at_ms))| *at_ms).map(|(server, _)| *server);
            oldest.and_then(|server| self.given.remove(&server));
        }
        self.given.insert(to, (answer, now_ms));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Answer = Answer { state: PeerState::Looking, vote: Candidate::NOBODY, round: 1 };

    #[test]
    fn the_same_answer_waits_and_another_one_does_not() {
        let mut answers = Answers::default();
        assert!(answers.is_due(ServerId(4), ANSWER, 0, 100));
        assert!(!answers.is_due(ServerId(4), ANSWER, 99, 100));
        assert!(answers.is_due(ServerId(5), ANSWER, 99, 100));
        assert!(answers.is_due(ServerId(4), Answer { round: 2, ..ANSWER }, 99, 100));
        assert!(answers.is_due(ServerId(4), Answer { round: 2, ..ANSWER }, 199, 100));
    }

    #[test]
    fn not_more_servers_are_known_than_the_limit() {
        let mut answers = Answers::default();
        for server in 0..1000 {
            assert!(answers.is_due(ServerId(server), ANSWER, server, 100));
        }
        assert_eq!(answers.given.len(), KNOWN_MAX);
        assert!(answers.given.contains_key(&ServerId(999)));
    }
}
