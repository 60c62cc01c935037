//! From the files to the tree: what recovery reads becomes the replicated state.

use std::sync::Arc;

use zebu_proto::txn::TxnEntry;
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_storage::RecoveryTarget;
use zebu_storage::format::snapshot::SnapshotVisitor;
use zebu_tree::{DigestMode, Tree, TreeLoader, TreeOptions};

/// How far a restore has come.
enum Stage {
    /// A snapshot is being read.
    Loading(Box<TreeLoader>),
    /// The log is being replayed.
    Replaying(Box<Tree>),
}

/// A tree that is being restored.
pub struct Restore {
    options: TreeOptions,
    stage: Stage,
}

impl Restore {
    /// Starts with the tree of an empty database, which an attempt to load a snapshot replaces.
    pub fn new(options: TreeOptions) -> Restore {
        Restore { options, stage: Stage::Replaying(Box::new(Tree::new(options))) }
    }

    /// The tree, when recovery has succeeded.
    pub fn finish(self) -> Tree {
        match self.stage {
            Stage::Replaying(tree) => *tree,
            // Recovery never ends inside a snapshot; an empty tree is what such a one would amount to.
            Stage::Loading(_) => Tree::new(self.options),
        }
    }

    /// The loader of the snapshot that is being read; a snapshot begins with whatever comes first.
    fn loader(&mut self) -> &mut TreeLoader {
        if let Stage::Replaying(_) = self.stage {
            self.reset_to_loading();
        }
        match &mut self.stage {
            Stage::Loading(loader) => loader,
            Stage::Replaying(_) => unreachable!("the stage was just set"),
        }
    }

    fn reset_to_loading(&mut self) {
        self.stage = Stage::Loading(Box::new(TreeLoader::new(self.options)));
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
        self.loader().node(path, data.map(Arc::from), acl, stat).map_err(|error| error.to_string())
    }
}

impl RecoveryTarget for Restore {
    fn reset(&mut self) {
        self.stage = Stage::Replaying(Box::new(Tree::new(self.options)));
    }

    fn snapshot_loaded(&mut self, zxid: Zxid) {
        let empty = Stage::Replaying(Box::new(Tree::new(self.options)));
        self.stage = match std::mem::replace(&mut self.stage, empty) {
            Stage::Loading(loader) => Stage::Replaying(Box::new(loader.finish(zxid))),
            // A snapshot without a single node; storage refuses those.
            stage => stage,
        };
    }

    fn apply(&mut self, entry: &TxnEntry) {
        if let Stage::Replaying(tree) = &mut self.stage {
            tree.apply(&entry.header, &entry.txn, &mut |_| ());
        }
    }

    fn digest(&self) -> Option<i64> {
        match (&self.stage, self.options.digest) {
            (Stage::Replaying(tree), DigestMode::On) => Some(tree.digest()),
            (Stage::Replaying(_) | Stage::Loading(_), _) => None,
        }
    }
}
