//! `zebu backup history`: all versions of one node.

use std::sync::Arc;

use clap::Args;
use serde_json::json;
use zebu_backup::core::manifest::Base;
use zebu_backup::core::plan::{Plan, Point};
use zebu_backup::core::replay::{ReplayObserver, rebuild};
use zebu_proto::txn::TxnEntry;
use zebu_proto::{Acl, Zxid};
use zebu_tree::Tree;

use super::access::AccessArguments;
use super::location::{Location, failure, hash_seed};
use super::progress::{BytesRead, bytes_of};
use crate::offline::{Failure, Output, Screen, Verdict, acl_text, base64, data_text, time};

/// Show all versions of a node that a backup has
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu backup history /backup /app/config
  zebu backup history --json /backup /app/config | jq -r .data

Each line is a transaction that created, changed or deleted the node, oldest first, with the session of its client. \
The first line of a chain is the node at its first base.
Exit status: 0 the node was there at some time, 1 it never was, 2 the backup cannot be read.")]
pub(super) struct History {
    /// The place of the backup: a directory, or s3://bucket/prefix
    location: Location,

    /// The path of the node
    path: String,

    /// Print one JSON object per version
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    access: AccessArguments,
}

/// A version of the node.
#[derive(Clone, Debug, PartialEq)]
struct Version {
    czxid: i64,
    mzxid: i64,
    version: i32,
    aversion: i32,
    acl: Arc<[Acl]>,
}

impl Version {
    fn of(tree: &Tree, path: &str) -> Option<Version> {
        let node = tree.node(path)?;
        let stat = node.persisted();
        let (czxid, mzxid, version, aversion) = (stat.czxid, stat.mzxid, stat.version, stat.aversion);
        Some(Version { czxid, mzxid, version, aversion, acl: node.acl().clone() })
    }
}

/// What happened to the node.
fn change(before: Option<&Version>, after: Option<&Version>) -> &'static str {
    match (before, after) {
        (_, None) => "deleted",
        (None, Some(_)) => "created",
        (Some(before), Some(after)) if before.czxid != after.czxid => "created",
        (Some(before), Some(after)) if before.mzxid != after.mzxid => "set",
        (Some(_), Some(_)) => "acl",
    }
}

/// Watches the node during a replay.
struct Watched<'a> {
    path: &'a str,
    json: bool,
    out: Output,
    bar: BytesRead,
    last: Option<Version>,
    was_there: bool,
    written: Result<(), Failure>,
}

impl Watched<'_> {
    fn show(&mut self, tree: &Tree, at: &str, zxid: Zxid, time_ms: i64, session: Option<i64>) {
        if self.written.is_err() {
            return;
        }
        let node = tree.node(self.path);
        let data = node.as_ref().and_then(|node| node.data());
        let version = node.as_ref().map(|node| node.persisted().version);
        let session = session.map(|session| format!("{session:#x}"));
        self.written = if self.json {
            self.out.json(&json!({
                "change": at, "zxid": zxid.to_string(), "time_ms": time_ms, "session": session, "version": version,
                "data": data.map(|data| std::str::from_utf8(data).map_or(base64(data), str::to_owned)),
                "is_text": data.map(|data| std::str::from_utf8(data).is_ok()),
            }))
        } else {
            let acl = node.as_ref().map(|node| acl_text(Some(node.acl()))).filter(|_| at == "acl");
            let what = match (version, acl) {
                (None, _) => String::new(),
                (Some(version), Some(acl)) => format!(" version {version} acl {acl}"),
                (Some(version), None) => format!(" version {version} data {}", data_text(data)),
            };
            let session = session.map_or(String::new(), |session| format!(" session {session}"));
            self.out.line(format!("{zxid} {} {at}{what}{session}", time(time_ms)))
        };
    }
}

impl ReplayObserver for Watched<'_> {
    fn read_bytes(&mut self, bytes: u64) {
        self.bar.read_bytes(bytes);
    }

    fn loaded(&mut self, tree: &Tree, base: &Base) {
        self.last = Version::of(tree, self.path);
        if self.last.is_some() {
            self.was_there = true;
            self.show(tree, "base", base.zxid, base.time_ms, None);
        }
    }

    fn applied(&mut self, tree: &Tree, entry: &TxnEntry, time_ms: i64) {
        let now = Version::of(tree, self.path);
        if now != self.last {
            let what = change(self.last.as_ref(), now.as_ref());
            self.was_there |= now.is_some();
            self.last = now;
            self.show(tree, what, entry.header.zxid, time_ms, Some(entry.header.session.0));
        }
    }
}

impl History {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        let backup = self.location.open(&self.access)?;
        let mut plans: Vec<Plan> = Vec::new();
        for base in &backup.manifest.bases {
            if plans.last().is_some_and(|plan| plan.base.chain == base.chain) {
                continue;
            }
            let of_chain = backup.segments.iter().filter(|segment| segment.chain == base.chain);
            let segments = of_chain.cloned().collect();
            plans.push(Plan { base: base.clone(), segments, point: Point::Latest });
        }
        let mut watched = Watched {
            path: &self.path,
            json: self.json,
            out: Output::new(),
            bar: BytesRead::new(plans.iter().map(bytes_of).sum(), Screen::Busy),
            last: None,
            was_there: false,
            written: Ok(()),
        };
        for plan in &plans {
            rebuild(&backup.target, plan, hash_seed()?, &mut watched).map_err(failure)?;
        }
        watched.written?;
        watched.out.flush()?;
        Ok(if watched.was_there { Verdict::Good } else { Verdict::Bad })
    }
}
