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

/// Bytes of a node in a snapshot file beside its path and data, at most.
pub const NODE_BYTES: u64 = 100;

/// Bytes of paths and data that are copied under one hold of the lock. The last node may exceed them: a node
/// is copied in one piece, and 500 nodes of a megabyte would hold the lock for a second.
pub(crate) const SLICE_BYTES: usize = 2 << 20;

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
    /// The next slice would take bytes that must stay free. The file is removed.
    NoRoom,
}

/// One node, copied from the tree. Its path and data are in the buffers of the slice.
#[derive(Debug)]
struct CopiedNode {
    path_length: usize,
    data_length: Option<usize>,
    acl: i64,
    stat: StatPersisted,
}

/// The nodes that were copied under one hold of the lock, in the order of the walk.
#[derive(Debug, Default)]
struct CopiedSlice {
    nodes: Vec<CopiedNode>,
    paths: String,
    data: Vec<u8>,
}

impl CopiedSlice {
    fn push(&mut self, path: &str, data: Option<&[u8]>, acl: i64, stat: &StatPersisted) {
        self.paths.push_str(path);
        self.data.extend_from_slice(data.unwrap_or_default());
        let (path_length, data_length) = (path.len(), data.map(<[u8]>::len));
        self.nodes.push(CopiedNode { path_length, data_length, acl, stat: *stat });
    }

    /// The bytes of the slice in a file without compression, at most.
    fn encoded_bytes(&self) -> u64 {
        (self.paths.len() + self.data.len()) as u64 + self.nodes.len() as u64 * NODE_BYTES
    }

    fn write<D: Disk>(&self, writer: &mut SnapshotWriter<D>) -> Result<(), SnapshotError> {
        let (mut paths, mut all_data) = (self.paths.as_str(), self.data.as_slice());
        for node in &self.nodes {
            let (path, other_paths) = paths.split_at(node.path_length);
            let (data, other_data) = all_data.split_at(node.data_length.unwrap_or_default());
            (paths, all_data) = (other_paths, other_data);
            writer.node(path, node.data_length.map(|_| data), node.acl, &node.stat)?;
        }
        Ok(())
    }

    /// Empties the buffers, and returns the memory of a large slice.
    fn clear(&mut self) {
        self.nodes.clear();
        self.paths.clear();
        self.data.clear();
        self.data.shrink_to(SLICE_BYTES);
    }
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
    slice: CopiedSlice,
    copied: Copied,
    /// The bytes that must stay free on the file system.
    reserved_bytes: u64,
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
            slice: CopiedSlice::default(),
            copied: Copied::More,
            reserved_bytes: 0,
        }
    }

    /// The last applied transaction at the beginning of the snapshot.
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// Sets the bytes that must stay free on the file system from the next slice on.
    pub fn reserve(&mut self, bytes: u64) {
        self.reserved_bytes = bytes;
    }

    /// Creates the file. The replica is not needed.
    pub fn create(&mut self) -> Result<(), SnapshotError> {
        if let Some(head) = self.head.take() {
            self.writer = Some(self.store.begin(head)?);
        }
        Ok(())
    }

    /// Copies about `nodes_max` nodes, and 2 MiB with the node that exceeds them.
    pub fn copy_slice(&mut self, replica: &Replica, nodes_max: usize) {
        if replica.generation() != self.generation {
            self.copied = Copied::TreeReplaced;
            return;
        }
        let (tree, slice) = (replica.tree(), &mut self.slice);
        let progress =
            self.walker.next_bounded_slice(tree, nodes_max, SLICE_BYTES, &mut |path, data, acl, stat| {
                slice.push(path, data, acl, stat);
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
        let needed = self.reserved_bytes.saturating_add(self.slice.encoded_bytes());
        if self.store.free_bytes().is_some_and(|free| free < needed) {
            writer.abandon()?;
            return Ok(SnapshotStep::NoRoom);
        }
        self.slice.write(&mut writer)?;
        self.slice.clear();
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
