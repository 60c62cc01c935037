//! Replays the logs after a snapshot: selects files and entries, and classifies the ends of logs. Plans
//! repairs; changes nothing itself.

use std::path::{Path, PathBuf};

use zebu_proto::txn::{DIGEST_VERSION, TxnEntry};
use zebu_proto::{DecodeError, Zxid};

use super::error::RecoveryError;
use super::repair::RecoveryRepair;
use super::snapshot::SnapshotBase;
use super::{
    DigestMismatch, DigestReport, DigestSource, DroppedTail, LoadedSnapshot, RecoveryProgress, RecoveryTarget,
};
use crate::disk::{Access, Disk};
use crate::failure::During;
use crate::format::durable::SyncWatermark;
use crate::format::log::payload_zxid;
use crate::format::names::NameSpelling;
use crate::format::scan::{LogDamage, LogEnd, LogHeader, LogScanner, RawEntry, ScanItem};
use crate::log_files::{LogFile, follows, needed};

/// How many mismatches are reported one by one.
const MISMATCHES_MAX: usize = 16;

/// Whether newer logs exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplayPosition {
    Newest,
    Older,
}

/// The next digest to compare.
enum DigestComparison {
    /// That of every entry.
    Entries,
    /// That of the snapshot, when this transaction has been applied; until then the state is fuzzy.
    SnapshotAt(Zxid, i64),
    /// That of the next entry: it shows whether the state really differed from the snapshot's digest.
    /// ZooKeeper changes nodes before it records the digest. A snapshot that ends in between contains a node
    /// of the next transaction.
    Confirming(DigestMismatch),
}

/// The result of the replay.
pub(super) struct ReplayResult {
    pub(super) last: Zxid,
    /// The log with the last transaction, and its end there; `None` if it is in the snapshot alone.
    pub(super) end: Option<(Zxid, u64)>,
    pub(super) applied: u64,
    pub(super) repeated: u64,
    pub(super) dropped: Vec<DroppedTail>,
    pub(super) digests: DigestReport,
    pub(super) repairs: Vec<RecoveryRepair>,
    /// The logs that were read.
    pub(super) read: Vec<PathBuf>,
}

pub(super) struct LogReplay<'a, D> {
    disk: &'a D,
    base: Zxid,
    note: Option<SyncWatermark>,
    target: &'a mut dyn RecoveryTarget,
    progress: &'a mut dyn FnMut(RecoveryProgress<'_>),
    comparing: DigestComparison,
    found: ReplayResult,
}

impl<'a, D: Disk> LogReplay<'a, D> {
    pub(super) fn new(
        disk: &'a D,
        base: &SnapshotBase,
        note: Option<SyncWatermark>,
        target: &'a mut dyn RecoveryTarget,
        progress: &'a mut dyn FnMut(RecoveryProgress<'_>),
    ) -> LogReplay<'a, D> {
        let found = ReplayResult {
            last: base.zxid,
            end: None,
            applied: 0,
            repeated: 0,
            dropped: Vec::new(),
            digests: DigestReport::default(),
            repairs: Vec::new(),
            read: Vec::new(),
        };
        let mut replay = LogReplay {
            disk,
            base: base.zxid,
            note,
            target,
            progress,
            comparing: DigestComparison::Entries,
            found,
        };
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
            self.comparing = DigestComparison::SnapshotAt(digest.zxid, digest.digest);
        }
    }

    pub(super) fn run(mut self, files: &[LogFile]) -> Result<ReplayResult, RecoveryError> {
        let files = needed(files, self.base);
        for (index, file) in files.iter().enumerate() {
            let place = if index + 1 == files.len() { ReplayPosition::Newest } else { ReplayPosition::Older };
            self.read_log(file, place)?;
            self.found.read.push(file.path.clone());
        }
        if let DigestComparison::Confirming(mismatch) = self.comparing {
            self.report(mismatch);
        }
        Ok(self.found)
    }

    fn read_log(&mut self, log: &LogFile, place: ReplayPosition) -> Result<(), RecoveryError> {
        let path = &log.path;
        let file = self.disk.open(path, Access::Read).during("open", path)?;
        let (mut scanner, header) = LogScanner::open(&file).during("read", path)?;
        match header {
            LogHeader::Valid => {}
            LogHeader::Foreign => return Err(RecoveryError::NotALog { path: path.clone() }),
            LogHeader::Unfinished | LogHeader::Zero if place == ReplayPosition::Newest => {
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
                ScanItem::Entry(entry) => {
                    self.entry(path, &entry)?;
                    if payload_zxid(entry.payload) == Some(self.found.last) {
                        self.found.end = Some((log.name.zxid, entry.end));
                    }
                    entries += 1;
                    if entries.is_multiple_of(4096) {
                        let (bytes, zxid) = (entry.end, self.found.last);
                        (self.progress)(RecoveryProgress::Log { path, bytes, length, zxid });
                    }
                }
                ScanItem::End(end) => break end,
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
            DigestComparison::SnapshotAt(at, _) if zxid < at => {}
            DigestComparison::SnapshotAt(at, digest) => {
                self.comparing = DigestComparison::Entries;
                if zxid == at {
                    self.compare_snapshot(zxid, digest);
                }
            }
            DigestComparison::Entries | DigestComparison::Confirming(_) => {
                if let Some(digest) = entry.digest.filter(|digest| digest.version == DIGEST_VERSION) {
                    self.compare_log(zxid, digest.tree_digest);
                }
            }
        }
    }

    fn compare_snapshot(&mut self, zxid: Zxid, expected: i64) {
        if let Some(mismatch) = self.compare(zxid, DigestSource::Snapshot, expected) {
            self.comparing = DigestComparison::Confirming(mismatch);
        }
    }

    fn compare_log(&mut self, zxid: Zxid, expected: i64) {
        let Some(mismatch) = self.compare(zxid, DigestSource::Log, expected) else {
            self.comparing = DigestComparison::Entries;
            return;
        };
        if let DigestComparison::Confirming(earlier) = self.comparing {
            self.comparing = DigestComparison::Entries;
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
        place: ReplayPosition,
        entries: u64,
        end: LogEnd,
    ) -> Result<(), RecoveryError> {
        let damage = match end {
            LogEnd::Clean { .. } => {
                if entries == 0 && place == ReplayPosition::Newest {
                    self.plan_removal(log);
                }
                return Ok(());
            }
            LogEnd::Torn(damage) => {
                self.refuse_late_damage(log, &damage)?;
                damage
            }
            LogEnd::Damaged(damage, behind) => {
                if place == ReplayPosition::Older || !self.is_lost_write(log, &damage) {
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
        if entries == 0 && place == ReplayPosition::Newest {
            self.plan_removal(log);
        } else {
            self.found.repairs.push(RecoveryRepair::Cut { path: log.path.clone(), length: damage.at });
        }
        Ok(())
    }

    /// A server that began a later log and wrote its watermark had truncated a torn end of this one before.
    /// An end that is torn now was damaged since, and may have held acknowledged transactions. The next log
    /// may begin an epoch, so that no gap in the zxids shows the loss.
    fn refuse_late_damage(&self, log: &LogFile, damage: &LogDamage) -> Result<(), RecoveryError> {
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

    /// Whether valid entries after damage are the remainder of a batch that was never acknowledged. A disk
    /// may write the sectors of one unsynced batch in any order. This applies only to a log that Zebu has
    /// written, after its sync watermark, and with a complete sector missing. Without a watermark it is
    /// damage.
    fn is_lost_write(&self, log: &LogFile, damage: &LogDamage) -> bool {
        let behind_durable =
            self.note.is_some_and(|note| note.log == log.name.zxid && damage.at >= note.offset);
        behind_durable && log.name.spelling == NameSpelling::Canonical && damage.blank_sector.is_some()
    }

    /// ZooKeeper would take a newest log without entries for history, or refuse to start.
    fn plan_removal(&mut self, log: &LogFile) {
        if log.name.spelling == NameSpelling::Canonical {
            self.found.repairs.push(RecoveryRepair::Remove { path: log.path.clone() });
        }
    }
}
