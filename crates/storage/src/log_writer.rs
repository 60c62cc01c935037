//! The transaction log's writer, for the one thread that owns the disk: append a complete batch, then sync
//! once.
//!
//! A log file gets its name only when its header is durable. The bytes after the last entry are zero. After
//! an error nothing more is written: the system may have dropped the failed bytes, so that a later successful
//! sync would prove nothing.

use std::path::{Path, PathBuf};

use zebu_proto::Zxid;

use crate::disk::{Access, Disk, DiskFile};
use crate::failure::{During, IoFailure};
use crate::format::log::{HEADER, HEADER_SIZE};
use crate::format::names::{log_name, log_temporary_name, parse_snapshot};
use crate::format::scan::{LogEnd, LogHeader, LogScanner, ScanItem};
use crate::sync_watermark::SyncWatermarkFile;

/// Zeros are written in pieces of this size.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Whether a sync reaches the disk (`forceSync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ForceSync {
    /// It does: acknowledged writes survive a power failure.
    #[default]
    Yes,
    /// It does not: a power failure loses the dirty pages of the system.
    No,
}

/// Whether the sync watermark in `zebu.durable` is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SyncWatermarks {
    /// It is, so that recovery can tell a torn tail from a lost transaction.
    #[default]
    Keep,
    /// It is not.
    Off,
}

/// The options of the log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The directory of the logs.
    pub logs: PathBuf,
    /// The directory of the snapshots: without one, ZooKeeper refuses a directory that has logs.
    pub snapshots: PathBuf,
    /// Bytes of zeros that are written ahead at a time (`preAllocSize`); zero for none.
    pub preallocate: u64,
    /// A log that has more bytes than this after a sync is rolled (`txnLogSizeLimitInKb`).
    pub size_max: Option<u64>,
    /// Whether a sync reaches the disk.
    pub force_sync: ForceSync,
    /// Whether the sync watermark is written.
    pub notes: SyncWatermarks,
}

impl LogOptions {
    /// ZooKeeper's defaults, except that zeros are preallocated in steps of 256 KiB: they are really written,
    /// and a batch waits for them.
    pub fn new(logs: impl Into<PathBuf>, snapshots: impl Into<PathBuf>) -> LogOptions {
        LogOptions {
            logs: logs.into(),
            snapshots: snapshots.into(),
            preallocate: 256 * 1024,
            size_max: None,
            force_sync: ForceSync::Yes,
            notes: SyncWatermarks::Keep,
        }
    }
}

/// Why the log was not written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk failed, now.
    #[error(
        "the transaction log cannot be written: {0}; nothing that waits for it may be acknowledged, the \
         server must stop; free or repair the disk, then start it again"
    )]
    Io(#[from] IoFailure),
    /// The disk failed, earlier.
    #[error("the transaction log is not written any more since an earlier error: {0}")]
    Poisoned(String),
    /// Transactions that do not follow the written ones.
    #[error("transactions {first} to {last} cannot be appended behind {written}: they must be later")]
    OutOfOrder {
        /// First of the batch.
        first: Zxid,
        /// Last of the batch.
        last: Zxid,
        /// Last that was written.
        written: Zxid,
    },
    /// A log of that name has transactions.
    #[error(
        "{} exists and holds transactions; it is not overwritten: the directory is not what recovery has \
         seen, stop the server and look who else writes to it",
        .0.display()
    )]
    Occupied(PathBuf),
    /// There is no snapshot.
    #[error("{} has no snapshot, and Apache ZooKeeper refuses logs without one; write snapshot.0 first",
        .0.display())]
    NoSnapshot(PathBuf),
}

/// The log that is being written.
#[derive(Debug)]
struct OpenLog<F> {
    file: F,
    path: PathBuf,
    first: Zxid,
    /// The offset of the next entry.
    end: u64,
    /// The allocated length of the file.
    allocated: u64,
    durable_end: u64,
}

#[derive(Debug)]
enum LogWriterState<F> {
    /// The next batch opens a log.
    Idle,
    Open(OpenLog<F>),
    Poisoned(String),
}

/// Writes the transaction log.
#[derive(Debug)]
pub struct LogWriter<D: Disk> {
    disk: D,
    options: LogOptions,
    state: LogWriterState<D::File>,
    notes: Option<SyncWatermarkFile<D::File>>,
    written: Zxid,
    durable: Zxid,
}

impl<D: Disk> LogWriter<D> {
    /// Starts after `last`, the last zxid that recovery has found. No log is created before the first batch;
    /// a snapshot must exist.
    pub fn open(disk: D, options: LogOptions, last: Zxid) -> Result<LogWriter<D>, LogError> {
        let names = disk.list(&options.snapshots).during("list", &options.snapshots)?;
        if !names.iter().any(|name| parse_snapshot(name).is_some()) {
            return Err(LogError::NoSnapshot(options.snapshots));
        }
        Ok(LogWriter {
            disk,
            options,
            state: LogWriterState::Idle,
            notes: None,
            written: last,
            durable: last,
        })
    }

    /// The last transaction that was appended.
    pub fn written(&self) -> Zxid {
        self.written
    }

    /// The last transaction that may be acknowledged.
    pub fn durable(&self) -> Zxid {
        self.durable
    }

    /// Bytes of the current log that hold entries, its header included; zero when there is none.
    pub fn size(&self) -> u64 {
        match &self.state {
            LogWriterState::Open(log) => log.end,
            LogWriterState::Idle | LogWriterState::Poisoned(_) => 0,
        }
    }

    /// Appends framed entries, from `first` to `last`. They are not durable yet.
    pub fn append(&mut self, first: Zxid, last: Zxid, entries: &[u8]) -> Result<(), LogError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.guarded(|writer| {
            if first <= writer.written || last < first {
                return Err(LogError::OutOfOrder { first, last, written: writer.written });
            }
            if !matches!(writer.state, LogWriterState::Open(_)) {
                writer.state = LogWriterState::Open(writer.create(first)?);
            }
            let preallocate = writer.options.preallocate;
            let LogWriterState::Open(log) = &mut writer.state else { unreachable!("opened above") };
            log.append(entries, preallocate)?;
            writer.written = last;
            Ok(())
        })
    }

    /// Makes all appended entries durable and returns the last durable zxid. Rolls a log that is longer than
    /// its limit.
    pub fn sync(&mut self) -> Result<Zxid, LogError> {
        self.guarded(|writer| {
            writer.sync_log()?;
            if let (LogWriterState::Open(log), Some(size_max)) = (&writer.state, writer.options.size_max)
                && log.end > size_max
            {
                writer.finish_log()?;
            }
            Ok(writer.durable)
        })
    }

    /// Ends the current log; the next batch begins another. For snapshots.
    pub fn roll(&mut self) -> Result<(), LogError> {
        self.guarded(|writer| {
            writer.sync_log()?;
            writer.finish_log()
        })
    }

    /// Syncs and ends. Dropping a writer does neither.
    pub fn close(mut self) -> Result<Zxid, LogError> {
        self.roll()?;
        Ok(self.durable)
    }

    /// Runs an operation; after any error nothing more is written.
    fn guarded<T>(
        &mut self,
        operation: impl FnOnce(&mut Self) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        if let LogWriterState::Poisoned(reason) = &self.state {
            return Err(LogError::Poisoned(reason.clone()));
        }
        let result = operation(self);
        if let Err(error) = &result {
            self.state = LogWriterState::Poisoned(error.to_string());
        }
        result
    }

    fn sync_log(&mut self) -> Result<(), LogError> {
        let LogWriterState::Open(log) = &mut self.state else { return Ok(()) };
        if log.durable_end == log.end {
            return Ok(());
        }
        if self.options.force_sync == ForceSync::Yes {
            log.file.sync_data().during("sync", &log.path)?;
            if let Some(notes) = &mut self.notes {
                notes.note(log.first, log.end, self.written)?;
            }
        }
        log.durable_end = log.end;
        self.durable = self.written;
        Ok(())
    }

    fn finish_log(&mut self) -> Result<(), LogError> {
        if let LogWriterState::Open(_) = &self.state {
            self.state = LogWriterState::Idle;
            if let Some(notes) = &self.notes {
                notes.sync()?;
            }
        }
        Ok(())
    }

    /// Creates a log: header under a temporary name, sync, rename, sync of the directory.
    fn create(&mut self, first: Zxid) -> Result<OpenLog<D::File>, LogError> {
        let logs = &self.options.logs;
        let path = logs.join(log_name(first));
        self.refuse_occupied(&path)?;
        let temporary = logs.join(log_temporary_name(first));
        let file = self.disk.create(&temporary).during("create", &temporary)?;
        file.write_at(0, &HEADER).during("write", &temporary)?;
        let header = HEADER_SIZE as u64;
        let mut log = OpenLog { file, path, first, end: header, allocated: header, durable_end: header };
        log.preallocate(0, self.options.preallocate)?;
        log.file.sync_all().during("sync", &temporary)?;
        self.disk.rename(&temporary, &log.path).during("rename", &temporary)?;
        self.disk.sync_directory(logs).during("sync", logs)?;
        if self.options.notes == SyncWatermarks::Keep && self.options.force_sync == ForceSync::Yes {
            // Durable before the first entry: recovery trusts a sync watermark only for the log that it
            // names.
            let mut notes = match self.notes.take() {
                Some(notes) => notes,
                None => SyncWatermarkFile::open(&self.disk, logs, first, header, self.durable)?,
            };
            notes.note(first, header, self.durable)?;
            notes.sync()?;
            self.notes = Some(notes);
        }
        Ok(log)
    }

    /// A log without entries may be replaced; one with entries is a history.
    fn refuse_occupied(&self, path: &Path) -> Result<(), LogError> {
        if !self.disk.exists(path).during("look for", path)? {
            return Ok(());
        }
        let file = self.disk.open(path, Access::Read).during("open", path)?;
        let (mut scanner, header) = LogScanner::open(&file).during("read", path)?;
        match header {
            LogHeader::Unfinished | LogHeader::Zero => Ok(()),
            LogHeader::Foreign => Err(LogError::Occupied(path.to_owned())),
            LogHeader::Valid => match scanner.next_entry().during("read", path)? {
                ScanItem::Entry(_) | ScanItem::End(LogEnd::Damaged(..)) => {
                    Err(LogError::Occupied(path.to_owned()))
                }
                ScanItem::End(LogEnd::Clean { .. } | LogEnd::Torn(_)) => Ok(()),
            },
        }
    }
}

impl<F: DiskFile> OpenLog<F> {
    fn append(&mut self, entries: &[u8], preallocate: u64) -> Result<(), IoFailure> {
        self.preallocate(entries.len() as u64, preallocate)?;
        self.file.write_at(self.end, entries).during("append to", &self.path)?;
        self.end += entries.len() as u64;
        self.allocated = self.allocated.max(self.end);
        Ok(())
    }

    /// Writes zeros ahead when the next `needed` bytes would reach the end of the file. A sync then has no
    /// new length and no new blocks to record.
    fn preallocate(&mut self, needed: u64, step: u64) -> Result<(), IoFailure> {
        if step == 0 || self.end + needed < self.allocated {
            return Ok(());
        }
        let target = self.end + needed + step;
        let mut at = self.allocated.max(self.end + needed);
        while at < target {
            let count = (target - at).min(ZEROS.len() as u64);
            self.file.write_at(at, &ZEROS[..count as usize]).during("extend", &self.path)?;
            at += count;
        }
        self.allocated = target;
        Ok(())
    }
}
