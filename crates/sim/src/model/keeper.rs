//! The writes and checks of ClickHouse Keeper in the model: the same effects as the writes of ZooKeeper that
//! they become, and no error where those fail for the state of the tree.

use std::collections::BTreeSet;
use std::sync::Arc;

use zebu_proto::client::{
    CheckRequest, CheckStatRequest, CreateMode, CreateOp, CreateRequest, DeleteRequest, KeeperCheck,
    KeeperPart, KeeperWrite, RemoveRecursiveRequest,
};
use zebu_proto::txn::{SubTxn, Txn};
use zebu_proto::{ErrorCode, Permissions, Stat};

use super::write::{ModelOverlay, checked};
use super::{Model, ModelEffect, ModelLifetime, parent_of};
use crate::operation::NodePath;

/// A field of a requested stat that may have any value.
const ANY: i64 = -1;

impl ModelOverlay<'_> {
    pub(super) fn keeper(&mut self, part: &KeeperPart) -> Result<ModelEffect, ErrorCode> {
        match part {
            KeeperPart::Write(KeeperWrite::CreateIfNotExists(request)) => self.create_if_not_exists(request),
            KeeperPart::Write(KeeperWrite::RemoveRecursive(request)) => self.remove_recursive(request),
            KeeperPart::Write(KeeperWrite::TryRemove(request)) => self.try_remove(request),
            KeeperPart::Check(KeeperCheck::NotExists(request)) => self.check_not_exists(request),
            KeeperPart::Check(KeeperCheck::Stat(request)) => self.check_stat(request),
        }
    }

    fn create_if_not_exists(&mut self, request: &CreateRequest) -> Result<ModelEffect, ErrorCode> {
        let path = node_path(request.path.as_deref());
        let above = parent_of(&path).ok_or(ErrorCode::NodeExists)?;
        let parent = self.permitted(above, Permissions::CREATE)?;
        if matches!(parent.stays, ModelLifetime::WithSession(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let mode = [CreateMode::Persistent, CreateMode::Ephemeral]
            .into_iter()
            .find(|mode| mode.flags() == request.flags)
            .ok_or(ErrorCode::BadArguments)?;
        if self.get(&path).is_some() {
            return Ok(ModelEffect::Existed { path });
        }
        let data: Arc<[u8]> = request.data.clone().unwrap_or_default();
        let permissions = request.acl.iter().flat_map(|acl| acl.iter()).fold(0, |sum, acl| sum | acl.perms);
        self.create(&path, &data, mode, CreateOp::Create, permissions)
    }

    fn try_remove(&mut self, request: &DeleteRequest) -> Result<ModelEffect, ErrorCode> {
        let path = node_path(request.path.as_deref());
        match self.delete(&path, request.version) {
            Err(ErrorCode::NoNode | ErrorCode::BadVersion | ErrorCode::NotEmpty) => {
                Ok(ModelEffect::Deleted { path })
            }
            removed => removed,
        }
    }

    fn remove_recursive(&mut self, request: &RemoveRecursiveRequest) -> Result<ModelEffect, ErrorCode> {
        let root = node_path(request.path.as_deref());
        let above = parent_of(&root).ok_or(ErrorCode::BadArguments)?;
        match self.permitted(above, Permissions::DELETE) {
            Err(ErrorCode::NoNode) => return Ok(ModelEffect::Deleted { path: root }),
            Err(code) => return Err(code),
            Ok(_) => {}
        }
        let nodes = self.subtree(&root);
        let bytes: usize = nodes.iter().map(|path| delete_bytes(path)).sum();
        if nodes.len() > request.limit as usize || bytes > self.txn.deletes_bytes_max {
            return Err(ErrorCode::NotEmpty);
        }
        // The order of paths has each node behind its parent.
        for path in nodes.iter().rev() {
            self.delete(path, -1)?;
        }
        Ok(ModelEffect::Deleted { path: root })
    }

    fn check_not_exists(&self, request: &CheckRequest) -> Result<ModelEffect, ErrorCode> {
        let path = node_path(request.path.as_deref());
        if let Some(above) = parent_of(&path)
            && let Err(ErrorCode::NoAuth) = self.permitted(above, Permissions::READ)
        {
            return Err(ErrorCode::NoAuth);
        }
        match self.get(&path) {
            Some(node) if checked(node.version, request.version).is_ok() => Err(ErrorCode::NodeExists),
            Some(_) | None => Ok(ModelEffect::Checked),
        }
    }

    fn check_stat(&self, request: &CheckStatRequest) -> Result<ModelEffect, ErrorCode> {
        let path = node_path(request.path.as_deref());
        let node = self.permitted(&path, Permissions::READ)?;
        checked(node.version, request.version)?;
        let (wanted, found) = (fields(&request.stat), fields(&node.stat()));
        let fits = wanted.iter().zip(found).all(|(wanted, found)| *wanted == ANY || *wanted == found);
        if fits { Ok(ModelEffect::Checked) } else { Err(ErrorCode::BadVersion) }
    }

    /// The nodes at and below a path, in the order of their paths.
    pub(super) fn subtree(&self, root: &str) -> BTreeSet<NodePath> {
        let mut found = BTreeSet::new();
        let mut open = vec![NodePath::from(root)];
        while let Some(path) = open.pop() {
            let Some(node) = self.get(&path) else { continue };
            let top = if &*path == "/" { "" } else { &*path };
            open.extend(node.children.iter().map(|name| NodePath::from(format!("{top}/{name}"))));
            found.insert(path);
        }
        found
    }
}

impl Model {
    /// Bytes of the deletes of all nodes at and below a path, after the last transaction.
    pub(crate) fn deletes_bytes(&self, root: &str) -> usize {
        let is_below = |path: &NodePath| {
            path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let there = self.paths().filter(|path| is_below(path) && self.now(path).is_some());
        there.map(|path| delete_bytes(path)).sum()
    }
}

fn node_path(path: Option<&str>) -> NodePath {
    NodePath::from(path.unwrap_or_default())
}

/// Bytes of a delete in a multi.
fn delete_bytes(path: &str) -> usize {
    SubTxn(Txn::Delete(path.into())).encoded_length()
}

fn fields(stat: &Stat) -> [i64; 11] {
    [
        stat.czxid,
        stat.mzxid,
        stat.ctime,
        stat.mtime,
        stat.version.into(),
        stat.cversion.into(),
        stat.aversion.into(),
        stat.ephemeral_owner,
        stat.data_length.into(),
        stat.num_children.into(),
        stat.pzxid,
    ]
}
