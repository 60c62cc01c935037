//! `zebu backup diff`: what changed between two points.

use clap::Args;
use serde_json::json;
use zebu_backup::core::difference::{Difference, compare};
use zebu_backup::core::plan::Point;

use super::access::AccessArguments;
use super::location::Location;
use super::point::{parse_point, state_at};
use crate::offline::{Failure, Output, Verdict, word};

/// Compare the trees of two points
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu backup diff /backup 0x100000010 latest
  zebu backup diff /backup 2026-11-18T12:00:00Z 2026-11-18T13:00:00Z --path /app
  zebu backup diff --json /backup 0x100000010 0x100000020 | jq -r .path

A point is a zxid with 0x, a time, or latest. + is only at B, - only at A, ~ at both but different. It needs memory \
for both trees.
Exit status: 0 the same, 1 different, 2 the backup cannot be read.")]
pub(super) struct Diff {
    /// The place of the backup: a directory, or s3://bucket/prefix
    location: Location,

    /// The first point
    #[arg(value_parser = parse_point)]
    a: Point,

    /// The second point
    #[arg(value_parser = parse_point)]
    b: Point,

    /// Compare only this node and what is below it
    #[arg(long, value_name = "PATH", default_value = "/")]
    path: String,

    /// Print one JSON object per node
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    access: AccessArguments,
}

impl Diff {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        let backup = self.location.open(&self.access)?;
        let first = state_at(&backup, self.a)?;
        let second = state_at(&backup, self.b)?;
        let mut out = Output::new();
        let mut written = Ok(());
        let mut verdict = Verdict::Good;
        compare(&first.tree, &second.tree, &self.path, &mut |path, difference| {
            verdict = Verdict::Bad;
            if written.is_ok() {
                written = if self.json {
                    out.json(&as_json(path, difference))
                } else {
                    out.line(text(path, difference))
                };
            }
        });
        written?;
        out.flush()?;
        Ok(verdict)
    }
}

fn what(difference: Difference) -> (char, Vec<&'static str>) {
    match difference {
        Difference::Added => ('+', Vec::new()),
        Difference::Removed => ('-', Vec::new()),
        Difference::Changed { data, acl, recreated } => {
            let all = [(recreated, "created again"), (data, "data"), (acl, "acl")];
            ('~', all.iter().filter(|(is_so, _)| *is_so).map(|(_, name)| *name).collect())
        }
    }
}

fn text(path: &str, difference: Difference) -> String {
    let (sign, parts) = what(difference);
    let path = word(path);
    if parts.is_empty() { format!("{sign} {path}") } else { format!("{sign} {path} {}", parts.join(", ")) }
}

fn as_json(path: &str, difference: Difference) -> serde_json::Value {
    let (sign, parts) = what(difference);
    let change = match sign {
        '+' => "added",
        '-' => "removed",
        _ => "changed",
    };
    json!({ "path": path, "change": change, "parts": parts })
}
