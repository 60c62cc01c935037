//! How members were brought up to date, as their own logs tell it.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;

use super::fleet::{Fleet, Server};

/// The three ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Diff,
    Trunc,
    Snap,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Diff, Kind::Trunc, Kind::Snap];
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Kind::Diff => "DIFF",
            Kind::Trunc => "TRUNC",
            Kind::Snap => "SNAP",
        })
    }
}

/// How often each was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen(BTreeMap<Kind, usize>);

impl Seen {
    pub(super) fn of(&self, kind: Kind) -> usize {
        self.0.get(&kind).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, other: &Seen) {
        for (kind, count) in &other.0 {
            *self.0.entry(*kind).or_default() += count;
        }
    }

    fn count(text: &str, kind_of: impl Fn(&str) -> Option<Kind>) -> Seen {
        let mut seen = Seen::default();
        for kind in text.lines().filter_map(kind_of) {
            *seen.0.entry(kind).or_default() += 1;
        }
        seen
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        formatter.write_str(if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }.as_str())
    }
}

/// What a member says that its leader has sent it.
pub(super) fn received(fleet: &Fleet, index: usize, mark: u64) -> Result<Seen> {
    let text = fleet.log_since(index, mark)?;
    Ok(match fleet.server(index) {
        Server::Zebu(_) | Server::PreviousZebu(_) => Seen::count(&text, zebu_received),
        Server::Apache(_) => Seen::count(&text, apache_received),
    })
}

/// The synchronizations that a server has logged as sent while it led.
pub(super) fn sent(fleet: &Fleet, index: usize, mark: u64) -> Result<Seen> {
    let text = fleet.log_since(index, mark)?;
    Ok(match fleet.server(index) {
        Server::Zebu(_) | Server::PreviousZebu(_) => Seen::count(&text, zebu_sent),
        Server::Apache(_) => Seen::count(&text, apache_sent),
    })
}

fn zebu_received(line: &str) -> Option<Kind> {
    pick(
        line,
        [
            ("the leader sends the transactions that are lacking here", Kind::Diff),
            ("the leader has the log cut here", Kind::Trunc),
            ("the leader sends the whole state", Kind::Snap),
        ],
    )
}

fn zebu_sent(line: &str) -> Option<Kind> {
    pick(
        line,
        [
            ("a member gets the transactions that it lacks", Kind::Diff),
            ("a member is told to cut its log", Kind::Trunc),
            ("a member gets the whole state", Kind::Snap),
        ],
    )
}

fn apache_received(line: &str) -> Option<Kind> {
    pick(
        line,
        [
            ("Getting a diff from the leader", Kind::Diff),
            ("Truncating log to get in sync with the leader", Kind::Trunc),
            ("Getting a snapshot from leader", Kind::Snap),
        ],
    )
}

fn apache_sent(line: &str) -> Option<Kind> {
    pick(
        line,
        [
            ("Sending DIFF zxid", Kind::Diff),
            ("Sending TRUNC", Kind::Trunc),
            ("Sending snapshot last zxid of peer", Kind::Snap),
        ],
    )
}

fn pick(line: &str, words: [(&str, Kind); 3]) -> Option<Kind> {
    words.into_iter().find(|(word, _)| line.contains(word)).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_logs_are_understood() {
        let apache = "INFO Learner: Getting a diff from the leader 0x100000003\n\
                      WARN Learner: Truncating log to get in sync with the leader 0x100000014\nINFO other\n";
        let seen = Seen::count(apache, apache_received);
        assert_eq!(Kind::ALL.map(|kind| seen.of(kind)), [1, 1, 0]);
        let zebu = "INFO the leader sends the whole state kind=\"SNAP\" zxid=0x1\n";
        let mut seen = Seen::count(zebu, zebu_received);
        seen.add(&seen.clone());
        assert_eq!(seen.to_string(), "2 SNAP");
        assert_eq!(Seen::count(zebu, zebu_sent).to_string(), "nothing");
    }
}
