//! `zebu snapshot diff`: what differs between two snapshots. Siblings have no order in the files, so one of
//! them must be remembered: as two numbers per node, not as a tree. Then the other is read against them, and
//! the first once more for the names of what is gone and the old values of what has changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use foldhash::quality::RandomState;
use hashbrown::HashMap;
use serde_json::{Value, json};
use zebu_proto::{Acl, SessionId, StatPersisted};
use zebu_storage::format::snapshot::SnapshotVisitor;

use super::fingerprint::{AclNumbers, Fingerprints, NodeFacts};
use super::source::{read, unusable};
use super::subtree::{Counting, Row, Scope};
use super::{change, shown};
use crate::offline::{Failure, Format, Output, Screen, Verdict, word};

/// Compare two snapshots node by node
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu snapshot diff snapshot.100 snapshot.200
  zebu snapshot diff --nodes 1000 --bytes 1048576 old/snapshot.100 new/snapshot.200
  zebu snapshot diff --json member1/snapshot.100 member2/snapshot.100 | jq -r .path

+ is only in B, - only in A, ~ in both but different. ACLs are compared by content: their numbers differ \
between members. With --nodes or --bytes only large differences are shown: single nodes by their own data, \
and subtrees. In memory it holds two numbers for each node of A (some 20 to 40 bytes), the values of changed \
nodes, and with --nodes or --bytes the counts of all nodes that have children. A is read twice.
Exit status: 0 the same, 1 different (shown or not), 2 a file is damaged or cannot be read.")]
pub(super) struct Diff {
    /// The first snapshot
    a: PathBuf,

    /// The second snapshot
    b: PathBuf,

    /// Show subtrees whose number of nodes differs by at least this, instead of all differences
    #[arg(long, value_name = "COUNT")]
    nodes: Option<u64>,

    /// Show nodes and subtrees whose data differs by at least this many bytes, instead of all differences
    #[arg(long, value_name = "BYTES")]
    bytes: Option<u64>,

    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Which single nodes are shown.
#[derive(Clone, Copy)]
enum Shown {
    All,
    FromBytes(u64),
    None,
}

impl Shown {
    fn includes(self, before: Option<usize>, after: Option<usize>) -> bool {
        match self {
            Shown::All => true,
            Shown::FromBytes(bytes) => before.unwrap_or(0).abs_diff(after.unwrap_or(0)) as u64 >= bytes,
            Shown::None => false,
        }
    }
}

type Numbers<V> = HashMap<u64, V, RandomState>;

/// The fingerprints of the first snapshot, and the output of the differences.
struct Comparison {
    fingerprints: Fingerprints,
    /// Nodes of A that B was not seen to have: path to content.
    left: Numbers<u64>,
    /// Nodes that differ: path to what B has.
    changed: Numbers<NodeFacts>,
    sessions: BTreeMap<SessionId, i32>,
    shown: Shown,
    format: Format,
    output: Output,
    failure: Option<Failure>,
    added: u64,
    removed: u64,
    same: u64,
    session_changes: u64,
}

/// Which reading it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    RememberA,
    CompareB,
    NameA,
}

/// One reading of one file.
struct Reading<'c> {
    comparison: &'c mut Comparison,
    acls: AclNumbers,
    subtrees: Option<Counting>,
    pass: Pass,
}

impl Diff {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        let thresholds = self.nodes.is_some() || self.bytes.is_some();
        let shown = match (thresholds, self.bytes) {
            (false, _) => Shown::All,
            (true, Some(bytes)) => Shown::FromBytes(bytes),
            (true, None) => Shown::None,
        };
        let mut comparison = Comparison::new(shown, Format::of_switch(self.json));
        let counting = || thresholds.then(|| Counting::new(Scope { start: String::new(), depth: None }));
        let rows_a = comparison.read(&self.a, Pass::RememberA, counting())?;
        let rows_b = comparison.read(&self.b, Pass::CompareB, counting())?;
        comparison.closed_sessions();
        if !comparison.left.is_empty() || !comparison.changed.is_empty() {
            comparison.read(&self.a, Pass::NameA, None)?;
        }
        if thresholds {
            comparison.subtrees(rows_a, rows_b, self.nodes, self.bytes);
        }
        comparison.finish()
    }
}

impl Comparison {
    fn new(shown: Shown, format: Format) -> Comparison {
        Comparison {
            fingerprints: Fingerprints::new(),
            left: HashMap::with_hasher(RandomState::default()),
            changed: HashMap::with_hasher(RandomState::default()),
            sessions: BTreeMap::new(),
            shown,
            format,
            output: Output::new(),
            failure: None,
            added: 0,
            removed: 0,
            same: 0,
            session_changes: 0,
        }
    }

    fn read(&mut self, path: &Path, pass: Pass, subtrees: Option<Counting>) -> Result<Vec<Row>, Failure> {
        let acls = AclNumbers::new(&self.fingerprints);
        let mut reading = Reading { comparison: self, acls, subtrees, pass };
        let result = read(path, Screen::Busy, &mut reading)?;
        let rows = reading.subtrees.map(Counting::finish).unwrap_or_default();
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        match result {
            Ok(_) => Ok(rows),
            Err(flaw) => {
                self.output.flush()?;
                Err(unusable(path, &flaw))
            }
        }
    }

    fn put(&mut self, text: impl FnOnce() -> String, json: impl FnOnce() -> Value) {
        if self.failure.is_none() {
            let written = match self.format {
                Format::Text => self.output.line(text()),
                Format::Json => self.output.json(&json()),
            };
            self.failure = written.err();
        }
    }

    fn session(&mut self, pass: Pass, id: SessionId, timeout_ms: i32) {
        match pass {
            Pass::RememberA => {
                self.sessions.insert(id, timeout_ms);
            }
            Pass::CompareB => {
                let before = self.sessions.remove(&id);
                if before != Some(timeout_ms) {
                    self.session_change(id, before, Some(timeout_ms));
                }
            }
            Pass::NameA => {}
        }
    }

    /// Reports the sessions that only snapshot A has. Call it after B was read.
    fn closed_sessions(&mut self) {
        for (id, timeout_ms) in std::mem::take(&mut self.sessions) {
            self.session_change(id, Some(timeout_ms), None);
        }
    }

    fn session_change(&mut self, id: SessionId, before: Option<i32>, after: Option<i32>) {
        self.session_changes += 1;
        if matches!(self.shown, Shown::All) {
            let sign = change::sign(before.is_some(), after.is_some());
            self.put(
                || format!("{sign} session {id}"),
                || json!({ "kind": "session", "change": change::word(sign), "id": id.to_string() }),
            );
        }
    }

    fn node(&mut self, pass: Pass, path: &str, facts: NodeFacts) {
        let number = self.fingerprints.path(path);
        match pass {
            Pass::RememberA => {
                self.left.insert(number, self.fingerprints.node(&facts));
            }
            Pass::CompareB => match self.left.remove(&number) {
                None => {
                    self.added += 1;
                    self.show(path, None, Some(&facts));
                }
                Some(content) if content == self.fingerprints.node(&facts) => self.same += 1,
                Some(_) => {
                    self.changed.insert(number, facts);
                }
            },
            Pass::NameA => {
                if let Some(after) = self.changed.get(&number).cloned() {
                    self.show(path, Some(&facts), Some(&after));
                } else if self.left.contains_key(&number) {
                    self.removed += 1;
                    self.show(path, Some(&facts), None);
                }
            }
        }
    }

    fn show(&mut self, path: &str, before: Option<&NodeFacts>, after: Option<&NodeFacts>) {
        let length = |facts: Option<&NodeFacts>| facts.and_then(|facts| facts.length);
        if self.shown.includes(length(before), length(after)) {
            let path = shown(path);
            self.put(|| change::text(path, before, after), || change::json(path, before, after));
        }
    }

    fn subtrees(&mut self, a: Vec<Row>, b: Vec<Row>, nodes: Option<u64>, bytes: Option<u64>) {
        let mut rows: BTreeMap<String, (Row, Row)> = BTreeMap::new();
        for mut row in a {
            let path = std::mem::take(&mut row.path);
            rows.entry(path).or_default().0 = row;
        }
        for mut row in b {
            let path = std::mem::take(&mut row.path);
            rows.entry(path).or_default().1 = row;
        }
        for (path, (a, b)) in &rows {
            let many = nodes.is_some_and(|nodes| a.descendants.abs_diff(b.descendants) >= nodes);
            let large = bytes.is_some_and(|bytes| a.bytes.abs_diff(b.bytes) >= bytes);
            if many || large {
                let path = shown(path);
                self.put(
                    || {
                        format!(
                            "subtree {} descendants {} -> {}, data {} -> {} bytes",
                            word(path),
                            a.descendants,
                            b.descendants,
                            a.bytes,
                            b.bytes
                        )
                    },
                    || {
                        json!({
                            "kind": "subtree",
                            "path": path,
                            "descendants": [a.descendants, b.descendants],
                            "data_bytes": [a.bytes, b.bytes],
                        })
                    },
                );
            }
        }
    }

    fn finish(mut self) -> Result<Verdict, Failure> {
        let (added, removed, same) = (self.added, self.removed, self.same);
        let (changed, sessions) = (self.changed.len(), self.session_changes);
        self.put(
            || {
                format!(
                    "nodes: {added} added, {removed} removed, {changed} changed, {same} the same; \
                     sessions: {sessions} different"
                )
            },
            || {
                json!({
                    "kind": "end",
                    "added": added,
                    "removed": removed,
                    "changed": changed,
                    "same": same,
                    "sessions": sessions,
                })
            },
        );
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.output.flush()?;
        let different = added + removed + sessions > 0 || changed > 0;
        Ok(if different { Verdict::Bad } else { Verdict::Good })
    }
}

impl SnapshotVisitor for Reading<'_> {
    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.comparison.session(self.pass, id, timeout_ms);
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.acls.insert(&self.comparison.fingerprints, id, &acl);
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), String> {
        if let Some(subtrees) = &mut self.subtrees {
            subtrees.node(path, data).map_err(|why| why.to_string())?;
        }
        let facts = self.acls.facts(&self.comparison.fingerprints, data, acl, stat);
        self.comparison.node(self.pass, path, facts);
        match self.comparison.failure {
            None => Ok(()),
            Some(_) => Err("the output failed".to_owned()),
        }
    }
}
