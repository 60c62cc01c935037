//! `zebu log recover`: copies what is intact into a new file beside the log. The log itself is not touched,
//! and the new file has a name under which no server reads it: that is the operator's decision.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use zebu_proto::Zxid;
use zebu_storage::format::log::{HEADER, append_payload, payload_zxid};
use zebu_storage::format::scan::LogHeader;

use super::entry::{self, Data};
use super::walk::{Broken, Found, Walk};
use super::{follows, refuse_snapshot, unreadable};
use crate::console::{begin, print_error, print_line};
use crate::offline::{Failure, Format, Screen, Verdict, count, progress_bar};

/// What the new name begins with. A name that begins with `log.` would be replayed by ZooKeeper beside the
/// original.
const PREFIX: &str = "recovered.";

/// Copy the intact entries of a damaged log into a new file
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  zebu log recover data/version-2/log.1           writes data/version-2/recovered.log.1
  zebu log recover --yes data/version-2/log.1     drops every broken entry without asking

For each broken entry it asks: yes drops it, keep takes it with a new checksum (only if it can be read), \
stop ends the new log before it, abort removes the new log. Dropping an entry in the middle leaves a hole: \
servers refuse a log with a hole unless a snapshot covers it; stop leaves none.

The original stays as it is. The new name does not begin with `log.`, because ZooKeeper replays every such \
file, whatever follows. To use the new log: stop the server, move the original out of the directory, give \
the new file its name.
Exit status: 0 the new log was written, or nothing is broken; 2 it was not written.")]
pub(super) struct Recover {
    /// The log
    file: PathBuf,

    /// Drop every broken entry without asking
    #[arg(long, short)]
    yes: bool,

    /// Print one JSON object: what was written and what was dropped (needs --yes)
    #[arg(long, requires = "yes")]
    json: bool,
}

/// What to do with a broken entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Drop,
    Keep,
    Stop,
}

/// The decision about a range of bytes of the original.
struct Decision {
    at: u64,
    until: u64,
    what: String,
    answer: Answer,
    reads_as: Option<Value>,
}

/// The new log.
struct Copy {
    path: PathBuf,
    file: BufWriter<File>,
    frame: Vec<u8>,
    entries: u64,
    last: Option<Zxid>,
    holes: Vec<(Zxid, Zxid)>,
}

impl Recover {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        refuse_snapshot(&self.file, "verify")?;
        let (walk, header) = Walk::open(&self.file).map_err(unreadable(&self.file))?;
        if matches!(header, LogHeader::Unfinished | LogHeader::Zero) {
            let file = self.file.display();
            return Err(Failure::Text(format!(
                "{file} holds no entry: its creation was interrupted. If it is the newest log, move it away"
            )));
        }
        let mut copy = Copy::create(&self.file)?;
        match self.copy(walk, header, &mut copy) {
            Ok(decisions) if decisions.is_empty() => {
                copy.discard();
                self.tell_intact(copy.entries);
                Ok(Verdict::Good)
            }
            Ok(decisions) => {
                copy.finish().inspect_err(|_| copy.discard())?;
                self.tell(&copy, &decisions);
                Ok(Verdict::Good)
            }
            Err(failure) => {
                copy.discard();
                Err(failure)
            }
        }
    }

    fn copy(&self, mut walk: Walk, header: LogHeader, copy: &mut Copy) -> Result<Vec<Decision>, Failure> {
        let mut decisions = Vec::new();
        let bar = progress_bar(walk.length(), Screen::Free);
        if header == LogHeader::Foreign {
            let what = "the header is not that of a log; it is replaced".to_owned();
            decisions.push(Decision { at: 0, until: 16, what, answer: Answer::Keep, reads_as: None });
        }
        loop {
            match walk.next().map_err(unreadable(&self.file))? {
                Found::Entry(raw) => {
                    bar.set_position(raw.end);
                    copy.append(raw.payload)?;
                }
                // Asking about the bytes of a file that is no log at all would be a joke.
                Found::Broken(Broken { behind: None, legible: None, .. }) if copy.entries == 0 => break,
                Found::Broken(broken) => {
                    let answer = bar.suspend(|| self.decide(&broken))?;
                    decisions.push(decision(&broken, answer));
                    match (answer, broken.legible) {
                        (Answer::Keep, Some(legible)) => copy.append(&legible.payload)?,
                        (Answer::Stop, _) => break,
                        (Answer::Drop | Answer::Keep, _) => {}
                    }
                }
                Found::End(_) => break,
            }
        }
        bar.finish_and_clear();
        if copy.entries == 0 {
            let file = self.file.display();
            return Err(Failure::Text(format!("{file} has no intact entry; nothing was written")));
        }
        Ok(decisions)
    }

    fn decide(&self, broken: &Broken) -> Result<Answer, Failure> {
        if self.yes {
            return Ok(Answer::Drop);
        }
        print_line(format!("offset {} to {}: {}", broken.at, broken.until, broken.flaw));
        match &broken.legible {
            Some(legible) => {
                entry::lines(broken.at, &legible.entry, Data::Length).iter().for_each(print_line)
            }
            None => print_line("what it says cannot be read"),
        }
        match broken.behind {
            Some(behind) => print_line(format!("valid entries follow from {} on", behind.zxid)),
            None => print_line("no valid entry follows: an interrupted write"),
        }
        let choices = if broken.legible.is_some() { "yes/keep/stop/abort" } else { "yes/stop/abort" };
        loop {
            begin(&format!("Drop it? ({choices}) "));
            let mut line = String::new();
            let read = io::stdin().lock().read_line(&mut line);
            if !io::stdin().is_terminal() {
                print_line("");
            }
            match (read, line.trim().to_ascii_lowercase().as_str()) {
                (Err(error), _) => return Err(Failure::Text(format!("cannot read the answer: {error}"))),
                (Ok(0), _) => {
                    return Err(Failure::Text(
                        "no answer: nothing was written; for scripts there is --yes".to_owned(),
                    ));
                }
                (Ok(_), "y" | "yes") => return Ok(Answer::Drop),
                (Ok(_), "k" | "keep") if broken.legible.is_some() => return Ok(Answer::Keep),
                (Ok(_), "s" | "stop") => return Ok(Answer::Stop),
                (Ok(_), "a" | "abort") => {
                    return Err(Failure::Text("stopped: nothing was written".to_owned()));
                }
                (Ok(_), _) => print_line(format!("please answer {choices}")),
            }
        }
    }

    fn tell_intact(&self, entries: u64) {
        if self.json {
            print_line(
                json!({ "file": self.file, "written": null, "entries": entries, "broken": [] }).to_string(),
            );
        } else {
            let entries = count(entries, "entry", "entries");
            print_line(format!(
                "{}: nothing is broken ({entries}); nothing was written",
                self.file.display()
            ));
        }
    }

    fn tell(&self, copy: &Copy, decisions: &[Decision]) {
        if Format::of_switch(self.json) == Format::Json {
            return print_line(report(&self.file, copy, decisions).to_string());
        }
        for decision in decisions {
            let Decision { at, until, what, .. } = decision;
            let done = match decision.answer {
                Answer::Drop => "dropped",
                Answer::Keep => "repaired",
                Answer::Stop => "left out with all that follows",
            };
            print_line(format!("{done}: offset {at} to {until}: {what}"));
        }
        let entries = count(copy.entries, "entry", "entries");
        print_line(format!("{entries} written to {}", copy.path.display()));
        for (last, next) in &copy.holes {
            print_line(format!("the new log has a hole: {next} comes directly behind {last}"));
        }
        let file = self.file.display();
        print_error(format!(
            "No server reads the new file under this name. To use it: stop the server, move {file} out of \
             the directory, then give the new file its name."
        ));
    }
}

fn report(file: &Path, copy: &Copy, decisions: &[Decision]) -> Value {
    let broken = decisions.iter().map(|decision| {
        json!({
            "offset": decision.at,
            "until": decision.until,
            "what": decision.what,
            "done": match decision.answer {
                Answer::Drop => "dropped",
                Answer::Keep => "repaired",
                Answer::Stop => "stopped",
            },
            "reads_as": decision.reads_as,
        })
    });
    let holes = copy.holes.iter();
    let holes = holes.map(|(last, next)| json!({ "last": last.to_string(), "next": next.to_string() }));
    json!({
        "file": file,
        "written": copy.path,
        "entries": copy.entries,
        "broken": broken.collect::<Vec<_>>(),
        "holes": holes.collect::<Vec<_>>(),
    })
}

fn decision(broken: &Broken, answer: Answer) -> Decision {
    let legible = broken.legible.as_ref();
    let what = match legible {
        Some(legible) => {
            let zxid = legible.entry.header.zxid;
            format!("{}, {} {zxid}", broken.flaw, entry::type_name(&legible.entry.txn))
        }
        None => broken.flaw.to_string(),
    };
    let reads_as = legible.map(|legible| entry::json(broken.at, &legible.entry, Data::Length).into());
    Decision { at: broken.at, until: broken.until, what, answer, reads_as }
}

impl Copy {
    fn create(original: &Path) -> Result<Copy, Failure> {
        let name = original.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let path = original.with_file_name(format!("{PREFIX}{name}"));
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                Failure::Text(format!("{} exists already; move it away first", path.display()))
            } else {
                Failure::of_file("create", &path, &error)
            }
        })?;
        let mut copy = Copy {
            path,
            file: BufWriter::new(file),
            frame: HEADER.to_vec(),
            entries: 0,
            last: None,
            holes: vec![],
        };
        copy.write_frame()?;
        Ok(copy)
    }

    fn append(&mut self, payload: &[u8]) -> Result<(), Failure> {
        append_payload(payload, &mut self.frame);
        self.write_frame()?;
        self.entries += 1;
        let Some(zxid) = payload_zxid(payload) else { return Ok(()) };
        if let Some(last) = self.last
            && zxid > last
            && !follows(last, zxid)
        {
            self.holes.push((last, zxid));
        }
        self.last = self.last.max(Some(zxid));
        Ok(())
    }

    fn write_frame(&mut self) -> Result<(), Failure> {
        let written = self.file.write_all(&self.frame);
        self.frame.clear();
        written.map_err(|error| Failure::of_file("write", &self.path, &error))
    }

    /// Makes it durable.
    fn finish(&mut self) -> Result<(), Failure> {
        let directory = match self.path.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            _ => Path::new("."),
        };
        let synced = self
            .file
            .flush()
            .and_then(|()| self.file.get_ref().sync_all())
            .and_then(|()| File::open(directory)?.sync_all());
        synced.map_err(|error| Failure::of_file("write", &self.path, &error))
    }

    fn discard(&self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            print_error(format!("cannot remove {}: {error}", self.path.display()));
        }
    }
}
