//! Opens a locked data directory: recovery, epochs, log. An ensemble member quarantines files that it cannot
//! use, because the leader can send a snapshot.

use zebu_node::Restore;
use zebu_proto::Zxid;
use zebu_storage::{
    Directories, Disk, EpochError, Epochs, IoFailure, LogOptions, LogWriter, RecoveredState, RecoveryError,
    RecoveryOptions, RecoveryProgress, RecoveryTarget, Trust, quarantine, recover,
};
use zebu_tree::Tree;

use crate::disk_error::DiskError;
use crate::snapshot_store::SnapshotStore;

/// A recovery target that becomes a tree.
pub trait StateTarget: RecoveryTarget {
    /// Returns the tree after a successful recovery.
    fn into_tree(self) -> Tree;
}

impl StateTarget for Restore {
    fn into_tree(self) -> Tree {
        self.finish()
    }
}

/// A report for the operator during startup.
#[derive(Debug)]
pub enum StartReport<'a> {
    /// Recovery progress.
    Progress(RecoveryProgress<'a>),
    /// The files cannot be used.
    Damaged(&'a RecoveryError),
    /// The files were quarantined in the directory with this number.
    Quarantined(&'a RecoveryError, u32),
    /// The epoch files cannot be used. The server does not vote before it is synchronized.
    EpochsDamaged(&'a EpochError),
}

/// The files of an ensemble member beside its log.
#[derive(Debug)]
pub struct OpenedMember {
    /// The epoch files.
    pub epochs: Epochs,
    /// The history that the server starts with in its ensemble.
    pub recovered: zebu_zab::RecoveredHistory,
}

/// The treatment of files that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDamage {
    /// The server does not start.
    Refuse,
    /// The files are quarantined, and the server starts without data: the leader can send a snapshot.
    Quarantine,
}

/// How files are loaded at a start.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// The options of the recovery.
    pub recovery: RecoveryOptions,
    /// The treatment of files that cannot be used.
    pub on_damage: OnDamage,
}

impl LoadOptions {
    /// The options of an ensemble member.
    pub fn member() -> LoadOptions {
        LoadOptions { recovery: RecoveryOptions::member(), on_damage: OnDamage::Quarantine }
    }

    /// The options of a standalone server.
    pub fn standalone() -> LoadOptions {
        LoadOptions { recovery: RecoveryOptions::default(), on_damage: OnDamage::Refuse }
    }
}

/// Reads snapshot and log into a target of `new_target`. The target of quarantined files is empty. A
/// disk error is not damage.
///
/// # Errors
/// The server cannot start.
pub fn load<D: Disk, T: StateTarget>(
    disk: &D,
    directories: &Directories,
    options: LoadOptions,
    mut new_target: impl FnMut() -> T,
    mut report: impl FnMut(StartReport<'_>),
) -> Result<(RecoveredState, T), RecoveryError> {
    let mut attempt = |report: &mut dyn FnMut(StartReport<'_>)| {
        let mut target = new_target();
        let mut progress = |progress: RecoveryProgress<'_>| report(StartReport::Progress(progress));
        recover(disk, directories, options.recovery, &mut target, &mut progress)
            .map(|recovered| (recovered, target))
    };
    match attempt(&mut report) {
        Ok(loaded) => Ok(loaded),
        Err(error @ RecoveryError::Io(_)) => Err(error),
        Err(error) => {
            report(StartReport::Damaged(&error));
            match options.on_damage {
                OnDamage::Refuse => return Err(error),
                OnDamage::Quarantine => {}
            }
            let number =
                quarantine(disk, directories).map_err(|failure: IoFailure| RecoveryError::Io(failure))?;
            report(StartReport::Quarantined(&error, number));
            attempt(&mut report)
        }
    }
}

/// Reads the epoch files of an ensemble member.
///
/// # Errors
/// The disk failed.
pub fn open_member<D: Disk>(
    disk: &D,
    directories: &Directories,
    recovered: &RecoveredState,
    mut report: impl FnMut(StartReport<'_>),
) -> Result<OpenedMember, EpochError> {
    let last = recovered.last_zxid;
    let mut trust = match recovered.trust {
        Trust::Trusted => zebu_zab::DiskTrust::Trusted,
        Trust::Untrusted => zebu_zab::DiskTrust::Untrusted,
    };
    let epochs = match Epochs::load(disk, directories.snapshots(), last) {
        Ok(epochs) => epochs,
        Err(error) if error.is_io() => return Err(error),
        Err(error) => {
            report(StartReport::EpochsDamaged(&error));
            trust = zebu_zab::DiskTrust::Untrusted;
            Epochs::salvage(disk, directories.snapshots(), last)?
        }
    };
    let recovered = zebu_zab::RecoveredHistory {
        last,
        contiguous_from: recovered.snapshot.as_ref().map_or(Zxid::ZERO, |snapshot| snapshot.zxid),
        accepted_epoch: epochs.accepted(),
        current_epoch: epochs.current(),
        trust,
    };
    Ok(OpenedMember { epochs, recovered })
}

/// Whether the directory is empty and is about to get its first files.
pub fn is_new(recovered: &RecoveredState, member: Option<&OpenedMember>) -> bool {
    recovered.snapshot.is_none() && recovered.applied == 0 && !has_lost_everything(recovered, member)
}

/// Whether an ensemble member has no file but may once have had some. Apache ZooKeeper would trust a snapshot
/// of its empty state.
fn has_lost_everything(recovered: &RecoveredState, member: Option<&OpenedMember>) -> bool {
    let is_untrusted = |member: &OpenedMember| member.recovered.trust == zebu_zab::DiskTrust::Untrusted;
    recovered.snapshot.is_none() && member.is_some_and(is_untrusted)
}

/// Opens the log after the recovered state; a directory without a snapshot gets its first one. An ensemble
/// member that has lost all files has no log before its first append.
///
/// # Errors
/// The disk failed, or another process writes to the directory.
pub fn open_log<D: Disk>(
    options: LogOptions,
    snapshots: &SnapshotStore<D>,
    tree: &Tree,
    recovered: &RecoveredState,
    member: Option<&OpenedMember>,
) -> Result<Option<LogWriter<D>>, DiskError> {
    if has_lost_everything(recovered, member) {
        return Ok(None);
    }
    if recovered.snapshot.is_none() {
        // Apache ZooKeeper refuses a directory that has logs and no snapshot.
        snapshots.write_first(tree)?;
    }
    Ok(Some(LogWriter::open(snapshots.disk().clone(), options, recovered.last_zxid)?))
}
