//! `zebu snapshot dump`: everything that a snapshot holds, in the order of the file.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_storage::SnapshotSummary;
use zebu_storage::format::snapshot::SnapshotVisitor;
use zebu_tree::{Lifetime, TtlNodes};

use super::shown;
use super::source::read;
use crate::offline::{
    Failure, Format, Output, Screen, Verdict, acl_text, base64, count, data_text, permissions, time, word,
};

/// Show the sessions, ACLs and nodes of a snapshot
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu snapshot dump data/version-2/snapshot.0
  zebu snapshot dump --data data/version-2/snapshot.0.gz
  zebu snapshot dump --json snapshot.0 | jq 'select(.kind == \"node\" and .data_length > 1000)'

One line per session, ACL and node, as they come. acl= is the number of an ACL line; -1 is world:anyone with \
all permissions. cversion is the stored one: it counts children that were ever created. The checksums are \
known only at the end: if they are wrong, the last line says so, and the lines above cannot be trusted.
Exit status: 0 shown, 1 the snapshot is damaged, 2 it cannot be read.")]
pub(super) struct Dump {
    /// The snapshot
    file: PathBuf,

    /// Show the data of nodes: as text if it is text, else in base64 (always in base64 with --json)
    #[arg(long)]
    data: bool,

    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    Length,
    Whole,
}

struct Listing {
    output: Output,
    format: Format,
    data: Data,
    /// The first failure to write; nothing is written after it.
    failure: Option<Failure>,
}

impl Dump {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        let mut listing = Listing {
            output: Output::new(),
            format: Format::of_switch(self.json),
            data: if self.data { Data::Whole } else { Data::Length },
            failure: None,
        };
        let result = read(&self.file, Screen::Busy, &mut listing)?;
        if let Some(failure) = listing.failure {
            return Err(failure);
        }
        let mut output = listing.output;
        let verdict = match result {
            Ok(summary) => {
                sections(&mut output, listing.format, &summary)?;
                Verdict::Good
            }
            Err(flaw) => {
                match listing.format {
                    Format::Text => output.line(format!("BROKEN {flaw}"))?,
                    Format::Json => output.json(&json!({ "kind": "broken", "what": flaw.to_string() }))?,
                }
                Verdict::Bad
            }
        };
        output.flush()?;
        Ok(verdict)
    }
}

fn sections(output: &mut Output, format: Format, summary: &SnapshotSummary) -> Result<(), Failure> {
    let SnapshotSummary { sessions, acls, nodes, seals, digest, last_zxid, size } = summary;
    if format == Format::Json {
        return output.json(&json!({
            "kind": "end",
            "sessions": sessions,
            "acls": acls,
            "nodes": nodes,
            "checksums": seals.iter().map(|seal| format!("{seal:#x}")).collect::<Vec<_>>(),
            "digest": digest.as_ref().map(|digest| json!({
                "zxid": digest.zxid.to_string(),
                "version": digest.version,
                "value": format!("{:#x}", digest.digest),
            })),
            "last_zxid": last_zxid.map(|zxid| zxid.to_string()),
            "unpacked_bytes": size,
        }));
    }
    match digest {
        Some(digest) => output.line(format!(
            "digest version={} value={:#x} at zxid={}",
            digest.version, digest.digest, digest.zxid
        ))?,
        None => output.line("digest none")?,
    }
    match last_zxid {
        Some(zxid) => output.line(format!("last zxid={zxid}"))?,
        None => output.line("last zxid none")?,
    }
    let seals = seals.iter().map(|seal| format!("{seal:#x}")).collect::<Vec<_>>().join(" ");
    output.line(format!(
        "end: {}, {}, {}, {size} bytes unpacked; checksums right: {seals}",
        count(*sessions, "session", "sessions"),
        count(*acls, "ACL", "ACLs"),
        count(*nodes, "node", "nodes"),
    ))
}

/// What the owner field of a node means. TTL nodes are known by their owner, as where they are enabled.
fn lifetime_text(owner: i64) -> String {
    match Lifetime::of_owner(owner, TtlNodes::Enabled) {
        Lifetime::Persistent => "persistent".to_owned(),
        Lifetime::Session(session) => format!("ephemeral:{session}"),
        Lifetime::Container => "container".to_owned(),
        Lifetime::Ttl(milliseconds) => format!("ttl:{milliseconds}ms"),
        Lifetime::Unknown => format!("unknown:{owner:#x}"),
    }
}

impl Listing {
    fn put(&mut self, text: impl FnOnce() -> String, json: impl FnOnce() -> Value) {
        if self.failure.is_none() {
            let written = match self.format {
                Format::Text => self.output.line(text()),
                Format::Json => self.output.json(&json()),
            };
            self.failure = written.err();
        }
    }
}

impl SnapshotVisitor for Listing {
    fn header(&mut self, version: i32, database: i64) {
        self.put(
            || format!("snapshot version={version} dbid={database}"),
            || json!({ "kind": "header", "version": version, "dbid": database }),
        );
    }

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.put(
            || format!("session {id} timeout_ms={timeout_ms}"),
            || json!({ "kind": "session", "id": id.to_string(), "timeout_ms": timeout_ms }),
        );
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.put(
            || format!("acl {id} {}", acl_text(Some(&acl))),
            || {
                let entry = |entry: &Acl| {
                    json!({
                        "scheme": entry.id.scheme.as_deref(),
                        "id": entry.id.id.as_deref(),
                        "permissions": permissions(entry.perms),
                    })
                };
                json!({ "kind": "acl", "id": id, "entries": acl.iter().map(entry).collect::<Vec<_>>() })
            },
        );
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), String> {
        let path = shown(path);
        let show = self.data;
        self.put(|| node_text(path, data, show, acl, stat), || node_json(path, data, show, acl, stat));
        match &self.failure {
            None => Ok(()),
            Some(_) => Err("the output failed".to_owned()),
        }
    }
}

fn node_text(path: &str, data: Option<&[u8]>, show: Data, acl: i64, stat: &StatPersisted) -> String {
    let data = match (show, data) {
        (Data::Whole, data) => format!("data={}", data_text(data)),
        (Data::Length, Some(data)) => format!("bytes={}", data.len()),
        (Data::Length, None) => "bytes=null".to_owned(),
    };
    format!(
        "node {} {data} acl={acl} version={} cversion={} aversion={} czxid={} mzxid={} pzxid={} ctime={} \
         mtime={} {}",
        word(path),
        stat.version,
        stat.cversion,
        stat.aversion,
        Zxid(stat.czxid),
        Zxid(stat.mzxid),
        Zxid(stat.pzxid),
        time(stat.ctime),
        time(stat.mtime),
        lifetime_text(stat.ephemeral_owner),
    )
}

fn node_json(path: &str, data: Option<&[u8]>, show: Data, acl: i64, stat: &StatPersisted) -> Value {
    let mut node = json!({
        "kind": "node",
        "path": path,
        "data_length": data.map(<[u8]>::len),
        "acl": acl,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "czxid": Zxid(stat.czxid).to_string(),
        "mzxid": Zxid(stat.mzxid).to_string(),
        "pzxid": Zxid(stat.pzxid).to_string(),
        "ctime_ms": stat.ctime,
        "mtime_ms": stat.mtime,
        "owner": format!("{:#x}", stat.ephemeral_owner),
        "lifetime": lifetime_text(stat.ephemeral_owner),
    });
    if show == Data::Whole {
        node["data"] = data.map(base64).into();
    }
    node
}
