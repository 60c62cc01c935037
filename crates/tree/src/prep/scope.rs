//! The scope of one request: the tree with the pending changes on top, and an undo log.

use std::sync::Arc;

use zebu_proto::{Acl, AclList, Buffer, ErrorCode, Stat, StatPersisted};

use crate::access::{self, PrepareRefusal};
use crate::arena::NodeState;
use crate::digest;
use crate::options::DigestMode;
use crate::overlay::{Overlay, OverlayRecord, PendingNode};
use crate::path;
use crate::prep::PrepareContext;
use crate::tree::Tree;

/// One request's view. Changes go to the overlay at once; [`PrepareScope::roll_back`] removes them again.
pub(super) struct PrepareScope<'a, 'c> {
    pub(super) tree: &'a Tree,
    pub(super) context: &'a PrepareContext<'c>,
    overlay: &'a mut Overlay,
    /// The previous overlay records, in the order of changes.
    undo: Vec<(Arc<str>, Option<OverlayRecord>)>,
    /// The tree digest after the changes made so far.
    digest: i64,
    digest_before: i64,
}

impl<'a, 'c> PrepareScope<'a, 'c> {
    pub(super) fn new(tree: &'a Tree, overlay: &'a mut Overlay, context: &'a PrepareContext<'c>) -> Self {
        let digest = if overlay.is_empty() { tree.digest } else { overlay.digest };
        let undo = std::mem::take(&mut overlay.undo);
        PrepareScope { tree, context, overlay, undo, digest, digest_before: digest }
    }

    /// The tree digest after the changes.
    pub(super) fn digest(&self) -> i64 {
        self.digest
    }

    pub(super) fn zxid(&self) -> i64 {
        self.context.header.zxid.0
    }

    /// Keeps the changes.
    pub(super) fn keep(&mut self) {
        self.overlay.digest = self.digest;
        self.overlay.commit(self.context.header.zxid, self.undo.drain(..).map(|(path, _)| path));
        self.overlay.undo = std::mem::take(&mut self.undo);
    }

    /// Restores the overlay.
    pub(super) fn roll_back(&mut self) {
        for (path, before) in self.undo.drain(..).rev() {
            self.overlay.restore(&path, before);
        }
        self.overlay.undo = std::mem::take(&mut self.undo);
        self.digest = self.digest_before;
    }

    /// The number of nodes that this request may visit without a change.
    pub(super) fn visits_left(&self) -> usize {
        self.overlay.visits_left()
    }

    /// Counts nodes that this request has visited without a change, also if it fails.
    pub(super) fn waste_visits(&mut self, count: usize) {
        self.overlay.waste_visits(count);
    }

    /// The number of pending changes.
    pub(super) fn pending_changes(&self) -> usize {
        self.overlay.len()
    }

    /// The node as it will be when all earlier requests are applied.
    pub(super) fn get(&self, path: &str) -> Result<PendingNode, ErrorCode> {
        if let Some(record) = self.overlay.get(path::canonical(path)) {
            return record.node.clone().ok_or(ErrorCode::NoNode);
        }
        let id = self.tree.find(path).ok_or(ErrorCode::NoNode)?;
        let node = self.tree.nodes.get(id);
        let NodeState { stat, child_count, digest } = self.tree.nodes.state(node);
        Ok(PendingNode {
            stat,
            child_count,
            acl: self.tree.acls.get(self.tree.nodes.traits(node).acl).clone(),
            data_length: node.data_length(),
            content: node.content,
            digest: digest.unwrap_or_else(|| self.tree.digest_with(node, &stat)),
            session: self.tree.lifetime(stat.ephemeral_owner).session(),
        })
    }

    /// The node that a request names. Virtual nodes cannot be changed.
    pub(super) fn target(&self, path: &str) -> Result<PendingNode, ErrorCode> {
        self.get(path).map_err(|error| self.reserved_or(path, error))
    }

    /// The error of a request whose path may be that of a virtual node.
    pub(super) fn reserved_or(&self, path: &str, error: ErrorCode) -> ErrorCode {
        match error {
            ErrorCode::NoNode if self.is_virtual(path) => ErrorCode::BadArguments,
            error => error,
        }
    }

    /// Whether a path is reserved for a virtual node.
    pub(super) fn is_virtual(&self, path: &str) -> bool {
        path == path::VIRTUAL || self.context.policy.keeper_nodes && path::is_keeper_node(path)
    }

    /// The stat of a node as clients will see it.
    pub(super) fn visible_stat(&self, node: &PendingNode) -> Stat {
        let shown_owner = self.tree.lifetime(node.stat.ephemeral_owner).shown_owner();
        node.stat.visible(node.data_length, node.child_count as usize, shown_owner)
    }

    /// Paths of nodes that pending requests create or change, in no order.
    pub(super) fn pending_paths(&self) -> impl Iterator<Item = &str> {
        self.overlay.existing_paths()
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        match self.overlay.get(path::canonical(path)) {
            Some(record) => record.node.is_some(),
            None => self.tree.find(path).is_some(),
        }
    }

    /// Adds a node that does not exist yet.
    pub(super) fn insert(&mut self, path: &str, data: &Buffer, acl: &[Acl], stat: StatPersisted) {
        let mut node = PendingNode {
            stat,
            child_count: 0,
            acl: self.shared_acl(acl),
            data_length: data.as_ref().map_or(0, |data| data.len()),
            content: self.tree.content_checksum(path, data.as_deref()),
            digest: 0,
            session: self.tree.lifetime(stat.ephemeral_owner).session(),
        };
        node.digest = self.digest_of(path, &node);
        self.digest = self.digest.wrapping_add(node.digest);
        self.put(path, Some(node));
    }

    /// Changes a node that was read with [`PrepareScope::get`].
    pub(super) fn update(&mut self, path: &str, before: &PendingNode, mut after: PendingNode) {
        after.digest = self.digest_of(path, &after);
        self.digest = self.digest.wrapping_sub(before.digest).wrapping_add(after.digest);
        self.put(path, Some(after));
    }

    /// Removes a node and decrements its parent's number of children.
    pub(super) fn remove(&mut self, path: &str, node: &PendingNode) {
        self.digest = self.digest.wrapping_sub(node.digest);
        self.put(path, None);
        let Some((parent_path, _)) = path::split(path) else {
            return;
        };
        if let Ok(parent) = self.get(parent_path) {
            let mut after = parent.clone();
            after.child_count = after.child_count.saturating_sub(1);
            after.stat.pzxid = after.stat.pzxid.max(self.zxid());
            self.update(parent_path, &parent, after);
        }
    }

    /// Committed and pending ephemeral nodes of the requester that will exist, sorted.
    pub(super) fn ephemerals(&self) -> Vec<Box<str>> {
        let session = self.context.header.session;
        let still_there = |path: &str| match self.overlay.get(path) {
            Some(record) => record.node.as_ref().is_some_and(|node| node.session == Some(session)),
            None => true,
        };
        let mut paths = self.tree.ephemerals_of(session);
        paths.retain(|path| still_there(path));
        paths.extend(self.overlay.ephemerals_of(session).map(|path| Box::from(&**path)));
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// Whether the client has a permission on a node with this ACL.
    pub(super) fn permit(&self, acl: &[Acl], permission: i32) -> Result<(), PrepareRefusal> {
        if access::allowed(acl, permission, self.context.credentials, self.context.policy) {
            Ok(())
        } else {
            Err(PrepareRefusal::Failed(ErrorCode::NoAuth))
        }
    }

    /// The ACL as it will be stored.
    pub(super) fn fixup_acl(&self, acl: Option<AclList>) -> Result<AclList, PrepareRefusal> {
        Ok(access::fixup_acl(acl, self.context.credentials, self.context.policy)?)
    }

    /// An ACL that outlives the request; the tree's own if it has it.
    pub(super) fn shared_acl(&self, acl: &[Acl]) -> Arc<[Acl]> {
        self.tree.acls.find(acl).cloned().unwrap_or_else(|| acl.into())
    }

    fn digest_of(&self, path: &str, node: &PendingNode) -> i64 {
        if self.tree.options.digest == DigestMode::Off || !digest::is_counted(path) {
            return 0;
        }
        digest::node_digest(node.content, &node.stat)
    }

    fn put(&mut self, path: &str, node: Option<PendingNode>) {
        let record = OverlayRecord { zxid: self.context.header.zxid, node };
        self.undo.push(self.overlay.put(path::canonical(path), record));
    }
}

/// The version after a change, if the current one matches. -1 matches any.
pub(super) fn next_version(current: i32, required: i32) -> Result<i32, ErrorCode> {
    if required != -1 && required != current {
        return Err(ErrorCode::BadVersion);
    }
    Ok(current.wrapping_add(1))
}
