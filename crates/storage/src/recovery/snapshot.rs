//! Finds the snapshot to load: the newest that can be read to its last checksum and that the target accepts.
//! Each attempt starts with an empty target.

use std::path::Path;

use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};

use super::error::RecoveryError;
use super::{LoadedSnapshot, RecoveryProgress, RecoverySource, RecoveryTarget, RejectedSnapshot};
use crate::directory::Directories;
use crate::disk::Disk;
use crate::format::names::NameSpelling;
use crate::format::snapshot::SnapshotVisitor;
use crate::snapshot_file::load_as;

/// The snapshot that the logs are replayed on.
pub(super) struct SnapshotBase {
    pub(super) zxid: Zxid,
    pub(super) snapshot: Option<LoadedSnapshot>,
    pub(super) rejected: Vec<RejectedSnapshot>,
}

impl SnapshotBase {
    /// The last transaction that a snapshot may contain in part, if that is later than its name.
    pub(super) fn fuzzy_end(&self) -> Option<Zxid> {
        let end = self.snapshot.as_ref()?.summary.mixed_until();
        // Counter zero is a change of leader, not a transaction.
        end.filter(|end| *end > self.zxid && end.counter() != 0)
    }
}

struct RecoveryVisitor<'a, 'p> {
    target: &'a mut dyn RecoveryTarget,
    progress: &'a mut dyn FnMut(RecoveryProgress<'_>),
    path: &'p Path,
}

impl SnapshotVisitor for RecoveryVisitor<'_, '_> {
    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.target.session(id, timeout_ms);
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.target.acl(id, acl);
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), String> {
        self.target.node(path, data, acl, stat)
    }

    fn progress(&mut self, bytes: u64) {
        (self.progress)(RecoveryProgress::Snapshot { path: self.path, bytes });
    }
}

/// Loads the newest usable snapshot. A directory without a snapshot gives an empty state.
pub(super) fn load_base<D: Disk>(
    disk: &D,
    directories: &Directories,
    source: &RecoverySource,
    target: &mut dyn RecoveryTarget,
    progress: &mut dyn FnMut(RecoveryProgress<'_>),
) -> Result<SnapshotBase, RecoveryError> {
    let directory = directories.snapshots();
    let mut rejected = Vec::new();
    for file in &source.snapshots {
        if file.name.spelling == NameSpelling::Unfinished {
            continue;
        }
        let zxid = file.name.zxid;
        target.reset();
        let mut visitor =
            RecoveryVisitor { target: &mut *target, progress: &mut *progress, path: &file.path };
        match load_as(disk, &file.path, file.compression, &mut visitor)? {
            Ok(summary) => {
                target.snapshot_loaded(zxid);
                let snapshot = Some(LoadedSnapshot { path: file.path.clone(), zxid, summary });
                return Ok(SnapshotBase { zxid, snapshot, rejected });
            }
            Err(flaw) => {
                rejected.push(RejectedSnapshot { path: file.path.clone(), zxid, reason: flaw.to_string() });
            }
        }
    }
    if !rejected.is_empty() {
        let texts = rejected.iter().map(|it| format!("{}: {}", it.path.display(), it.reason));
        let rejected = texts.collect::<Vec<_>>().join("; ");
        return Err(RecoveryError::NoUsableSnapshot { directory, rejected });
    }
    target.reset();
    Ok(SnapshotBase { zxid: Zxid::ZERO, snapshot: None, rejected })
}
