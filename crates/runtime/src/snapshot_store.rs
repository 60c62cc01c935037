//! The directory and format of snapshot files. It does not decide when a snapshot is due.

use std::path::PathBuf;
use std::sync::Arc;

use zebu_proto::{Acl, SessionId, Zxid};
use zebu_storage::{Compression, Directories, Disk, Sections, SnapshotError, SnapshotTarget, SnapshotWriter};
use zebu_tree::{Tree, WalkProgress};

/// The sections after the nodes of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotSections {
    /// No section.
    None,
    /// The digest.
    Digest,
    /// The digest and the last zxid.
    DigestAndLastZxid,
}

/// The part of a snapshot before its nodes, copied out of the tree.
#[derive(Debug)]
pub struct SnapshotHead {
    /// The last applied transaction of the tree.
    pub zxid: Zxid,
    sessions: Vec<(SessionId, i32)>,
    acls: Vec<(i64, Arc<[Acl]>)>,
}

impl SnapshotHead {
    /// Copies the sessions and the ACLs.
    pub fn of(tree: &Tree) -> SnapshotHead {
        SnapshotHead {
            zxid: tree.last_zxid(),
            sessions: tree.sessions().iter().map(|(&id, &timeout_ms)| (id, timeout_ms)).collect(),
            acls: tree.acl_table().map(|(id, acl)| (id, acl.clone())).collect(),
        }
    }
}

/// Writes snapshots into one directory.
#[derive(Clone, Debug)]
pub struct SnapshotStore<D> {
    disk: D,
    directory: PathBuf,
    compression: Compression,
    sections: SnapshotSections,
}

impl<D: Disk> SnapshotStore<D> {
    /// Creates a store in the snapshot directory.
    pub fn new(
        disk: D,
        directories: &Directories,
        compression: Compression,
        sections: SnapshotSections,
    ) -> SnapshotStore<D> {
        SnapshotStore { disk, directory: directories.snapshots(), compression, sections }
    }

    /// The disk of the files.
    pub(crate) fn disk(&self) -> &D {
        &self.disk
    }

    /// The compression of snapshot files.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// The free bytes for another snapshot; `None` if they are not known or have no limit.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        self.disk.space(&self.directory).ok().flatten().map(|space| space.free)
    }

    /// The file of a snapshot with this zxid.
    pub fn path_of(&self, zxid: Zxid) -> PathBuf {
        SnapshotTarget::new(&self.directory, zxid, self.compression).path()
    }

    /// Begins a snapshot file.
    pub fn begin(&self, head: SnapshotHead) -> Result<SnapshotWriter<D>, SnapshotError> {
        let SnapshotHead { zxid, sessions, acls } = head;
        let acls = acls.iter().map(|(id, acl)| (*id, acl.as_ref()));
        let sessions = sessions.into_iter();
        let target = SnapshotTarget::new(&self.directory, zxid, self.compression);
        SnapshotWriter::begin(self.disk.clone(), target, sessions, acls)
    }

    /// The sections of a snapshot whose tree has this digest after `zxid`.
    pub fn sections(&self, zxid: Zxid, digest: i64, last_zxid: Zxid) -> Sections {
        match self.sections {
            SnapshotSections::None => Sections::None,
            SnapshotSections::Digest => Sections::Digest { zxid, digest },
            SnapshotSections::DigestAndLastZxid => Sections::DigestAndLastZxid { zxid, digest, last_zxid },
        }
    }

    /// Writes the first snapshot of a directory in one piece. No client is served meanwhile.
    pub fn write_first(&self, tree: &Tree) -> Result<(), SnapshotError> {
        let mut writer = self.begin(SnapshotHead::of(tree))?;
        let mut walker = tree.walker();
        let mut result = Ok(());
        while result.is_ok() {
            let progress = walker.next_slice(tree, usize::MAX, &mut |path, data, acl, stat| {
                if result.is_ok() {
                    result = writer.node(path, data, acl, stat);
                }
            });
            if progress == WalkProgress::Done {
                break;
            }
        }
        result?;
        // Apache ZooKeeper writes no digest before the first transaction either: zero means no digest.
        writer.finish(self.sections(Zxid::ZERO, 0, tree.last_zxid()))?;
        Ok(())
    }
}
