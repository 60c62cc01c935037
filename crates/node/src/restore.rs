//! Recovery: builds the tree from the snapshot and the transaction log.

use zebu_proto::txn::TxnEntry;
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_storage::RecoveryTarget;
use zebu_storage::format::snapshot::SnapshotVisitor;
use zebu_tree::{DigestMode, Tree, TreeLoader, TreeOptions};

/// The stage of a restore.
enum RestoreStage {
    /// A snapshot is being read.
    Loading(Box<TreeLoader>),
    /// The log is being replayed.
    Replaying(Box<Tree>),
}

/// A tree under recovery.
pub struct Restore {
    options: TreeOptions,
    stage: RestoreStage,
}

impl Restore {
    /// Starts with an empty tree, which a snapshot replaces.
    pub fn new(options: TreeOptions) -> Restore {
        Restore { options, stage: RestoreStage::Replaying(Box::new(Tree::new(options))) }
    }

    /// Returns the tree after a successful recovery.
    pub fn finish(self) -> Tree {
        match self.stage {
            RestoreStage::Replaying(tree) => *tree,
            // Recovery never ends inside a snapshot. An incomplete snapshot counts as an empty tree.
            RestoreStage::Loading(_) => Tree::new(self.options),
        }
    }

    /// The loader of the current snapshot. The first record of a snapshot creates it.
    fn loader(&mut self) -> &mut TreeLoader {
        if let RestoreStage::Replaying(_) = self.stage {
            self.reset_to_loading();
        }
        match &mut self.stage {
            RestoreStage::Loading(loader) => loader,
            RestoreStage::Replaying(_) => unreachable!("the stage was just set"),
        }
    }

    fn reset_to_loading(&mut self) {
        self.stage = RestoreStage::Loading(Box::new(TreeLoader::new(self.options)));
    }
}

impl SnapshotVisitor for Restore {
    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.loader().session(id, timeout_ms);
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.loader().acl(id, acl);
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), String> {
        self.loader().node(path, data, acl, stat).map_err(|error| error.to_string())
    }
}

impl RecoveryTarget for Restore {
    fn reset(&mut self) {
        self.stage = RestoreStage::Replaying(Box::new(Tree::new(self.options)));
    }

    fn snapshot_loaded(&mut self, zxid: Zxid) {
        let empty = RestoreStage::Replaying(Box::new(Tree::new(self.options)));
        self.stage = match std::mem::replace(&mut self.stage, empty) {
            RestoreStage::Loading(loader) => RestoreStage::Replaying(Box::new(loader.finish(zxid))),
            // A snapshot without any node. Storage refuses those.
            stage => stage,
        };
    }

    fn apply(&mut self, entry: &TxnEntry) {
        if let RestoreStage::Replaying(tree) = &mut self.stage {
            tree.apply(&entry.header, &entry.txn, &mut |_| ());
        }
    }

    fn digest(&self) -> Option<i64> {
        match (&self.stage, self.options.digest) {
            (RestoreStage::Replaying(tree), DigestMode::On) => Some(tree.digest()),
            (RestoreStage::Replaying(_) | RestoreStage::Loading(_), _) => None,
        }
    }
}
