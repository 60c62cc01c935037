//! Votes, decisions and the proposal header, with their encoding in nodes. Pure.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The protocol of a two-phase commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommitProtocol {
    /// Every participant watches every vote and derives the decision. The coordinator is not needed after the
    /// proposal. Watch events grow with the square of the number of participants.
    #[serde(rename = "everybody-watches")]
    AllWatchVotes,
    /// Only the coordinator watches the votes; it announces the decision, which participants watch.
    CoordinatorAnnounces,
    /// The same with ephemeral vote nodes: the failure of a participant is noticed at once, and aborts.
    EphemeralVotes,
}

/// The vote of a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitVote {
    /// The participant can commit, and will commit if the decision is to commit, whatever happens to it.
    Commit,
    /// The participant cannot commit.
    Abort,
}

/// The decision for all participants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitDecision {
    /// All have voted to commit.
    Commit,
    /// At least one has not voted to commit.
    Abort,
}

impl CommitVote {
    pub(super) fn text(self) -> Bytes {
        Bytes::from_static(match self {
            CommitVote::Commit => b"commit",
            CommitVote::Abort => b"abort",
        })
    }

    /// `None` for a participant that has not voted, or for invalid data.
    pub(super) fn read(data: &[u8]) -> Option<CommitVote> {
        match data {
            b"commit" => Some(CommitVote::Commit),
            b"abort" => Some(CommitVote::Abort),
            _ => None,
        }
    }
}

impl CommitDecision {
    pub(super) fn text(self) -> Bytes {
        match self {
            CommitDecision::Commit => CommitVote::Commit.text(),
            CommitDecision::Abort => CommitVote::Abort.text(),
        }
    }

    pub(super) fn read(data: &[u8]) -> Option<CommitDecision> {
        CommitVote::read(data).map(CommitDecision::from)
    }

    /// The decision by these votes; `None` if some are missing and none is an abort.
    pub(super) fn of(votes: &[Option<CommitVote>]) -> Option<CommitDecision> {
        if votes.contains(&Some(CommitVote::Abort)) {
            return Some(CommitDecision::Abort);
        }
        votes.iter().all(Option::is_some).then_some(CommitDecision::Commit)
    }
}

impl From<CommitVote> for CommitDecision {
    fn from(vote: CommitVote) -> CommitDecision {
        match vote {
            CommitVote::Commit => CommitDecision::Commit,
            CommitVote::Abort => CommitDecision::Abort,
        }
    }
}

/// The first line of the proposal's node, in JSON; the body follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProposalHeader {
    /// Distinguishes proposals at the same path.
    pub(super) id: String,
    #[serde(rename = "form")]
    pub(super) protocol: CommitProtocol,
    #[serde(rename = "sites")]
    pub(super) participants: Vec<String>,
}

impl ProposalHeader {
    pub(super) fn write(&self, body: &[u8]) -> Option<Bytes> {
        let mut data = serde_json::to_vec(self).ok()?;
        data.push(b'\n');
        data.extend_from_slice(body);
        Some(data.into())
    }

    pub(super) fn read(data: &Bytes) -> Option<(ProposalHeader, Bytes)> {
        let end = data.iter().position(|byte| *byte == b'\n')?;
        let header = serde_json::from_slice(&data[..end]).ok()?;
        Some((header, data.slice(end + 1..)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_vote_against_it_is_enough_and_all_are_needed_for_it() {
        let (yes, no) = (Some(CommitVote::Commit), Some(CommitVote::Abort));
        assert_eq!(CommitDecision::of(&[yes, None]), None);
        assert_eq!(CommitDecision::of(&[None, no]), Some(CommitDecision::Abort));
        assert_eq!(CommitDecision::of(&[yes, yes]), Some(CommitDecision::Commit));
        assert_eq!(CommitDecision::of(&[yes, no]), Some(CommitDecision::Abort));
        assert_eq!(CommitVote::read(b""), None);
        assert_eq!(CommitDecision::read(&CommitDecision::Abort.text()), Some(CommitDecision::Abort));
    }

    #[test]
    fn a_header_is_read_as_it_was_written_and_nothing_else_is() {
        let header = ProposalHeader {
            id: "1".into(),
            protocol: CommitProtocol::AllWatchVotes,
            participants: vec!["a".into(), "b".into()],
        };
        let data = header.write(b"pay\n7").expect("written");
        assert!(data.starts_with(br#"{"id":"1","form":"everybody-watches","sites":["a","b"]}"#));
        assert_eq!(ProposalHeader::read(&data), Some((header, Bytes::from_static(b"pay\n7"))));
        for bad in [&b""[..], b"{}", b"{}\n", b"\n"] {
            assert_eq!(ProposalHeader::read(&Bytes::from_static(bad)), None);
        }
    }
}
