//! `zebu snapshot summary`: how many nodes and bytes are where.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use zebu_proto::{Acl, SessionId, StatPersisted};
use zebu_storage::format::snapshot::SnapshotVisitor;

use super::shown;
use super::source::{read, unusable};
use super::subtree::{Counting, Row, Scope};
use crate::offline::{Failure, Format, Output, Screen, Verdict, word};

/// Count nodes and bytes per subtree
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu snapshot summary data/version-2/snapshot.0
  zebu snapshot summary data/version-2/snapshot.0 /app --depth 3
  zebu snapshot summary snapshot.0 --depth 0 | sort -n -k 3 | tail

One line for each node that has children: its children, all nodes below it, the data of all of them and of \
itself. In memory it holds these lines and nothing else of the tree.
Exit status: 0 shown, 2 the snapshot is damaged or has no such node.")]
pub(super) struct Summary {
    /// The snapshot
    file: PathBuf,

    /// The node to begin with
    #[arg(default_value = "/", value_name = "PATH")]
    path: String,

    /// Levels below the node that get lines; 0 for all
    #[arg(long, short, default_value_t = 2)]
    depth: u64,

    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

struct Visitor(Counting);

impl SnapshotVisitor for Visitor {
    fn session(&mut self, _: SessionId, _: i32) {}
    fn acl(&mut self, _: i64, _: Vec<Acl>) {}
    fn node(&mut self, path: &str, data: Option<&[u8]>, _: i64, _: &StatPersisted) -> Result<(), String> {
        self.0.node(path, data).map_err(|why| why.to_string())
    }
}

impl Summary {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        let start = if self.path == "/" { String::new() } else { self.path.clone() };
        let depth = (self.depth > 0).then_some(self.depth);
        let mut visitor = Visitor(Counting::new(Scope { start, depth }));
        let summary = read(&self.file, Screen::Free, &mut visitor)?;
        summary.map_err(|flaw| unusable(&self.file, &flaw))?;
        let rows = visitor.0.finish();
        if rows.is_empty() {
            let (file, path) = (self.file.display(), word(&self.path));
            return Err(Failure::Text(format!("{file} has no node {path}")));
        }
        let mut output = Output::new();
        if Format::of_switch(self.json) == Format::Text {
            output
                .line(format_args!("{:>10} {:>12} {:>14}  path", "children", "descendants", "data bytes"))?;
        }
        for row in &rows {
            let Row { path, children, descendants, bytes } = row;
            let path = shown(path);
            if self.json {
                output.json(&json!({
                    "path": path,
                    "children": children,
                    "descendants": descendants,
                    "data_bytes": bytes,
                }))?;
            } else {
                output.line(format_args!("{children:>10} {descendants:>12} {bytes:>14}  {}", word(path)))?;
            }
        }
        output.flush()?;
        Ok(Verdict::Good)
    }
}
