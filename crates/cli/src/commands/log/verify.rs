//! `zebu log verify`: is a log sound, and if not, where is the worst flaw and what does it mean. It knows
//! one file at a time; whether the files of a directory fit together is decided by recovery.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use zebu_proto::Zxid;
use zebu_proto::txn::TxnEntry;
use zebu_storage::format::log::payload_zxid;
use zebu_storage::format::names::parse_log;
use zebu_storage::format::scan::{LogFlaw, LogHeader, RawEntry};

use super::walk::{Broken, End, Found, Walk};
use super::{follows, refuse_snapshot, unreadable};
use crate::offline::{Failure, Finding, Format, Output, Screen, Verdict, count, progress_bar};

/// Check logs: checksums, end marks, contents, gaps between zxids
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu log verify data/version-2/log.1
  zebu log verify --json data/version-2/log.*

The worst flaw of each file is explained, the others are counted. Also a torn tail counts as a flaw: an interrupted write, which a \
server drops by itself when it starts. A log that a server is writing to may seem torn.
Exit status: 0 all are sound, 1 a flaw was found, 2 a file cannot be read.")]
pub(super) struct Verify {
    /// The logs
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Print one JSON object per file
    #[arg(long)]
    json: bool,
}

/// ZooKeeper reads no longer entry unless it is told otherwise: `jute.maxbuffer` and an extra size of the
/// same number.
const ZOOKEEPER_ENTRY_MAX: usize = 2 * 0xf_ffff;

/// Kinds of flaws, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Name,
    TornTail,
    Order,
    Content,
    Header,
    Damage,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Name => "wrong name of the file",
            Kind::TornTail => "torn tail",
            Kind::Order => "gap or wrong order of zxids",
            Kind::Content => "unknown content",
            Kind::Header => "unusable header",
            Kind::Damage => "damaged entry",
        }
    }
}

/// The findings in one log.
#[derive(Default)]
struct Report {
    entries: u64,
    repeated: u64,
    first: Option<Zxid>,
    last: Option<Zxid>,
    /// What the next entry must follow; nothing behind bytes that do not say what they were.
    previous: Option<Zxid>,
    flaws: BTreeMap<Kind, u64>,
    /// The first flaw of the worst kind.
    worst: Option<(Kind, Finding)>,
    /// The flaw nearest to the front.
    first_flaw: Option<Finding>,
    /// Entries that ZooKeeper does not read by default, and the length of the longest.
    long: u64,
    longest: usize,
}

impl Verify {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        let mut output = Output::new();
        let mut verdict = Verdict::Good;
        for file in &self.files {
            verdict = verdict.and(verify(file, Format::of_switch(self.json), &mut output)?);
        }
        output.flush()?;
        Ok(verdict)
    }
}

fn verify(path: &Path, format: Format, output: &mut Output) -> Result<Verdict, Failure> {
    refuse_snapshot(path, "verify")?;
    let (mut walk, header) = Walk::open(path).map_err(unreadable(path))?;
    let length = walk.length();
    let mut report = Report::default();
    let end = match header_finding(header) {
        Some(finding) => {
            report.flaw(Kind::Header, finding);
            End { at: 0, padding: 0 }
        }
        None => {
            let bar = progress_bar(length, Screen::Free);
            let end = loop {
                match walk.next().map_err(unreadable(path))? {
                    Found::Entry(raw) => {
                        bar.set_position(raw.end);
                        report.entry(path, &raw);
                    }
                    Found::Broken(broken) => report.broken(&broken),
                    Found::End(end) => break end,
                }
            };
            bar.finish_and_clear();
            end
        }
    };
    match format {
        Format::Text => report.lines(path, length, end).iter().try_for_each(|line| output.line(line))?,
        Format::Json => output.json(&json!({
            "file": path,
            "sound": report.worst.is_none(),
            "length": length,
            "entries": report.entries,
            "repeated": report.repeated,
            "first_zxid": report.first.map(|zxid| zxid.to_string()),
            "last_zxid": report.last.map(|zxid| zxid.to_string()),
            "data_end": end.at,
            "padding": end.padding,
            "flaws": report.count(),
            "first_flaw": report.first_flaw.as_ref().map(Finding::json),
            "worst_flaw": report.worst.as_ref().map(|(_, finding)| finding.json()),
            "longest_entry": report.longest,
        }))?,
    }
    Ok(if report.worst.is_none() { Verdict::Good } else { Verdict::Bad })
}

fn header_finding(header: LogHeader) -> Option<Finding> {
    let (what, meaning, advice) = match header {
        LogHeader::Valid => return None,
        LogHeader::Unfinished | LogHeader::Zero => (
            match header {
                LogHeader::Unfinished => "the file is shorter than the header of a log",
                _ => "the file holds only zeros",
            },
            "its creation was interrupted; if it is the newest log it never held an acknowledged transaction",
            "if it is the newest log, nothing: Zebu removes it at start; ZooKeeper before 3.9.3 does not \
             start \
             until it is moved away. If newer logs exist, take the file from a backup or another member",
        ),
        LogHeader::Foreign => (
            "the file does not begin with ZKLG",
            "it is no transaction log, or its first bytes were overwritten; no server starts with it",
            "if it is no log, move it out of the directory; if it is one, run `zebu log recover`",
        ),
    };
    Some(finding(0, what, meaning, advice))
}

fn finding(
    at: u64,
    what: impl Into<String>,
    meaning: impl Into<String>,
    advice: impl Into<String>,
) -> Finding {
    Finding { offset: Some(at), what: what.into(), meaning: meaning.into(), advice: advice.into() }
}

impl Report {
    fn flaw(&mut self, kind: Kind, finding: Finding) {
        *self.flaws.entry(kind).or_default() += 1;
        self.first_flaw.get_or_insert_with(|| finding.clone());
        if self.worst.as_ref().is_none_or(|(worst, _)| kind > *worst) {
            self.worst = Some((kind, finding));
        }
    }

    fn count(&self) -> u64 {
        self.flaws.values().sum()
    }

    fn entry(&mut self, path: &Path, raw: &RawEntry<'_>) {
        self.entries += 1;
        self.longest = self.longest.max(raw.payload.len());
        self.long += u64::from(raw.payload.len() > ZOOKEEPER_ENTRY_MAX);
        if let Err(error) = TxnEntry::decode(raw.payload) {
            let content = finding(
                raw.at,
                format!("the checksum is right, but the content is not known: {error}"),
                "a release that Zebu does not know wrote the entry, or a faulty one; no server starts with \
                 it",
                "take the log from another member or a backup, or start the release that wrote it",
            );
            self.flaw(Kind::Content, content);
        }
        let Some(zxid) = payload_zxid(raw.payload) else { return };
        match self.previous {
            None => self.check_name(path, raw.at, zxid),
            Some(last) if zxid == last => self.repeated += 1,
            Some(last) if follows(last, zxid) => {}
            Some(last) => self.flaw(Kind::Order, out_of_order(raw.at, last, zxid)),
        }
        self.first = self.first.or(Some(zxid));
        self.last = self.last.max(Some(zxid));
        self.previous = self.last;
    }

    fn check_name(&mut self, path: &Path, at: u64, zxid: Zxid) {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(parse_log);
        let Some(named) = name.map(|name| name.zxid).filter(|&named| named != zxid) else { return };
        // The first entry may be a broken one.
        if self.worst.is_none() {
            let name = finding(
                at,
                format!("the first entry has zxid {zxid}, the name of the file says {named}"),
                "servers choose logs by their names; entries of this one may be left out or replayed twice",
                format!("if the file was renamed, give it its name log.{:x} back", zxid.0),
            );
            self.flaw(Kind::Name, name);
        }
    }

    fn broken(&mut self, broken: &Broken) {
        let claim = broken.legible.as_ref().map(|legible| legible.entry.header.zxid);
        let claim = claim.map_or(String::new(), |zxid| format!(" (the entry says it is {zxid})"));
        let what = format!("{}{claim}", broken.flaw);
        let kind = if broken.behind.is_some() { Kind::Damage } else { Kind::TornTail };
        let finding = match broken.behind {
            None => finding(
                broken.at,
                format!("torn tail: {what}; no valid entry follows"),
                "the last write was interrupted; if this is the newest log it was never acknowledged, and \
                 nothing is lost",
                "nothing: Zebu drops it at start. ZooKeeper may refuse to start; `zebu log recover` then \
                 writes a log without it",
            ),
            Some(behind) => finding(
                broken.at,
                format!("{what}; a valid entry, {}, follows at offset {}", behind.zxid, behind.at),
                format!("acknowledged transactions are damaged; Zebu refuses to start, {}", apache(broken)),
                "take the log from a backup, or empty this member and let it copy from the others; if \
                 there is neither, `zebu log recover` saves what is intact",
            ),
        };
        self.flaw(kind, finding);
        self.previous = broken.legible.as_ref().map(|legible| legible.entry.header.zxid);
    }

    fn lines(&self, path: &Path, length: u64, end: End) -> Vec<String> {
        let file = path.display();
        let verdict = if self.worst.is_none() { "sound" } else { "NOT SOUND" };
        let range = match (self.first, self.last) {
            (Some(first), Some(last)) => format!(", zxid {first} to {last}"),
            _ => String::new(),
        };
        let repeated = match self.repeated {
            0 => String::new(),
            count => format!(", {count} with the zxid of the entry before"),
        };
        let rest = match end.padding {
            0 => String::new(),
            padding => format!(", {padding} of them padding"),
        };
        let mut lines = vec![format!(
            "{file}: {verdict}: {}{range}{repeated}; {length} bytes{rest}",
            count(self.entries, "entry", "entries")
        )];
        if let Some((worst, finding)) = &self.worst {
            lines.extend(finding.lines());
            let others = self.count() - 1;
            if others > 0 {
                let kinds = self.flaws.iter().rev().map(|(kind, number)| {
                    let number = if kind == worst { number - 1 } else { *number };
                    (kind.name(), number)
                });
                let kinds: Vec<String> = kinds
                    .filter(|(_, number)| *number > 0)
                    .map(|(name, number)| format!("{name}: {number}"))
                    .collect();
                lines.push(format!(
                    "  {} ({}); `zebu log dump` marks broken entries",
                    count(others, "more flaw", "more flaws"),
                    kinds.join(", ")
                ));
            }
        }
        if self.long > 0 {
            let entries = count(self.long, "entry is", "entries are");
            lines.push(format!(
                "  note: {entries} longer than ZooKeeper reads by default, up to {0} bytes; it needs -Djute.maxbuffer={0}, \
                 Zebu reads any length",
                self.longest
            ));
        }
        lines
    }
}

fn out_of_order(at: u64, last: Zxid, zxid: Zxid) -> Finding {
    if zxid < last {
        return finding(
            at,
            format!("zxid {zxid} comes behind {last}"),
            "zxids only grow in a log; ZooKeeper would replay the entry, Zebu skips it",
            "take the log from another member or a backup",
        );
    }
    finding(
        at,
        format!("zxid {zxid} comes directly behind {last}: what is between them is missing"),
        "harmless only if a snapshot holds what is missing, as when a member received a whole snapshot \
         from its leader; otherwise acknowledged transactions are lost, and Zebu refuses to start",
        "if no snapshot at or behind that point is there, take the logs from a backup, or empty this \
         member and let it copy from the others",
    )
}

/// ZooKeeper looks at the end mark before the checksum, and a missing one ends the log for it.
fn apache(broken: &Broken) -> &'static str {
    match broken.flaw {
        LogFlaw::CutShort | LogFlaw::Zeros | LogFlaw::EndMark => {
            "ZooKeeper starts and silently leaves out all that follows"
        }
        LogFlaw::Checksum if broken.legible.is_none() => {
            "ZooKeeper refuses too, or starts and silently leaves out all that follows"
        }
        LogFlaw::Length(_) | LogFlaw::Checksum => "and so does ZooKeeper",
    }
}
