//! The words of two-phase commit and how they are written into nodes. Pure.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Who watches whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommitForm {
    /// Every site watches every vote and knows the decision by itself. The coordinator is not needed after it has
    /// proposed. Messages grow with the square of the number of sites.
    EverybodyWatches,
    /// Only the coordinator watches the votes; it announces the decision, and sites watch for that.
    CoordinatorAnnounces,
    /// As before, but every site makes its own ephemeral node: its failure is seen at once, and aborts.
    EphemeralVotes,
}

/// What a site says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// It can carry the transaction out, and will if it hears so, whatever happens to it.
    Commit,
    /// It cannot.
    Abort,
}

/// What all sites do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// All have voted for it.
    Commit,
    /// Somebody has not.
    Abort,
}

impl Vote {
    pub(super) fn text(self) -> Bytes {
        Bytes::from_static(match self {
            Vote::Commit => b"commit",
            Vote::Abort => b"abort",
        })
    }

    /// `None` for a site that has not voted yet, or data that is no vote.
    pub(super) fn read(data: &[u8]) -> Option<Vote> {
        match data {
            b"commit" => Some(Vote::Commit),
            b"abort" => Some(Vote::Abort),
            _ => None,
        }
    }
}

impl Decision {
    pub(super) fn text(self) -> Bytes {
        match self {
            Decision::Commit => Vote::Commit.text(),
            Decision::Abort => Vote::Abort.text(),
        }
    }

    pub(super) fn read(data: &[u8]) -> Option<Decision> {
        Vote::read(data).map(Decision::from)
    }

    /// What these votes mean; `None` if some are missing and nobody has voted against it.
    pub(super) fn of(votes: &[Option<Vote>]) -> Option<Decision> {
        if votes.contains(&Some(Vote::Abort)) {
            return Some(Decision::Abort);
        }
        votes.iter().all(Option::is_some).then_some(Decision::Commit)
    }
}

impl From<Vote> for Decision {
    fn from(vote: Vote) -> Decision {
        match vote {
            Vote::Commit => Decision::Commit,
            Vote::Abort => Decision::Abort,
        }
    }
}

/// The first line of the transaction's node, in JSON; what is to be done follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    /// Tells a proposal from another one at the same path.
    pub(super) id: String,
    pub(super) form: CommitForm,
    pub(super) sites: Vec<String>,
}

impl Header {
    pub(super) fn write(&self, body: &[u8]) -> Option<Bytes> {
        let mut data = serde_json::to_vec(self).ok()?;
        data.push(b'\n');
        data.extend_from_slice(body);
        Some(data.into())
    }

    pub(super) fn read(data: &Bytes) -> Option<(Header, Bytes)> {
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
        let (yes, no) = (Some(Vote::Commit), Some(Vote::Abort));
        assert_eq!(Decision::of(&[yes, None]), None);
        assert_eq!(Decision::of(&[None, no]), Some(Decision::Abort));
        assert_eq!(Decision::of(&[yes, yes]), Some(Decision::Commit));
        assert_eq!(Decision::of(&[yes, no]), Some(Decision::Abort));
        assert_eq!(Vote::read(b""), None);
        assert_eq!(Decision::read(&Decision::Abort.text()), Some(Decision::Abort));
    }

    #[test]
    fn a_header_is_read_as_it_was_written_and_nothing_else_is() {
        let header = Header {
            id: "1".into(),
            form: CommitForm::EverybodyWatches,
            sites: vec!["a".into(), "b".into()],
        };
        let data = header.write(b"pay\n7").expect("written");
        assert!(data.starts_with(br#"{"id":"1","form":"everybody-watches","sites":["a","b"]}"#));
        assert_eq!(Header::read(&data), Some((header, Bytes::from_static(b"pay\n7"))));
        for bad in [&b""[..], b"{}", b"{}\n", b"\n"] {
            assert_eq!(Header::read(&Bytes::from_static(bad)), None);
        }
    }
}
