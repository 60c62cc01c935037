//! The only owner of a server's transaction log and epoch files. It appends batches, syncs them together, and
//! executes the disk commands of Zab in between.
//!
//! A failed write or sync is never retried: the kernel may have dropped the pages, and a second sync would
//! succeed without them. The process ends instead, which is always safe.

use zebu_node::{AfterAppend, LogBatch, Restore};
use zebu_proto::Zxid;
use zebu_proto::txn::TxnEntry;
use zebu_storage::{
    Directories, Disk, Epochs, LogOptions, LogWriter, ReceivedSnapshot, RecoveryOptions, SnapshotInstall,
    TruncateError, quarantine, recover, truncate, trust,
};
use zebu_tree::{Tree, TreeOptions, WalkProgress};
use zebu_zab::{DiskCommand, EncodedTxn, IoId, PeerEvent};

use crate::disk_error::DiskError;
use crate::restored_state::{InstallableState, RestoredState};
use crate::snapshot_store::SnapshotStore;

/// Settings for writing files and loading the state.
#[derive(Clone, Debug)]
pub struct DiskSettings {
    /// Options of the transaction log.
    pub log: LogOptions,
    /// Options of a tree that is loaded from the disk.
    pub tree: TreeOptions,
    /// Batches are joined up to about this many bytes for one write; several writes may share a sync.
    pub write_bytes: usize,
}

/// The appends of one sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// The last append of an ensemble member; a standalone server has none.
    pub io: Option<IoId>,
    /// The zxid of the last transaction.
    pub last: Zxid,
    /// The number of transactions.
    pub transactions: u64,
    /// The bytes of the transactions.
    pub bytes: usize,
}

/// The outcome of a disk command.
#[derive(Debug)]
pub enum DiskOutcome {
    /// An epoch or the trust mark is written.
    Saved {
        /// The id of the command.
        io: IoId,
    },
    /// The truncation was refused: the log has no such transaction. Nothing was changed.
    TruncateRefused {
        /// The id of the command.
        io: IoId,
    },
    /// The log was truncated.
    Truncated {
        /// The id of the command.
        io: IoId,
        /// The last transaction of the log after the truncation.
        to: Zxid,
        /// The last transaction of the log before the truncation.
        before: Zxid,
        /// The reloaded state, if the state in memory contained truncated transactions.
        tree: Option<Box<Tree>>,
    },
    /// A received snapshot was installed.
    Installed {
        /// The id of the command.
        io: IoId,
        /// The last transaction of the state.
        zxid: Zxid,
        /// The installed state.
        tree: Box<Tree>,
    },
    /// The files were quarantined.
    Quarantined {
        /// The id of the command.
        io: IoId,
        /// The number of the quarantine directory.
        number: u32,
        /// The empty state.
        tree: Box<Tree>,
    },
}

/// A restored state that is on the disk.
#[derive(Debug)]
pub struct InstalledState {
    /// The tree.
    pub tree: Box<Tree>,
    /// Its last transaction.
    pub zxid: Zxid,
    /// The sessions that were ended.
    pub ended_sessions: usize,
}

/// The outcome of [`DiskWorker::restore`].
#[derive(Debug)]
pub enum RestoreOutcome {
    /// All files are replaced.
    Installed(InstalledState),
    /// The new state could not be written. The files are those before.
    Unchanged(DiskError),
}

/// An event of the disk for the node.
#[derive(Debug)]
pub enum DiskEvent {
    /// The log of a standalone server is durable up to this transaction.
    Synced(Zxid),
    /// An event for the Zab peer.
    Peer(PeerEvent),
    /// A command was executed and replaces the state.
    TreeReplaced {
        /// The id of the command.
        io: IoId,
        /// The new state.
        tree: Box<Tree>,
    },
}

impl From<Synced> for DiskEvent {
    fn from(synced: Synced) -> DiskEvent {
        match synced.io {
            Some(io) => DiskEvent::Peer(PeerEvent::Persisted { io }),
            None => DiskEvent::Synced(synced.last),
        }
    }
}

impl From<DiskOutcome> for DiskEvent {
    fn from(outcome: DiskOutcome) -> DiskEvent {
        match outcome {
            DiskOutcome::Saved { io } | DiskOutcome::Truncated { io, tree: None, .. } => {
                DiskEvent::Peer(PeerEvent::Persisted { io })
            }
            DiskOutcome::TruncateRefused { io } => DiskEvent::Peer(PeerEvent::TruncateRefused { io }),
            DiskOutcome::Truncated { io, tree: Some(tree), .. }
            | DiskOutcome::Installed { io, tree, .. }
            | DiskOutcome::Quarantined { io, tree, .. } => DiskEvent::TreeReplaced { io, tree },
        }
    }
}

/// Owns the log and the epoch files of a server.
pub struct DiskWorker<D: Disk> {
    disk: D,
    directories: Directories,
    settings: DiskSettings,
    snapshots: SnapshotStore<D>,
    /// None only while an ensemble member has no data. The first append opens the log.
    log: Option<LogWriter<D>>,
    /// None for a standalone server.
    epochs: Option<Epochs>,
    /// Batches that go into the same file and are not written yet.
    joined: Option<LogBatch>,
    /// The appends since the last sync.
    unsynced: Synced,
}

impl<D: Disk> DiskWorker<D> {
    /// Creates a worker for files that startup has opened.
    pub fn new(
        directories: Directories,
        settings: DiskSettings,
        snapshots: SnapshotStore<D>,
        log: Option<LogWriter<D>>,
        epochs: Option<Epochs>,
    ) -> DiskWorker<D> {
        let (disk, joined, unsynced) = (snapshots.disk().clone(), None, Synced::default());
        DiskWorker { disk, directories, settings, snapshots, log, epochs, joined, unsynced }
    }

    /// Appends a batch. [`DiskWorker::sync`] writes it at the latest and makes it durable.
    pub fn append(&mut self, io: Option<IoId>, batch: LogBatch) -> Result<(), DiskError> {
        self.unsynced.io = io;
        self.unsynced.last = batch.last;
        self.unsynced.transactions += batch.transactions;
        self.unsynced.bytes += batch.bytes.len();
        let rolls = batch.after == AfterAppend::RollAndSnapshot;
        let joined_bytes = self.join(batch);
        if rolls || joined_bytes >= self.settings.write_bytes {
            self.write_joined()?;
        }
        if rolls && let Some(log) = &mut self.log {
            log.roll()?;
        }
        Ok(())
    }

    /// Adds a batch to those that are written together. Returns their bytes.
    fn join(&mut self, batch: LogBatch) -> usize {
        match &mut self.joined {
            None => self.joined.insert(batch).bytes.len(),
            Some(joined) => {
                joined.bytes.extend_from_slice(&batch.bytes);
                joined.last = batch.last;
                joined.bytes.len()
            }
        }
    }

    /// Writes the joined batches.
    pub fn write_joined(&mut self) -> Result<(), DiskError> {
        let Some(joined) = self.joined.take() else { return Ok(()) };
        let log = match &mut self.log {
            Some(log) => log,
            None => {
                assert!(self.epochs.is_some(), "a standalone server opens its log before it starts");
                let log = self.open_log(Zxid::ZERO)?;
                self.log.insert(log)
            }
        };
        Ok(log.append(joined.first, joined.last, &joined.bytes)?)
    }

    /// Makes all appends durable.
    pub fn sync(&mut self) -> Result<Synced, DiskError> {
        self.write_joined()?;
        if let Some(log) = &mut self.log {
            log.sync()?;
        }
        Ok(std::mem::take(&mut self.unsynced))
    }

    /// Syncs and closes the log.
    pub fn close(&mut self) -> Result<(), DiskError> {
        self.write_joined()?;
        if let Some(log) = self.log.take() {
            log.close()?;
        }
        Ok(())
    }

    /// Executes a command after all earlier appends are durable. `received` is the snapshot to install;
    /// `applied` returns the last transaction of the state in memory.
    pub fn execute(
        &mut self,
        command: DiskCommand,
        received: Option<Tree>,
        applied: impl FnOnce() -> Zxid,
    ) -> Result<DiskOutcome, DiskError> {
        match command {
            DiskCommand::SaveAcceptedEpoch { io, epoch } => {
                if let Some(epochs) = &mut self.epochs {
                    epochs.save_accepted(&self.disk, i64::from(epoch))?;
                }
                Ok(DiskOutcome::Saved { io })
            }
            DiskCommand::SaveCurrentEpoch { io, epoch } => {
                if let Some(epochs) = &mut self.epochs {
                    epochs.save_current(&self.disk, i64::from(epoch))?;
                }
                Ok(DiskOutcome::Saved { io })
            }
            DiskCommand::MarkTrusted { io } => {
                trust::mark_trusted(&self.disk, &self.directories.snapshots())?;
                Ok(DiskOutcome::Saved { io })
            }
            DiskCommand::Truncate { io, to } => self.truncate(io, to, applied),
            DiskCommand::InstallSnapshot { io, link, tail, zxid } => {
                let tree = received.ok_or(DiskError::SnapshotMissing { link })?;
                self.install(io, tree, &tail, zxid)
            }
            DiskCommand::Quarantine { io } => {
                self.close()?;
                let number = quarantine(&self.disk, &self.directories)?;
                let tree = Box::new(Tree::new(self.settings.tree));
                Ok(DiskOutcome::Quarantined { io, number, tree })
            }
        }
    }

    /// Opens the log after a transaction. A log that begins with the first transaction needs a snapshot
    /// before it: Apache ZooKeeper refuses logs without one.
    fn open_log(&self, last: Zxid) -> Result<LogWriter<D>, DiskError> {
        if last == Zxid::ZERO {
            self.snapshots.write_first(&Tree::new(self.settings.tree))?;
        }
        Ok(LogWriter::open(self.disk.clone(), self.settings.log.clone(), last)?)
    }

    fn truncate(
        &mut self,
        io: IoId,
        to: Zxid,
        applied: impl FnOnce() -> Zxid,
    ) -> Result<DiskOutcome, DiskError> {
        let before = self.log.as_ref().map_or(Zxid::ZERO, LogWriter::written);
        self.close()?;
        match truncate(&self.disk, &self.directories, to) {
            Ok(_) => {}
            Err(TruncateError::Refused { .. }) => {
                self.log = Some(self.open_log(before)?);
                return Ok(DiskOutcome::TruncateRefused { io });
            }
            Err(error @ TruncateError::Io(_)) => return Err(error.into()),
        }
        self.log = Some(self.open_log(to)?);
        let tree = if applied() <= to { None } else { Some(Box::new(self.reload()?)) };
        Ok(DiskOutcome::Truncated { io, to, before, tree })
    }

    /// Loads the state from the files.
    fn reload(&self) -> Result<Tree, DiskError> {
        let mut restore = Restore::new(self.settings.tree);
        recover(&self.disk, &self.directories, RecoveryOptions::member(), &mut restore, &mut |_| ())?;
        Ok(restore.finish())
    }

    fn install(
        &mut self,
        io: IoId,
        mut tree: Tree,
        tail: &[EncodedTxn],
        zxid: Zxid,
    ) -> Result<DiskOutcome, DiskError> {
        apply_tail(&mut tree, tail)?;
        let received = self.write_received(&tree, zxid)?;
        self.replace_files(received)?;
        Ok(DiskOutcome::Installed { io, zxid, tree: Box::new(tree) })
    }

    /// Replaces the state of a standalone server by one that an operator brought. No transaction is in
    /// flight; `current` is the last one.
    ///
    /// # Errors
    /// The server must stop: the next start finds the old state or the new one.
    pub fn restore(
        &mut self,
        state: RestoredState,
        current: Zxid,
        time_ms: i64,
    ) -> Result<RestoreOutcome, DiskError> {
        assert!(self.epochs.is_none(), "a member of an ensemble gets its state from the leader");
        let InstallableState { tree, zxid, ended_sessions } = state.end_sessions(current, time_ms);
        let received = match self.write_received(&tree, zxid) {
            Ok(received) => received,
            Err(error) => return Ok(RestoreOutcome::Unchanged(error)),
        };
        self.replace_files(received)?;
        let tree = Box::new(tree);
        Ok(RestoreOutcome::Installed(InstalledState { tree, zxid, ended_sessions }))
    }

    /// Makes a written snapshot the only data, and opens the log after it.
    fn replace_files(&mut self, received: ReceivedSnapshot<D>) -> Result<(), DiskError> {
        let zxid = received.zxid();
        self.close()?;
        received.commit()?;
        self.log = Some(self.open_log(zxid)?);
        Ok(())
    }

    /// Writes a snapshot beside the others and reads it back. An error leaves no file of it.
    fn write_received(&self, tree: &Tree, zxid: Zxid) -> Result<ReceivedSnapshot<D>, DiskError> {
        let compression = self.snapshots.compression();
        let mut receiving = SnapshotInstall::begin(self.disk.clone(), &self.directories, zxid, compression)?;
        for (&id, &timeout_ms) in tree.sessions() {
            receiving.session(id, timeout_ms);
        }
        for (id, acl) in tree.acl_table() {
            receiving.acl(id, acl.to_vec());
        }
        let mut walker = tree.walker();
        let mut result = Ok(());
        while walker.next_slice(tree, usize::MAX, &mut |path, data, acl, stat| {
            if result.is_ok() {
                result = receiving.node(path, data, acl, stat);
            }
        }) == WalkProgress::More
        {}
        if let Err(error) = result {
            // The first error is reported; recovery removes a file that stays.
            let _ = receiving.abandon();
            return Err(error.into());
        }
        Ok(receiving.finish(self.snapshots.sections(zxid, tree.digest(), zxid))?)
    }
}

/// Applies the transactions after a received snapshot. The snapshot is fuzzy: it may contain some of them.
///
/// # Errors
/// If a transaction cannot be decoded.
pub fn apply_tail(tree: &mut Tree, tail: &[EncodedTxn]) -> Result<(), DiskError> {
    for entry in tail {
        let decoded = TxnEntry::decode(&entry.bytes)
            .map_err(|reason| DiskError::Undecodable { zxid: entry.zxid, reason })?;
        tree.apply(&decoded.header, &decoded.txn, &mut |_| ());
    }
    Ok(())
}
