//! A received snapshot and its bytes: a learner of ZooKeeper compares digests while it applies the
//! transactions after it.

use zebu_proto::Zxid;
use zebu_runtime::{DiskError, SnapshotReceiver, apply_tail};
use zebu_tree::Tree;
use zebu_zab::EncodedTxn;

use crate::check::snapshot_digests;
use crate::history::CheckResult;
use crate::server::start::tree_options;

/// A snapshot that is complete.
#[derive(Debug)]
pub(crate) struct ReceivedSnapshot {
    pub(crate) tree: Tree,
    zxid: Zxid,
    bytes: Vec<u8>,
    /// Transactions that were applied to it since.
    loaded: Vec<EncodedTxn>,
}

/// A snapshot that is being received.
pub(super) struct IncomingSnapshot {
    receiver: SnapshotReceiver,
    zxid: Zxid,
    bytes: Vec<u8>,
}

impl IncomingSnapshot {
    pub(super) fn new(zxid: Zxid) -> IncomingSnapshot {
        IncomingSnapshot { receiver: SnapshotReceiver::new(tree_options(), zxid), zxid, bytes: Vec::new() }
    }

    /// Adds a slice. Returns the snapshot when it is complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Option<ReceivedSnapshot>, String> {
        let (_, tree) = self.receiver.feed(bytes).map_err(|flaw| flaw.to_string())?;
        self.bytes.extend_from_slice(bytes);
        Ok(tree.map(|tree| ReceivedSnapshot {
            tree,
            zxid: self.zxid,
            bytes: std::mem::take(&mut self.bytes),
            loaded: Vec::new(),
        }))
    }
}

impl ReceivedSnapshot {
    /// Applies transactions before the snapshot is installed.
    pub(super) fn load(&mut self, entries: Vec<EncodedTxn>) -> Result<(), DiskError> {
        apply_tail(&mut self.tree, &entries)?;
        self.loaded.extend(entries);
        Ok(())
    }

    /// Compares digests as a learner of ZooKeeper does.
    pub(super) fn check_digests(&self, server: usize, tail: &[EncodedTxn]) -> CheckResult {
        let entries: Vec<EncodedTxn> = self.loaded.iter().chain(tail).cloned().collect();
        snapshot_digests::check(server, self.zxid, &self.bytes, &entries)
    }
}
