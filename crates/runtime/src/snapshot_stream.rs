//! A snapshot between servers, one slice at a time. No request waits for it, and only one slice is copied in
//! memory.
//!
//! The snapshot is fuzzy: transactions are applied between the slices. They follow it on the same connection,
//! and a learner may apply some of them again.

use zebu_node::{Replica, Restore};
use zebu_proto::Zxid;
use zebu_storage::format::snapshot::{append_node, begin_stream, end_stream};
use zebu_storage::{ContentLimits, RecoveryTarget, StreamDecoder, StreamFlaw, StreamProgress};
use zebu_tree::{Tree, TreeOptions, WalkProgress, Walker};

use crate::snapshot_task::SLICE_BYTES;

/// The progress of sending a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendProgress {
    /// Another slice follows.
    More,
    /// This was the last slice.
    Done {
        /// The last transaction that the snapshot may contain.
        end: Zxid,
    },
}

/// The reason why a snapshot cannot be completed. The connection is closed, and the learner reconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamAbort {
    /// The tree was replaced meanwhile.
    #[error("the state was replaced while it was sent")]
    Replaced,
    /// No replay would make the snapshot exact.
    #[error("a session ended without a list of its ephemeral nodes; the learner comes again")]
    Void,
}

/// Encodes the state as it is during the walk.
#[derive(Debug)]
pub struct SnapshotSender {
    walker: Walker,
    head: Vec<u8>,
    generation: u64,
}

impl SnapshotSender {
    /// Begins with the current sessions and ACLs.
    pub fn begin(replica: &Replica) -> SnapshotSender {
        let tree = replica.tree();
        let mut head = Vec::new();
        let sessions: Vec<_> = tree.sessions().iter().map(|(&id, &timeout_ms)| (id, timeout_ms)).collect();
        let acls: Vec<_> = tree.acl_table().map(|(id, acl)| (id, &acl[..])).collect();
        begin_stream(sessions.into_iter(), acls.into_iter(), &mut head);
        SnapshotSender { walker: tree.walker(), head, generation: replica.generation() }
    }

    /// Encodes about `nodes_max` nodes, and 2 MiB with the node that exceeds them. Transactions may be
    /// applied before the next slice.
    pub fn next_slice(
        &mut self,
        replica: &Replica,
        nodes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<SendProgress, StreamAbort> {
        out.append(&mut self.head);
        if replica.generation() != self.generation {
            return Err(StreamAbort::Replaced);
        }
        let tree = replica.tree();
        let progress =
            self.walker.next_bounded_slice(tree, nodes_max, SLICE_BYTES, &mut |path, data, acl, stat| {
                append_node(path, data, acl, stat, out);
            });
        match progress {
            WalkProgress::More => Ok(SendProgress::More),
            WalkProgress::Void => Err(StreamAbort::Void),
            WalkProgress::Done => {
                end_stream(out);
                Ok(SendProgress::Done { end: replica.last_zxid() })
            }
        }
    }
}

/// Decodes a received snapshot.
pub struct SnapshotReceiver {
    decoder: StreamDecoder,
    restore: Restore,
    options: TreeOptions,
    zxid: Zxid,
}

impl SnapshotReceiver {
    /// Creates a receiver for the snapshot of a SNAP packet with this zxid.
    pub fn new(options: TreeOptions, zxid: Zxid) -> SnapshotReceiver {
        let restore = Restore::new(options);
        SnapshotReceiver { decoder: StreamDecoder::new(ContentLimits::default()), restore, options, zxid }
    }

    /// Decodes bytes. Returns the number of bytes that belong to the snapshot, and the tree when it is
    /// complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(usize, Option<Tree>), StreamFlaw> {
        match self.decoder.feed(bytes, &mut self.restore)? {
            StreamProgress::More => Ok((bytes.len(), None)),
            StreamProgress::End { left } => {
                let empty = Restore::new(self.options);
                let mut restore = std::mem::replace(&mut self.restore, empty);
                restore.snapshot_loaded(self.zxid);
                Ok((bytes.len() - left, Some(restore.finish())))
            }
        }
    }
}
