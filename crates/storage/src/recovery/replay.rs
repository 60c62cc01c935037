//! Replays the logs behind a snapshot: which files, in which order, which entries, and what their ends mean.
//! Plans repairs; changes nothing itself.

use std::path::{Path, PathBuf};

use zebu_proto::txn::{DIGEST_VERSION, TxnEntry};
use zebu_proto::{DecodeError, Zxid};

use super::error::RecoveryError;
use super::repair::Repair;
use super::snapshot::Base;
use super::{
    DigestMismatch, DigestReport, DigestSource, DroppedTail, LoadedSnapshot, Progress, RecoveryTarget,
};
use crate::disk::{Access, Disk};
use crate::failure::During;
use crate::format::durable::DurableNote;
use crate::format::log::payload_zxid;
use crate::format::names::Spelling;
use crate::format::scan::{Damage, LogEnd, LogHeader, LogScanner, RawEntry, Scanned};
use crate::log_files::{LogFile, follows, needed};

/// How many mismatches are reported one by one.
const MISMATCHES_MAX: usize = 16;

/// Whether newer logs exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Newest,
    Older,
}

/// Which digest is compared next.
enum Comparing {
    /// That of every entry.
    Entries,
    /// That of the snapshot, when this transaction has been applied; until then the state is a mixture.
    SnapshotAt(Zxid, i64),
    /// That of the next entry: it decides whether the state really differed from the snapshot's digest. Apache changes
    /// nodes before it notes the digest, so a snapshot that ends in between has a node of the transaction behind.
    Confirming(DigestMismatch),
}

/// What the replay came to.
pub(super) struct Replayed {
    pub(super) last: Zxid,
    /// The log that holds it, and where it ends there; `None` if it is in the snapshot alone.
    pub(super) end: Option<(Zxid, u64)>,
    pub(super) applied: u64,
    pub(super) repeated: u64,
    pub(super) dropped: Vec<DroppedTail>,
    pub(super) digests: DigestReport,
    pub(super) repairs: Vec<Repair>,
    /// The logs that were read.
    pub(super) read: Vec<PathBuf>,
}

pub(super) struct Replay<'a, D> {
    disk: &'a D,
    base: Zxid,
    note: Option<DurableNote>,
    target: &'a mut dyn RecoveryTarget,
    progress: &'a mut dyn FnMut(Progress<'_>),
    comparing: Comparing,
    found: Replayed,
}

impl<'a, D: Disk> Replay<'a, D> {
    pub(super) fn new(
        disk: &'a D,
        base: &Base,
        note: Option<DurableNote>,
        target: &'a mut dyn RecoveryTarget,
        progress: &'a mut dyn FnMut(Progress<'_>),
    ) -> Replay<'a, D> {
        let found = Replayed {
            last: base.zxid,
            end: None,
            applied: 0,
            repeated: 0,
            dropped: Vec::new(),
            digests: DigestReport::default(),
            repairs: Vec::new(),
            read: Vec::new(),
        };
        let mut replay =
            Replay { disk, base: base.zxid, note, target, progress, comparing: Comparing::Entries, found };
        if let Some(snapshot) = &base.snapshot {
            replay.begin_comparing(snapshot);
        }
        replay
    }

    fn begin_comparing(&mut self, snapshot: &LoadedSnapshot) {
        let Some(digest) = &snapshot.summary.digest else { return };
        // Zero: nothing had been applied to the tree. Below the name: the digest is older than the tree.
        if digest.version != DIGEST_VERSION || digest.zxid == Zxid::ZERO || digest.zxid < snapshot.zxid {
            return;
        }
        if digest.zxid == snapshot.zxid {
            self.compare_snapshot(digest.zxid, digest.digest);
        } else {
            self.comparing = Comparing::SnapshotAt(digest.zxid, digest.digest);
        }
    }

    pub(super) fn run(mut self, files: &[LogFile]) -> Result<Replayed, RecoveryError> {
        let files = needed(files, self.base);
        for (index, file) in files.iter().enumerate() {
            let place = if index + 1 == files.len() { Place::Newest } else { Place::Older };
            self.read_log(file, place)?;
            self.found.read.push(file.path.clone());
        }
        if let Comparing::Confirming(mismatch) = self.comparing {
            self.report(mismatch);
        }
        Ok(self.found)
    }

    fn read_log(&mut self, log: &LogFile, place: Place) -> Result<(), RecoveryError> {
        let path = &log.path;
        let file = self.disk.open(path, Access::Read).during("open", path)?;
        let (mut scanner, header) = LogScanner::open(&file).during("read", path)?;
        match header {
            LogHeader::Valid => {}
            LogHeader::Foreign => return Err(RecoveryError::NotALog { path: path.clone() }),
            LogHeader::Unfinished | LogHeader::Zero if place == Place::Newest => {
                self.plan_removal(log);
                return Ok(());
            }
            LogHeader::Unfinished | LogHeader::Zero => {
                return Err(RecoveryError::HeaderLost { path: path.clone() });
            }
        }
        let length = scanner.length();
        let mut entries: u64 = 0;
        let end = loop {
            match scanner.next_entry().during("read", path)? {
                Scanned::Entry(entry) => {
                    self.entry(path, &entry)?;
                    if payload_zxid(entry.payload) == Some(self.found.last) {
                        self.found.end = Some((log.name.zxid, entry.end));
                    }
                    entries += 1;
                    if entries.is_multiple_of(4096) {
                        let (bytes, zxid) = (entry.end, self.found.last);
                        (self.progress)(Progress::Log { path, bytes, length, zxid });
                    }
                }
                Scanned::End(end) => break end,
            }
        };
        self.end_log(log, place, entries, end)
    }

    fn entry(&mut self, path: &Path, raw: &RawEntry<'_>) -> Result<(), RecoveryError> {
        let undecodable = |error| RecoveryError::Undecodable { path: path.to_owned(), at: raw.at, error };
        let Some(zxid) = payload_zxid(raw.payload) else {
            let left = raw.payload.len();
            return Err(undecodable(DecodeError::Short { at: 0, needed: 32, left }));
        };
        if zxid <= self.base {
            return Ok(());
        }
        let last = self.found.last;
        if zxid <= last {
            self.found.repeated += 1;
            return Ok(());
        }
        if !follows(last, zxid) {
            return Err(RecoveryError::Hole { path: path.to_owned(), at: raw.at, last, found: zxid });
        }
        let entry = TxnEntry::decode(raw.payload).map_err(undecodable)?;
        self.target.apply(&entry);
        self.found.applied += 1;
        self.found.last = zxid;
        self.compare_entry(&entry);
        Ok(())
    }

    fn compare_entry(&mut self, entry: &TxnEntry) {
        let zxid = entry.header.zxid;
        match self.comparing {
            Comparing::SnapshotAt(at, _) if zxid < at => {}
            Comparing::SnapshotAt(at, digest) => {
                self.comparing = Comparing::Entries;
                if zxid == at {
                    self.compare_snapshot(zxid, digest);
                }
            }
            Comparing::Entries | Comparing::Confirming(_) => {
                if let Some(digest) = entry.digest.filter(|digest| digest.version == DIGEST_VERSION) {
                    self.compare_log(zxid, digest.tree_digest);
                }
            }
        }
    }

    fn compare_snapshot(&mut self, zxid: Zxid, expected: i64) {
        if let Some(mismatch) = self.compare(zxid, DigestSource::Snapshot, expected) {
            self.comparing = Comparing::Confirming(mismatch);
        }
    }

    fn compare_log(&mut self, zxid: Zxid, expected: i64) {
        let Some(mismatch) = self.compare(zxid, DigestSource::Log, expected) else {
            self.comparing = Comparing::Entries;
            return;
        };
        if let Comparing::Confirming(earlier) = self.comparing {
            self.comparing = Comparing::Entries;
            self.report(earlier);
        }
        self.report(mismatch);
    }

    fn compare(&mut self, zxid: Zxid, source: DigestSource, expected: i64) -> Option<DigestMismatch> {
        let found = self.target.digest()?;
        self.found.digests.compared += 1;
        (found != expected).then_some(DigestMismatch { zxid, source, expected, found })
    }

    fn report(&mut self, mismatch: DigestMismatch) {
        let report = &mut self.found.digests;
        report.mismatched += 1;
        if report.first.len() < MISMATCHES_MAX {
            report.first.push(mismatch);
        }
    }

    fn end_log(
        &mut self,
        log: &LogFile,
        place: Place,
        entries: u64,
        end: LogEnd,
    ) -> Result<(), RecoveryError> {
        let damage = match end {
            LogEnd::Clean { .. } => {
                if entries == 0 && place == Place::Newest {
                    self.plan_removal(log);
                }
                return Ok(());
            }
            LogEnd::Torn(damage) => {
                self.refuse_late_damage(log, &damage)?;
                damage
            }
            LogEnd::Damaged(damage, behind) => {
                if place == Place::Older || !self.is_lost_write(log, &damage) {
                    return Err(RecoveryError::Damaged {
                        path: log.path.clone(),
                        at: damage.at,
                        flaw: damage.flaw,
                        last: damage.last.unwrap_or(self.found.last),
                        next: behind.zxid,
                        next_at: behind.at,
                    });
                }
                damage
            }
        };
        self.found.dropped.push(DroppedTail {
            path: log.path.clone(),
            at: damage.at,
            flaw: damage.flaw,
            kept: self.found.last,
            claimed: damage.claimed,
        });
        if entries == 0 && place == Place::Newest {
            self.plan_removal(log);
        } else {
            self.found.repairs.push(Repair::Cut { path: log.path.clone(), length: damage.at });
        }
        Ok(())
    }

    /// Whoever began a later log and noted it had cut a torn end of this one off before. An end that is torn now
    /// was damaged since, and what it held may have been acknowledged: the next log may begin an epoch, so that
    /// no hole in the numbers tells.
    fn refuse_late_damage(&self, log: &LogFile, damage: &Damage) -> Result<(), RecoveryError> {
        let Some(note) = self.note.filter(|note| note.log > log.name.zxid) else { return Ok(()) };
        let logs = log.path.parent().unwrap_or(Path::new(""));
        Err(RecoveryError::DurableLost {
            path: log.path.clone(),
            offset: damage.at,
            noted: note.zxid,
            last: self.found.last,
            note: logs.join(crate::format::durable::NAME),
        })
    }

    /// Whether valid entries behind damage are the rest of a batch that was never acknowledged: a disk may
    /// write the sectors of one unsynced batch in any order. Only where the log is ours, behind everything
    /// that was noted as durable, and with a whole sector missing. Without a note it is damage.
    fn is_lost_write(&self, log: &LogFile, damage: &Damage) -> bool {
        let behind_durable =
            self.note.is_some_and(|note| note.log == log.name.zxid && damage.at >= note.offset);
        behind_durable && log.name.spelling == Spelling::Canonical && damage.blank_sector.is_some()
    }

    /// A newest log without entries would be taken for history by Apache, or stop it.
    fn plan_removal(&mut self, log: &LogFile) {
        if log.name.spelling == Spelling::Canonical {
            self.found.repairs.push(Repair::Remove { path: log.path.clone() });
        }
    }
}
