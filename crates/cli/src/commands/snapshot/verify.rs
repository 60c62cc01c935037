//! `zebu snapshot verify`: is a snapshot sound, and if not, what does that mean.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use foldhash::quality::RandomState;
use hashbrown::HashSet;
use serde_json::json;
use zebu_proto::txn::DIGEST_VERSION;
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_storage::SnapshotSummary;
use zebu_storage::format::names::{NameSpelling, parse_snapshot};
use zebu_storage::format::snapshot::{SnapshotFlaw, SnapshotVisitor};
use zebu_tree::{Lifetime, TtlNodes, digest_of_node};

use super::branch::Branch;
use super::fingerprint::Fingerprints;
use super::source::{file_name, read};
use crate::offline::{Failure, Finding, Format, Output, Screen, Verdict, count, word};

/// The id of the open ACL, which no table holds.
const OPEN_ACL_ID: i64 = -1;

/// Check snapshots: checksums, order of the nodes, digest of the tree
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu snapshot verify data/version-2/snapshot.0
  zebu snapshot verify --json data/version-2/snapshot.*

The digest of the tree is computed and compared with the one in the file, if no transaction was applied \
while the file was written; otherwise the tree is right only together with the log. In memory it holds the ids of \
sessions and ACLs, and hashes of the names next to the branch that it reads.
Exit status: 0 all are sound, 1 a flaw was found, 2 a file cannot be read.")]
pub(super) struct Verify {
    /// The snapshots
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Print one JSON object per file
    #[arg(long)]
    json: bool,
}

/// Counts and fingerprints of the nodes read so far.
struct Visitor {
    fingerprints: Fingerprints,
    /// For every node of the branch, the names of its children so far.
    branch: Branch<HashSet<u64, RandomState>>,
    sessions: BTreeSet<SessionId>,
    acls: BTreeSet<i64>,
    bytes: u64,
    depth: usize,
    digest: i64,
    ephemerals: u64,
    without_session: u64,
    without_acl: u64,
    /// The last transaction that any node speaks of.
    newest: Zxid,
    /// The first node with an owner of no known kind.
    unknown_owner: Option<(String, i64)>,
}

impl SnapshotVisitor for Visitor {
    fn session(&mut self, id: SessionId, _: i32) {
        self.sessions.insert(id);
    }

    fn acl(&mut self, id: i64, _: Vec<Acl>) {
        self.acls.insert(id);
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), String> {
        let number = self.fingerprints.path(path);
        let names = HashSet::with_hasher(RandomState::default());
        let siblings = self.branch.enter(path, names, |_, _| {}).map_err(|why| why.to_string())?;
        if siblings.is_some_and(|siblings| !siblings.insert(number)) {
            return Err("it is there twice".to_owned());
        }
        self.depth = self.depth.max(self.branch.depth() - 1);
        self.bytes += data.map_or(0, |data| data.len() as u64);
        self.digest = self.digest.wrapping_add(digest_of_node(path, data, stat));
        if acl != OPEN_ACL_ID && !self.acls.contains(&acl) {
            self.without_acl += 1;
        }
        let newest = stat.czxid.max(stat.mzxid).max(stat.pzxid);
        self.newest = self.newest.max(Zxid(newest));
        let owner = stat.ephemeral_owner;
        match Lifetime::of_owner(owner, TtlNodes::Enabled) {
            Lifetime::Persistent | Lifetime::Container | Lifetime::Ttl(_) => {}
            Lifetime::Session(session) => {
                self.ephemerals += 1;
                self.without_session += u64::from(!self.sessions.contains(&session));
            }
            Lifetime::Unknown => {
                self.unknown_owner.get_or_insert_with(|| (path.to_owned(), owner));
            }
        }
        Ok(())
    }
}

/// What the digest in the file says about the tree in the file.
enum DigestCheck {
    Right(i64, Zxid),
    Wrong { stored: i64, zxid: Zxid },
    Incomparable(String),
}

/// The findings in one snapshot.
struct Report {
    summary: Option<SnapshotSummary>,
    digest: Option<DigestCheck>,
    finding: Option<Finding>,
    notes: Vec<String>,
}

impl Verify {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        let mut output = Output::new();
        let mut verdict = Verdict::Good;
        for path in &self.files {
            let mut visitor = Visitor::new();
            let result = read(path, Screen::Free, &mut visitor)?;
            let report = Report::new(path, result, &visitor);
            match Format::of_switch(self.json) {
                Format::Text => report.lines(path, &visitor).iter().try_for_each(|line| output.line(line))?,
                Format::Json => output.json(&report.json(path, &visitor))?,
            }
            verdict = verdict.and(if report.finding.is_none() { Verdict::Good } else { Verdict::Bad });
        }
        output.flush()?;
        Ok(verdict)
    }
}

impl Visitor {
    fn new() -> Visitor {
        Visitor {
            fingerprints: Fingerprints::new(),
            branch: Branch::new(),
            sessions: BTreeSet::new(),
            acls: BTreeSet::new(),
            bytes: 0,
            depth: 0,
            digest: 0,
            ephemerals: 0,
            without_session: 0,
            without_acl: 0,
            newest: Zxid::ZERO,
            unknown_owner: None,
        }
    }

    fn check_digest(&self, summary: &SnapshotSummary, named: Option<Zxid>) -> DigestCheck {
        let Some(digest) = &summary.digest else {
            return DigestCheck::Incomparable("the file has none".to_owned());
        };
        let zxid = digest.zxid;
        let reason = if digest.version != DIGEST_VERSION {
            format!("it is of version {}, which nobody computes any more", digest.version)
        } else if digest.digest == self.digest {
            return DigestCheck::Right(self.digest, zxid);
        } else if zxid == Zxid::ZERO {
            "it is empty: no transaction had been applied since the tree was loaded".to_owned()
        } else {
            match named {
                Some(named) if zxid < named => format!("it is of {zxid}, before the tree"),
                // ZooKeeper counts a transaction only when all of it has been applied.
                Some(_) if self.newest > zxid => {
                    format!("parts of transactions up to {} are in the tree", self.newest)
                }
                Some(named) if zxid == named => {
                    return DigestCheck::Wrong { stored: digest.digest, zxid };
                }
                Some(_) => format!("transactions up to {zxid} were applied while the file was written"),
                None => "without the snapshot's own name nobody knows when writing began".to_owned(),
            }
        };
        DigestCheck::Incomparable(reason)
    }
}

fn finding(what: String, meaning: &str, advice: &str) -> Finding {
    Finding { offset: None, what, meaning: meaning.to_owned(), advice: advice.to_owned() }
}

fn flaw_finding(flaw: &SnapshotFlaw) -> Finding {
    let older = "nothing, if an older snapshot and all logs since then are there: a server falls back to \
    them; otherwise take a snapshot from a backup or from another member";
    let (meaning, advice) = match flaw {
        SnapshotFlaw::Read { .. } => ("the file cannot be read or unpacked to its end", older),
        SnapshotFlaw::Magic => (
            "it is no snapshot, or it is packed and its name does not say so",
            "give a packed file a name that ends with .gz or .snappy",
        ),
        SnapshotFlaw::CutShort { .. } => ("it was not written to its end, or was copied in part", older),
        SnapshotFlaw::Seal { .. } | SnapshotFlaw::Field { .. } => {
            ("its content has changed since it was written", older)
        }
        SnapshotFlaw::Sections { .. } => (
            "the tree is sound, but the end is cut off or something was appended; servers refuse the file",
            older,
        ),
        SnapshotFlaw::Node { .. } => ("the nodes are no tree; servers refuse the file", older),
    };
    finding(flaw.to_string(), meaning, advice)
}

impl Report {
    fn new(path: &Path, result: Result<SnapshotSummary, SnapshotFlaw>, visitor: &Visitor) -> Report {
        let name = parse_snapshot(file_name(path));
        let summary = match result {
            Ok(summary) => summary,
            Err(flaw) => {
                let finding = Some(flaw_finding(&flaw));
                return Report { summary: None, digest: None, finding, notes: Vec::new() };
            }
        };
        let digest = visitor.check_digest(&summary, name.map(|name| name.zxid));
        let mut notes = Vec::new();
        if summary.digest.is_none() && summary.last_zxid.is_some() {
            notes.push(
                "the last zxid follows without a digest: ZooKeeper refuses the file, Zebu reads it"
                    .to_owned(),
            );
        }
        if name.is_some_and(|name| name.spelling == NameSpelling::Unfinished) {
            notes.push("its name ends with .tmp: Zebu ignores it, ZooKeeper may load it".to_owned());
        }
        if visitor.without_acl > 0 {
            let nodes = count(visitor.without_acl, "node has", "nodes have");
            notes.push(format!("{nodes} an ACL that is not in the file; the log must bring it"));
        }
        if visitor.without_session > 0 {
            let nodes = count(visitor.without_session, "ephemeral node belongs", "ephemeral nodes belong");
            notes.push(format!("{nodes} to a session that is not in the file"));
        }
        let finding = match (&visitor.unknown_owner, &digest) {
            (Some((path, owner)), _) => Some(finding(
                format!("node {} has owner {owner:#x}, which is of no known kind", word(path)),
                "a newer release wrote it, or it is damaged; servers with extendedTypesEnabled refuse it",
                "start the release that wrote it, or take an older snapshot",
            )),
            (None, DigestCheck::Wrong { stored, zxid }) => Some(finding(
                format!("the tree has digest {:#x}, the file says {stored:#x} at {zxid}", visitor.digest),
                "the tree is not the one that the history leads to, unless an ACL was set in the moment of \
                 writing; servers load it and only report the mismatch",
                "compare with a snapshot of another member: `zebu snapshot diff`",
            )),
            (None, DigestCheck::Right(..) | DigestCheck::Incomparable(_)) => None,
        };
        Report { summary: Some(summary), digest: Some(digest), finding, notes }
    }

    fn lines(&self, path: &Path, visitor: &Visitor) -> Vec<String> {
        let file = path.display();
        let verdict = if self.finding.is_none() { "sound" } else { "NOT SOUND" };
        let mut lines = Vec::new();
        match &self.summary {
            Some(summary) => {
                let SnapshotSummary { sessions, acls, nodes, size, .. } = summary;
                let Visitor { bytes, depth, ephemerals, .. } = visitor;
                lines.push(format!(
                    "{file}: {verdict}: {} ({ephemerals} ephemeral), depth {depth}, {} of data, {}, {}; \
                     {size} bytes unpacked",
                    count(*nodes, "node", "nodes"),
                    count(*bytes, "byte", "bytes"),
                    count(*sessions, "session", "sessions"),
                    count(*acls, "ACL", "ACLs"),
                ));
                lines.push(format!("  checksums: {} right", summary.seals.len()));
            }
            None => lines.push(format!("{file}: {verdict}")),
        }
        match &self.digest {
            Some(DigestCheck::Right(digest, zxid)) => {
                lines.push(format!("  digest: right, {digest:#x} at {zxid}"));
            }
            Some(DigestCheck::Incomparable(reason)) => {
                lines.push(format!("  digest: not compared: {reason}"))
            }
            Some(DigestCheck::Wrong { .. }) => lines.push("  digest: wrong".to_owned()),
            None => {}
        }
        lines.extend(self.notes.iter().map(|note| format!("  note: {note}")));
        lines.extend(self.finding.iter().flat_map(Finding::lines));
        lines
    }

    fn json(&self, path: &Path, visitor: &Visitor) -> serde_json::Value {
        let summary = self.summary.as_ref();
        let digest = self.digest.as_ref().map(|digest| match digest {
            DigestCheck::Right(..) => json!({ "result": "right" }),
            DigestCheck::Wrong { .. } => json!({ "result": "wrong" }),
            DigestCheck::Incomparable(reason) => json!({ "result": "not compared", "reason": reason }),
        });
        json!({
            "file": path,
            "sound": self.finding.is_none(),
            "nodes": summary.map(|summary| summary.nodes),
            "sessions": summary.map(|summary| summary.sessions),
            "acls": summary.map(|summary| summary.acls),
            "unpacked_bytes": summary.map(|summary| summary.size),
            "data_bytes": summary.map(|_| visitor.bytes),
            "depth": summary.map(|_| visitor.depth),
            "ephemerals": summary.map(|_| visitor.ephemerals),
            "tree_digest": summary.map(|_| format!("{:#x}", visitor.digest)),
            "digest": digest,
            "notes": self.notes,
            "first_flaw": self.finding.as_ref().map(Finding::json),
        })
    }
}
