//! Reads transactions from the logs for a learner that is behind, while the log is being written.
//!
//! The returned entries directly follow the requested zxid, which their zxids prove. A history that cannot be
//! proven is not returned at all. The reader never reads beyond the durable end.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use zebu_proto::Zxid;

use crate::directory::Directories;
use crate::disk::{Access, Disk};
use crate::failure::{During, IoFailure};
use crate::format::log::payload_zxid;
use crate::format::names::NameSpelling;
use crate::format::scan::{LogEnd, LogHeader, LogScanner, ScanItem};
use crate::log_files::{self, LogFile, needed};
use crate::snapshot_file;

/// A transaction as it is in the log, without the log's frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its zxid.
    pub zxid: Zxid,
    /// Header, body and digest.
    pub bytes: Arc<[u8]>,
}

/// Entries directly after `after`, up to `up_to` at most, which must be durable. Returns as many as fit into
/// `bytes_max` and at least one, unless there is nothing after `after`. `None` if the logs do not reach back
/// to `after`, or have a gap. A [`LogReader`] reads more than one batch.
pub fn read_after<D: Disk>(
    disk: &D,
    directories: &Directories,
    after: Zxid,
    up_to: Zxid,
    bytes_max: usize,
) -> Result<Option<Vec<LogEntry>>, IoFailure> {
    LogReader::new(disk.clone(), directories, after).next(up_to, bytes_max)
}

/// The limits for reading the logs for one learner. If it lacks more, a snapshot is cheaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffLimits {
    /// Transactions.
    pub entries: u64,
    /// Bytes of their headers, bodies and digests.
    pub bytes: u64,
}

/// Reads on from a transaction, batch by batch. Each batch begins after the last one.
#[derive(Clone, Debug)]
pub struct LogReader<D> {
    disk: D,
    directories: Directories,
    /// The last zxid that was returned, or the requested one.
    last: Zxid,
    place: LogPosition,
}

/// The position of the next entry.
#[derive(Clone, Debug)]
enum LogPosition {
    /// In the log that may contain `last`; it was not found yet.
    Start,
    /// In this log, after `last`, which was found.
    Behind { log: PathBuf, at: u64 },
}

/// The result of reading one log.
enum ReadOutcome {
    /// Enough was read; reading continues at this offset.
    Enough(u64),
    /// The log ends; reading continues in the next one.
    Ended,
    /// The next entry does not follow.
    Broken,
}

/// The entries that were read.
struct GatheredEntries {
    entries: Vec<LogEntry>,
    bytes: usize,
    last: Zxid,
    /// Whether `last` is proven to be in the history, directly before the next entry.
    met: bool,
}

/// Where a read ends.
#[derive(Clone, Copy)]
struct ReadLimits {
    up_to: Zxid,
    bytes_max: usize,
}

/// Strict: a learner must get exactly the transactions of that time.
fn follows(last: Zxid, zxid: Zxid) -> bool {
    last.next() == Some(zxid) || (zxid.epoch() > last.epoch() && zxid.counter() == 1)
}

impl DiffLimits {
    /// Subtracts the entries. Returns whether they were within the limits.
    fn take(&mut self, entries: &[LogEntry]) -> bool {
        let bytes: u64 = entries.iter().map(|entry| entry.bytes.len() as u64).sum();
        match (self.entries.checked_sub(entries.len() as u64), self.bytes.checked_sub(bytes)) {
            (Some(entries), Some(bytes)) => {
                *self = DiffLimits { entries, bytes };
                true
            }
            _ => false,
        }
    }
}

impl<D: Disk> LogReader<D> {
    /// Starts after `after`. Nothing is read yet.
    pub fn new(disk: D, directories: &Directories, after: Zxid) -> LogReader<D> {
        LogReader { disk, directories: directories.clone(), last: after, place: LogPosition::Start }
    }

    /// The last zxid that was returned, or the requested one.
    pub fn last(&self) -> Zxid {
        self.last
    }

    /// The first zxid of the oldest log. A read behind it may find everything.
    pub fn oldest(&self) -> Result<Option<Zxid>, IoFailure> {
        let logs = log_files::list(&self.disk, &self.directories.logs())?;
        Ok(logs.first().map(|log| log.name.zxid))
    }

    /// The next entries, if those up to `up_to` are complete and within the limits; otherwise `None`. It
    /// reads ahead up to the limits to check that, and keeps only the entries that it returns.
    pub fn begin(
        &mut self,
        up_to: Zxid,
        bytes_max: usize,
        limits: DiffLimits,
    ) -> Result<Option<Vec<LogEntry>>, IoFailure> {
        let Some(first) = self.next(up_to, bytes_max)? else { return Ok(None) };
        let mut left = limits;
        let mut fits = left.take(&first);
        let mut ahead = self.clone();
        while fits && ahead.last < up_to {
            let Some(more) = ahead.next(up_to, bytes_max)? else { return Ok(None) };
            fits = left.take(&more);
        }
        Ok(fits.then_some(first))
    }

    /// The next entries; see [`read_after`]. After `None` it returns `None` again or newly written entries.
    pub fn next(&mut self, up_to: Zxid, bytes_max: usize) -> Result<Option<Vec<LogEntry>>, IoFailure> {
        if up_to <= self.last {
            return Ok((up_to == self.last).then(Vec::new));
        }
        let logs = log_files::list(&self.disk, &self.directories.logs())?;
        let (row, mut start) = match &self.place {
            LogPosition::Start => (needed(&logs, self.last), None),
            LogPosition::Behind { log, at } => {
                // It may have been purged.
                let Some(index) = logs.iter().position(|it| it.path == *log) else { return Ok(None) };
                (&logs[index..], Some(*at))
            }
        };
        let mut gathered =
            GatheredEntries { entries: Vec::new(), bytes: 0, last: self.last, met: start.is_some() };
        let limits = ReadLimits { up_to, bytes_max };
        for log in row {
            let outcome = match self.read_log(log, start.take(), limits, &mut gathered) {
                Ok(outcome) => outcome,
                // Purged since it was listed.
                Err(failure) if failure.source.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(failure) => return Err(failure),
            };
            match outcome {
                ReadOutcome::Ended => {}
                ReadOutcome::Broken => return Ok(None),
                ReadOutcome::Enough(at) => {
                    self.last = gathered.last;
                    self.place = LogPosition::Behind { log: log.path.clone(), at };
                    return Ok(Some(gathered.entries));
                }
            }
        }
        // Durable but missing: damaged since.
        Ok(None)
    }

    fn read_log(
        &self,
        log: &LogFile,
        start: Option<u64>,
        limits: ReadLimits,
        gathered: &mut GatheredEntries,
    ) -> Result<ReadOutcome, IoFailure> {
        let ReadLimits { up_to, bytes_max } = limits;
        let path = &log.path;
        let file = self.disk.open(path, Access::Read).during("open", path)?;
        let (mut scanner, header) = LogScanner::open(&file).during("read", path)?;
        if header != LogHeader::Valid {
            return Ok(ReadOutcome::Broken);
        }
        if let Some(at) = start {
            scanner.continue_at(at);
        }
        loop {
            let entry = match scanner.next_entry().during("read", path)? {
                ScanItem::Entry(entry) => entry,
                ScanItem::End(LogEnd::Clean { .. }) => return Ok(ReadOutcome::Ended),
                ScanItem::End(LogEnd::Torn(_) | LogEnd::Damaged(..)) => return Ok(ReadOutcome::Broken),
            };
            let Some(zxid) = payload_zxid(entry.payload) else { return Ok(ReadOutcome::Broken) };
            if zxid <= gathered.last {
                gathered.met |= zxid == gathered.last;
                continue;
            }
            if zxid > up_to || !self.is_next(zxid, gathered)? {
                return Ok(ReadOutcome::Broken);
            }
            let size = entry.payload.len();
            if !gathered.entries.is_empty() && gathered.bytes + size > bytes_max {
                return Ok(ReadOutcome::Enough(entry.at));
            }
            gathered.entries.push(LogEntry { zxid, bytes: entry.payload.into() });
            gathered.bytes += size;
            gathered.last = zxid;
            gathered.met = true;
            if zxid == up_to || gathered.bytes >= bytes_max {
                return Ok(ReadOutcome::Enough(entry.end));
            }
        }
    }

    /// Whether there is no gap before `zxid`. The next zxid of an epoch proves that by itself. The first of
    /// an epoch needs a transaction that is known to be directly before it.
    fn is_next(&self, zxid: Zxid, gathered: &GatheredEntries) -> Result<bool, IoFailure> {
        if !follows(gathered.last, zxid) {
            return Ok(false);
        }
        // Counter zero is no transaction: its owner may lack transactions of earlier epochs.
        let counted = gathered.last.counter() != 0 || gathered.last == Zxid::ZERO;
        let neighbour = counted && gathered.last.next() == Some(zxid);
        Ok(neighbour || gathered.met || self.is_base(gathered.last)?)
    }

    /// Whether a snapshot ends with `zxid`: then its logs follow it. A purge removes snapshots before the
    /// logs that they need, and the logs were listed before.
    fn is_base(&self, zxid: Zxid) -> Result<bool, IoFailure> {
        let files = snapshot_file::list(&self.disk, &self.directories.snapshots())?;
        Ok(files.iter().any(|file| file.name.zxid == zxid && file.name.spelling == NameSpelling::Canonical))
    }
}
