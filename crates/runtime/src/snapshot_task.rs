//! One snapshot file, written one slice at a time. The replica is locked only while a slice is copied; no
//! request waits for the disk.
//!
//! The snapshot is fuzzy: transactions are applied between the slices. Its name is the last applied
//! transaction at its beginning, and replaying the log from there makes it exact.

use zebu_node::Replica;
use zebu_proto::{StatPersisted, Zxid};
use zebu_storage::{Disk, SnapshotError, SnapshotWriter};
use zebu_tree::{WalkProgress, Walker};

use crate::snapshot_store::{SnapshotHead, SnapshotStore};

/// The progress of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotStep {
    /// Another slice follows.
    More,
    /// The snapshot file is complete.
    Written(Zxid),
    /// The tree was replaced meanwhile. The file is removed.
    TreeReplaced,
    /// A session ended without a list of its ephemeral nodes, so no replay would make the snapshot exact. The
    /// file is removed.
    Invalidated,
}

/// One node, copied from the tree.
#[derive(Debug)]
struct CopiedNode {
    path: Box<str>,
    data: Option<Box<[u8]>>,
    acl: i64,
    stat: StatPersisted,
}

/// The result of copying a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copied {
    More,
    Done { last_zxid: Zxid, digest: i64 },
    TreeReplaced,
    Invalidated,
}

/// A snapshot in progress.
pub struct SnapshotTask<D: Disk> {
    store: SnapshotStore<D>,
    zxid: Zxid,
    generation: u64,
    walker: Walker,
    /// The file, from the first slice on.
    writer: Option<SnapshotWriter<D>>,
    head: Option<SnapshotHead>,
    slice: Vec<CopiedNode>,
    copied: Copied,
}

impl<D: Disk> SnapshotTask<D> {
    /// Begins a snapshot of the current state. No file is created yet.
    pub fn begin(store: SnapshotStore<D>, replica: &Replica) -> SnapshotTask<D> {
        let tree = replica.tree();
        SnapshotTask {
            store,
            zxid: tree.last_zxid(),
            generation: replica.generation(),
            walker: tree.walker(),
            writer: None,
            head: Some(SnapshotHead::of(tree)),
            slice: Vec::new(),
            copied: Copied::More,
        }
    }

    /// The last applied transaction at the beginning of the snapshot.
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// Creates the file. The replica is not needed.
    pub fn create(&mut self) -> Result<(), SnapshotError> {
        if let Some(head) = self.head.take() {
            self.writer = Some(self.store.begin(head)?);
        }
        Ok(())
    }

    /// Copies about `nodes_max` nodes.
    pub fn copy_slice(&mut self, replica: &Replica, nodes_max: usize) {
        if replica.generation() != self.generation {
            self.copied = Copied::TreeReplaced;
            return;
        }
        let (tree, slice) = (replica.tree(), &mut self.slice);
        let progress = self.walker.next_slice(tree, nodes_max, &mut |path, data, acl, stat| {
            slice.push(CopiedNode { path: path.into(), data: data.map(Box::from), acl, stat: *stat });
        });
        self.copied = match progress {
            WalkProgress::More => Copied::More,
            WalkProgress::Done => Copied::Done { last_zxid: tree.last_zxid(), digest: tree.digest() },
            WalkProgress::Void => Copied::Invalidated,
        };
    }

    /// Writes the last copied slice. The replica is not needed. An error ends the snapshot.
    pub fn write_slice(&mut self) -> Result<SnapshotStep, SnapshotError> {
        self.create()?;
        let Some(mut writer) = self.writer.take() else { return Ok(SnapshotStep::TreeReplaced) };
        for node in self.slice.drain(..) {
            writer.node(&node.path, node.data.as_deref(), node.acl, &node.stat)?;
        }
        match self.copied {
            Copied::More => {
                self.writer = Some(writer);
                Ok(SnapshotStep::More)
            }
            Copied::Done { last_zxid, digest } => {
                writer.finish(self.store.sections(last_zxid, digest, last_zxid))?;
                Ok(SnapshotStep::Written(self.zxid))
            }
            Copied::TreeReplaced => {
                writer.abandon()?;
                Ok(SnapshotStep::TreeReplaced)
            }
            Copied::Invalidated => {
                writer.abandon()?;
                Ok(SnapshotStep::Invalidated)
            }
        }
    }
}
