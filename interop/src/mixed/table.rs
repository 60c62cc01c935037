//! The result: how often each kind of synchronisation was seen, by release, role and kind.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use super::seen::{Kind, Seen};

/// What Zebu was in a synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Follower,
    Observer,
    Leader,
}

impl Part {
    const ALL: [Part; 3] = [Part::Follower, Part::Observer, Part::Leader];

    pub(super) fn word(self) -> &'static str {
        match self {
            Part::Follower => "follower",
            Part::Observer => "observer",
            Part::Leader => "leader",
        }
    }
}

/// All counts.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<String>,
    seen: BTreeMap<(String, Part), Seen>,
}

impl Table {
    pub(super) fn add(&mut self, release: &str, part: Part, seen: &Seen) {
        if !self.rows.iter().any(|row| row == release) {
            self.rows.push(release.to_owned());
        }
        self.seen.entry((release.to_owned(), part)).or_default().add(seen);
    }

    pub(super) fn count(&self, release: &str, part: Part, kind: Kind) -> usize {
        self.seen.get(&(release.to_owned(), part)).map_or(0, |seen| seen.of(kind))
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let width = self.rows.iter().map(String::len).max().unwrap_or(0);
        let mut text = format!("{:width$}  Zebu as   DIFF  TRUNC   SNAP\n", "seen");
        for release in &self.rows {
            for part in Part::ALL {
                let [diff, trunc, snap] = Kind::ALL.map(|kind| self.count(release, part, kind));
                // Writing to a String does not fail.
                let _ = writeln!(text, "{release:width$}  {:8} {diff:5} {trunc:6} {snap:6}", part.word());
            }
        }
        text
    }

    /// For programs.
    pub(super) fn save(&self, path: &Path) -> Result<()> {
        let mut rows = Vec::new();
        for release in &self.rows {
            for part in Part::ALL {
                let [diff, trunc, snap] = Kind::ALL.map(|kind| self.count(release, part, kind));
                rows.push(json!({
                    "release": release, "zebu": part.word(), "diff": diff, "trunc": trunc, "snap": snap,
                }));
            }
        }
        std::fs::write(path, format!("{:#}\n", json!({ "seen": rows })))
            .with_context(|| format!("write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_seen_is_a_zero() {
        let mut table = Table::default();
        table.add("3.9.5", Part::Leader, &Seen::default());
        assert_eq!(table.count("3.9.5", Part::Leader, Kind::Snap), 0);
        assert!(table.text().contains("3.9.5  leader"), "{}", table.text());
    }
}
