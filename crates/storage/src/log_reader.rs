//! Reads transactions back from the logs for a learner that is behind, while the log goes on being written.
//!
//! What it hands out follows directly on what was asked for, proven by the numbers; a history that cannot be
//! proven is not handed out at all. It never reads beyond what is durable.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use zebu_proto::Zxid;

use crate::directory::Directories;
use crate::disk::{Access, Disk};
use crate::failure::{During, IoFailure};
use crate::format::log::payload_zxid;
use crate::format::names::Spelling;
use crate::format::scan::{LogEnd, LogHeader, LogScanner, Scanned};
use crate::log_files::{self, LogFile, needed};
use crate::snapshot_file;

/// A transaction as it stands in the log, without the log's frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its place.
    pub zxid: Zxid,
    /// Header, body and digest.
    pub bytes: Arc<[u8]>,
}

/// Entries directly behind `after`, up to `up_to` at most, which must be durable: as many as fit into
/// `bytes_max` and at least one, unless there is nothing behind `after`. `None` if the logs do not reach
/// back to `after`, or not without a hole. Whoever reads on uses a [`LogReader`].
pub fn read_after<D: Disk>(
    disk: &D,
    directories: &Directories,
    after: Zxid,
    up_to: Zxid,
    bytes_max: usize,
) -> Result<Option<Vec<LogEntry>>, IoFailure> {
    LogReader::new(disk.clone(), directories, after).next(up_to, bytes_max)
}

/// How much of the logs may be read for one learner. If it lacks more, a snapshot is cheaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffLimits {
    /// Transactions.
    pub entries: u64,
    /// Bytes of their headers, bodies and digests.
    pub bytes: u64,
}

/// Reads on from a transaction, piece by piece. Each piece begins where the last one ended.
#[derive(Clone, Debug)]
pub struct LogReader<D> {
    disk: D,
    directories: Directories,
    /// The last transaction that was handed out, or the one that was asked for.
    last: Zxid,
    place: Place,
}

/// Where the next entry is looked for.
#[derive(Clone, Debug)]
enum Place {
    /// In the log that may hold `last`; it has not been met.
    Start,
    /// In this log, behind `last`, which was met.
    Behind { log: PathBuf, at: u64 },
}

/// What became of one log.
enum Outcome {
    /// Enough was read; here it goes on.
    Enough(u64),
    /// The log ends; it goes on in the next one.
    Ended,
    /// What was found does not follow.
    Broken,
}

/// What has been gathered.
struct Gathered {
    entries: Vec<LogEntry>,
    bytes: usize,
    last: Zxid,
    /// Whether `last` is proven to be in the history, directly before what comes next.
    met: bool,
}

/// Strict: what a learner gets must be what it would have got at that time.
fn follows(last: Zxid, zxid: Zxid) -> bool {
    last.next() == Some(zxid) || (zxid.epoch() > last.epoch() && zxid.counter() == 1)
}

impl DiffLimits {
    /// Subtracts what was read. Returns whether it was within the limits.
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
    /// Starts behind `after`. Nothing is read yet.
    pub fn new(disk: D, directories: &Directories, after: Zxid) -> LogReader<D> {
        LogReader { disk, directories: directories.clone(), last: after, place: Place::Start }
    }

    /// The last transaction that was handed out, or the one that was asked for.
    pub fn last(&self) -> Zxid {
        self.last
    }

    /// The next entries, if those up to `up_to` are all there and within the limits; otherwise `None`. It reads ahead
    /// to find that out, up to the limits, and keeps only the entries that it returns.
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

    /// The next entries; see [`read_after`]. After `None` it stays at `None` or finds what was written since.
    pub fn next(&mut self, up_to: Zxid, bytes_max: usize) -> Result<Option<Vec<LogEntry>>, IoFailure> {
        if up_to <= self.last {
            return Ok((up_to == self.last).then(Vec::new));
        }
        let logs = log_files::list(&self.disk, &self.directories.logs())?;
        let (row, mut start) = match &self.place {
            Place::Start => (needed(&logs, self.last), None),
            Place::Behind { log, at } => {
                // It may have been purged.
                let Some(index) = logs.iter().position(|it| it.path == *log) else { return Ok(None) };
                (&logs[index..], Some(*at))
            }
        };
        let mut gathered = Gathered { entries: Vec::new(), bytes: 0, last: self.last, met: start.is_some() };
        for log in row {
            let outcome = match self.read_log(log, start.take(), up_to, bytes_max, &mut gathered) {
                Ok(outcome) => outcome,
                // Purged since it was listed.
                Err(failure) if failure.source.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(failure) => return Err(failure),
            };
            match outcome {
                Outcome::Ended => {}
                Outcome::Broken => return Ok(None),
                Outcome::Enough(at) => {
                    self.last = gathered.last;
                    self.place = Place::Behind { log: log.path.clone(), at };
                    return Ok(Some(gathered.entries));
                }
            }
        }
        // Durable, and yet not there: damaged since.
        Ok(None)
    }

    fn read_log(
        &self,
        log: &LogFile,
        start: Option<u64>,
        up_to: Zxid,
        bytes_max: usize,
        gathered: &mut Gathered,
    ) -> Result<Outcome, IoFailure> {
        let path = &log.path;
        let file = self.disk.open(path, Access::Read).during("open", path)?;
        let (mut scanner, header) = LogScanner::open(&file).during("read", path)?;
        if header != LogHeader::Valid {
            return Ok(Outcome::Broken);
        }
        if let Some(at) = start {
            scanner.continue_at(at);
        }
        loop {
            let entry = match scanner.next_entry().during("read", path)? {
                Scanned::Entry(entry) => entry,
                Scanned::End(LogEnd::Clean { .. }) => return Ok(Outcome::Ended),
                Scanned::End(LogEnd::Torn(_) | LogEnd::Damaged(..)) => return Ok(Outcome::Broken),
            };
            let Some(zxid) = payload_zxid(entry.payload) else { return Ok(Outcome::Broken) };
            if zxid <= gathered.last {
                gathered.met |= zxid == gathered.last;
                continue;
            }
            if zxid > up_to || !self.is_next(zxid, gathered)? {
                return Ok(Outcome::Broken);
            }
            let size = entry.payload.len();
            if !gathered.entries.is_empty() && gathered.bytes + size > bytes_max {
                return Ok(Outcome::Enough(entry.at));
            }
            gathered.entries.push(LogEntry { zxid, bytes: entry.payload.into() });
            gathered.bytes += size;
            gathered.last = zxid;
            gathered.met = true;
            if zxid == up_to || gathered.bytes >= bytes_max {
                return Ok(Outcome::Enough(entry.end));
            }
        }
    }

    /// Whether nothing is missing before `zxid`. The next number of an epoch proves that by itself; the
    /// first of an epoch only behind a transaction that is known to be the one before.
    fn is_next(&self, zxid: Zxid, gathered: &Gathered) -> Result<bool, IoFailure> {
        if !follows(gathered.last, zxid) {
            return Ok(false);
        }
        // Counter zero is no transaction: nobody can say what its owner has of the epochs before.
        let counted = gathered.last.counter() != 0 || gathered.last == Zxid::ZERO;
        let neighbour = counted && gathered.last.next() == Some(zxid);
        Ok(neighbour || gathered.met || self.is_base(gathered.last)?)
    }

    /// Whether a snapshot ends with `zxid`: then its logs follow on it. A purge removes snapshots before the
    /// logs that they need, and the logs were listed before.
    fn is_base(&self, zxid: Zxid) -> Result<bool, IoFailure> {
        let files = snapshot_file::list(&self.disk, &self.directories.snapshots())?;
        Ok(files.iter().any(|file| file.name.zxid == zxid && file.name.spelling == Spelling::Canonical))
    }
}
