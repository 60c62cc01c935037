//! `zebu log dump`: every entry of a log, and everything in it that is none.

use std::num::ParseIntError;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use zebu_proto::Zxid;
use zebu_proto::txn::TxnEntry;
use zebu_storage::format::log::payload_zxid;
use zebu_storage::format::scan::{LogHeader, RawEntry};

use super::entry::{self, Data};
use super::walk::{Broken, End, Found, Walk};
use super::{refuse_snapshot, unreadable};
use crate::offline::{Failure, Format, Output, Screen, Verdict, progress_bar};

/// Show the entries of a log
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu log dump data/version-2/log.1
  zebu log dump --verbose --from 0x200000001 --to 0x2000000ff data/version-2/log.200000001
  zebu log dump --json log.1 | jq 'select(.type == \"delete\")'

A line begins with the offset of the entry and its time (UTC). Bytes that are no valid entry are marked \
BROKEN with what is wrong; what they say is shown if it can be read. The file is read as a stream.
Exit status: 0 shown, 1 shown and something is broken, 2 the file cannot be read.")]
pub(super) struct Dump {
    /// The log
    file: PathBuf,

    /// Show the data of nodes: as text if it is text, else in base64 (always in base64 with --json)
    #[arg(long, short)]
    verbose: bool,

    /// Leave out entries before this zxid (decimal, or 0x and hexadecimal)
    #[arg(long, value_name = "ZXID", value_parser = parse_zxid)]
    from: Option<Zxid>,

    /// Leave out entries behind this zxid
    #[arg(long, value_name = "ZXID", value_parser = parse_zxid)]
    to: Option<Zxid>,

    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

fn parse_zxid(text: &str) -> Result<Zxid, ParseIntError> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => i64::from_str_radix(digits, 16).map(Zxid),
        None => text.parse().map(Zxid),
    }
}

struct Listing<'d> {
    dump: &'d Dump,
    output: Output,
    data: Data,
    format: Format,
    entries: u64,
    shown: u64,
    verdict: Verdict,
}

impl Dump {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        refuse_snapshot(&self.file, "dump")?;
        let mut listing = Listing {
            data: if self.verbose { Data::Whole } else { Data::Length },
            format: Format::of_switch(self.json),
            dump: &self,
            output: Output::new(),
            entries: 0,
            shown: 0,
            verdict: Verdict::Good,
        };
        let (mut walk, header) = Walk::open(&self.file).map_err(unreadable(&self.file))?;
        listing.header(header, walk.header_numbers().map_err(unreadable(&self.file))?)?;
        if header != LogHeader::Valid {
            return Ok(Verdict::Bad);
        }
        let bar = progress_bar(walk.length(), Screen::Busy);
        loop {
            match walk.next().map_err(unreadable(&self.file))? {
                Found::Entry(raw) => {
                    bar.set_position(raw.end);
                    listing.entry(&raw)?;
                }
                Found::Broken(broken) => listing.broken(&broken)?,
                Found::End(end) => {
                    bar.finish_and_clear();
                    return listing.end(end);
                }
            }
        }
    }

    fn wants(&self, zxid: Option<Zxid>) -> bool {
        let Some(zxid) = zxid else { return true };
        self.from.is_none_or(|from| zxid >= from) && self.to.is_none_or(|to| zxid <= to)
    }
}

impl Listing<'_> {
    fn header(&mut self, header: LogHeader, numbers: Option<(i32, i64)>) -> Result<(), Failure> {
        let file = self.dump.file.display();
        let problem = match header {
            LogHeader::Valid => None,
            LogHeader::Unfinished => Some("shorter than a log's header"),
            LogHeader::Zero => Some("only zeros"),
            LogHeader::Foreign => {
                Some("does not begin with ZKLG; `zebu log recover` looks for entries in it")
            }
        };
        match (self.format, problem, numbers) {
            (Format::Json, problem, numbers) => self.output.json(&json!({
                "kind": "header",
                "file": self.dump.file,
                "version": numbers.map(|(version, _)| version),
                "dbid": numbers.map(|(_, database)| database),
                "broken": problem,
            })),
            (Format::Text, Some(problem), _) => {
                self.output.line(format!("{file}: BROKEN, no log: {problem}"))
            }
            (Format::Text, None, numbers) => {
                let (version, database) = numbers.unwrap_or_default();
                self.output.line(format!("{file}: transaction log, version {version}, dbid {database}"))
            }
        }?;
        self.output.flush()
    }

    fn entry(&mut self, raw: &RawEntry<'_>) -> Result<(), Failure> {
        self.entries += 1;
        if !self.dump.wants(payload_zxid(raw.payload)) {
            return Ok(());
        }
        self.shown += 1;
        match (TxnEntry::decode(raw.payload), self.format) {
            (Ok(entry), Format::Text) => {
                entry::lines(raw.at, &entry, self.data).iter().try_for_each(|line| self.output.line(line))
            }
            (Ok(entry), Format::Json) => self.output.json(&entry::json(raw.at, &entry, self.data).into()),
            (Err(error), format) => {
                self.verdict = Verdict::Bad;
                let what = format!("the checksum is right, the content is not known: {error}");
                match format {
                    Format::Text => self.output.line(format!("{} BROKEN {what}", raw.at)),
                    Format::Json => self.output.json(&json!({
                        "kind": "broken",
                        "offset": raw.at,
                        "until": raw.end,
                        "what": what,
                        "zxid": payload_zxid(raw.payload).map(|zxid| zxid.to_string()),
                    })),
                }
            }
        }
    }

    fn broken(&mut self, broken: &Broken) -> Result<(), Failure> {
        self.verdict = Verdict::Bad;
        let Broken { at, until, flaw, .. } = broken;
        let entry = broken.legible.as_ref().map(|legible| &legible.entry);
        match self.format {
            Format::Text => {
                let size = until - at;
                self.output.line(format!("{at} BROKEN {flaw}; {size} bytes, up to offset {until}"))?;
                let lines = entry.map(|entry| entry::lines(*at, entry, self.data)).unwrap_or_default();
                lines.iter().try_for_each(|line| self.output.line(format!("    reads as: {line}")))
            }
            Format::Json => self.output.json(&json!({
                "kind": "broken",
                "offset": at,
                "until": until,
                "what": flaw.to_string(),
                "reads_as": entry.map(|entry| entry::json(*at, entry, self.data)),
            })),
        }
    }

    fn end(mut self, end: End) -> Result<Verdict, Failure> {
        let End { at, padding } = end;
        match self.format {
            Format::Text => {
                let of =
                    if self.shown == self.entries { String::new() } else { format!(" of {}", self.entries) };
                let rest = match padding {
                    0 => "end of file".to_owned(),
                    padding => format!("{padding} bytes of padding"),
                };
                let entries = if self.entries == 1 { "entry" } else { "entries" };
                self.output.line(format!("{at} end: {}{of} {entries}, then {rest}", self.shown))?;
            }
            Format::Json => self.output.json(&json!({
                "kind": "end",
                "offset": at,
                "padding": padding,
                "entries": self.entries,
                "shown": self.shown,
            }))?,
        }
        self.output.flush()?;
        Ok(self.verdict)
    }
}
