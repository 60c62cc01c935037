//! Replies to servers without a vote. Such a server may have a vote in its own config, and then corrects a
//! worse vote: both would reply without end. An unchanged reply is therefore not repeated at once.

use std::collections::BTreeMap;

use zebu_proto::ServerId;
use zebu_proto::quorum::ServerState;

use super::vote::ElectionVote;

/// The number of servers whose last reply is kept. Above it the oldest reply is dropped.
const RECIPIENTS_MAX: usize = 64;

/// A vote that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentVote {
    pub(super) state: ServerState,
    pub(super) vote: ElectionVote,
    pub(super) round: i64,
}

/// The last reply to each server without a vote, with its time in milliseconds.
#[derive(Debug, Default)]
pub(super) struct SentVotes {
    sent: BTreeMap<ServerId, (SentVote, i64)>,
}

impl SentVotes {
    /// Whether a reply is due: it differs from the last one, or the last one is at least `pause_ms` old. If
    /// so, it is recorded.
    pub(super) fn record_if_due(&mut self, to: ServerId, vote: SentVote, now_ms: i64, pause_ms: i64) -> bool {
        let last = self.sent.get(&to);
        if last.is_some_and(|&(last, at_ms)| last == vote && now_ms < at_ms + pause_ms) {
            return false;
        }
        if last.is_none() && self.sent.len() >= RECIPIENTS_MAX {
            let oldest = self.sent.iter().min_by_key(|(_, (_, at_ms))| *at_ms).map(|(server, _)| *server);
            oldest.and_then(|server| self.sent.remove(&server));
        }
        self.sent.insert(to, (vote, now_ms));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: SentVote = SentVote { state: ServerState::Looking, vote: ElectionVote::NONE, round: 1 };

    #[test]
    fn the_same_answer_waits_and_another_one_does_not() {
        let mut answers = SentVotes::default();
        assert!(answers.record_if_due(ServerId(4), ANSWER, 0, 100));
        assert!(!answers.record_if_due(ServerId(4), ANSWER, 99, 100));
        assert!(answers.record_if_due(ServerId(5), ANSWER, 99, 100));
        assert!(answers.record_if_due(ServerId(4), SentVote { round: 2, ..ANSWER }, 99, 100));
        assert!(answers.record_if_due(ServerId(4), SentVote { round: 2, ..ANSWER }, 199, 100));
    }

    #[test]
    fn not_more_servers_are_known_than_the_limit() {
        let mut answers = SentVotes::default();
        for server in 0..1000 {
            assert!(answers.record_if_due(ServerId(server), ANSWER, server, 100));
        }
        assert_eq!(answers.sent.len(), RECIPIENTS_MAX);
        assert!(answers.sent.contains_key(&ServerId(999)));
    }
}
