//! What a member's disk does beside appending: epochs, and other histories in the place of the own one. It runs
//! on the disk thread, between two syncs.

use tracing::{info, warn};
use zebu_node::{DiskOrder, Restore};
use zebu_proto::Zxid;
use zebu_proto::txn::TxnEntry;
use zebu_storage::install::Receiving;
use zebu_storage::{
    Directories, Epochs, FileDisk, LogWriter, RecoveryOptions, TruncateError, recover, set_aside, truncate,
    trust,
};
use zebu_tree::{Tree, WalkProgress};
use zebu_zab::{Entry, IoId};

use crate::recovery;
use crate::settings;
use crate::shared::Shared;
use crate::snapshotter::SnapshotStore;

/// The files of a member.
pub(crate) struct MemberDisk {
    pub(crate) directories: Directories,
    pub(crate) epochs: Epochs,
    pub(crate) snapshots: SnapshotStore,
}

/// What came of a piece of work.
pub(crate) enum Done {
    /// It is done.
    Persisted(IoId),
    /// Nothing was changed: the log has no such transaction.
    Refused(IoId),
    /// It is done, and the state is another one now.
    Replaced(IoId, Box<Tree>),
}

/// Why it cannot be done. The process ends, which is safe.
type Failure = String;

fn failed(error: impl std::fmt::Display) -> Failure {
    error.to_string()
}

impl MemberDisk {
    /// Does a piece of work. The log is closed around what changes it, and opened behind the result.
    pub(crate) fn perform(
        &mut self,
        order: DiskOrder,
        received: Option<Tree>,
        log: &mut Option<LogWriter<FileDisk>>,
        shared: &Shared,
    ) -> Result<Done, Failure> {
        match order {
            DiskOrder::Append { .. } => unreachable!("the disk thread appends itself"),
            DiskOrder::SaveAcceptedEpoch { io, epoch } => {
                self.epochs.save_accepted(&FileDisk, i64::from(epoch)).map_err(failed)?;
                Ok(Done::Persisted(io))
            }
            DiskOrder::SaveCurrentEpoch { io, epoch } => {
                self.epochs.save_current(&FileDisk, i64::from(epoch)).map_err(failed)?;
                Ok(Done::Persisted(io))
            }
            DiskOrder::MarkTrusted { io } => {
                trust::settle(&FileDisk, &self.directories.snapshots()).map_err(failed)?;
                Ok(Done::Persisted(io))
            }
            DiskOrder::Truncate { io, to } => self.truncate(io, to, log, shared),
            DiskOrder::InstallSnapshot { io, tail, zxid, .. } => {
                let tree =
                    received.ok_or_else(|| "a state was to be installed that never came".to_owned())?;
                self.install(io, tree, &tail, zxid, log, shared)
            }
            DiskOrder::SetAside { io } => {
                close(log)?;
                let number = set_aside(&FileDisk, &self.directories).map_err(failed)?;
                warn!(number, "the history of this member does not fit the ensemble's; it was set aside");
                let tree = Tree::new(settings::tree_options(&shared.config, shared.hash_seed));
                Ok(Done::Replaced(io, Box::new(tree)))
            }
        }
    }

    /// The log of a member that was set aside begins with its first transaction.
    pub(crate) fn open_log(&self, last: Zxid, shared: &Shared) -> Result<LogWriter<FileDisk>, Failure> {
        let storage = &shared.config.storage;
        if last == Zxid::ZERO {
            let tree = Tree::new(settings::tree_options(&shared.config, shared.hash_seed));
            recovery::write_first_snapshot(&tree, &self.snapshots).map_err(failed)?;
        }
        LogWriter::open(FileDisk, recovery::log_options(storage, &self.directories), last).map_err(failed)
    }

    fn truncate(
        &mut self,
        io: IoId,
        to: Zxid,
        log: &mut Option<LogWriter<FileDisk>>,
        shared: &Shared,
    ) -> Result<Done, Failure> {
        let last = log.as_ref().map_or(Zxid::ZERO, LogWriter::written);
        close(log)?;
        match truncate(&FileDisk, &self.directories, to) {
            Ok(_) => {}
            Err(TruncateError::Refused { .. }) => {
                *log = Some(self.open_log(last, shared)?);
                return Ok(Done::Refused(io));
            }
            Err(error) => return Err(failed(error)),
        }
        if to < last {
            info!(%to, "the log was truncated: the ensemble has decided otherwise");
        } else {
            info!(%to, "back to what is on disk: this member was an observer without a log");
        }
        *log = Some(self.open_log(to, shared)?);
        if shared.read().last_zxid() <= to {
            return Ok(Done::Persisted(io));
        }
        let mut restore = Restore::new(settings::tree_options(&shared.config, shared.hash_seed));
        recover(&FileDisk, &self.directories, RecoveryOptions::member(), &mut restore, &mut |_| ())
            .map_err(failed)?;
        Ok(Done::Replaced(io, Box::new(restore.finish())))
    }

    fn install(
        &mut self,
        io: IoId,
        mut tree: Tree,
        tail: &[Entry],
        zxid: Zxid,
        log: &mut Option<LogWriter<FileDisk>>,
        shared: &Shared,
    ) -> Result<Done, Failure> {
        for entry in tail {
            let entry = TxnEntry::decode(&entry.bytes).map_err(failed)?;
            tree.apply(&entry.header, &entry.txn, &mut |_| ());
        }
        let compression = recovery::compression(shared.config.storage.snapshot_compression);
        let mut receiving =
            Receiving::begin(FileDisk, &self.directories, zxid, compression).map_err(failed)?;
        for (&id, &timeout_ms) in tree.sessions() {
            receiving.session(id, timeout_ms);
        }
        for (id, acl) in tree.acl_table() {
            receiving.acl(id, acl.to_vec());
        }
        let mut walker = tree.walker();
        let mut result = Ok(());
        while walker.next_slice(&tree, usize::MAX, &mut |path, data, acl, stat| {
            if result.is_ok() {
                result = receiving.node(path, data, acl, stat);
            }
        }) == WalkProgress::More
        {}
        result.map_err(failed)?;
        let sections = self.snapshots.sections(zxid, tree.digest(), zxid);
        let received = receiving.finish(sections).map_err(failed)?;
        close(log)?;
        received.commit().map_err(failed)?;
        info!(%zxid, nodes = tree.node_count(), "the whole state of the leader was taken over");
        *log = Some(self.open_log(zxid, shared)?);
        Ok(Done::Replaced(io, Box::new(tree)))
    }
}

fn close(log: &mut Option<LogWriter<FileDisk>>) -> Result<(), Failure> {
    match log.take() {
        Some(log) => log.close().map(|_| ()).map_err(failed),
        None => Ok(()),
    }
}
