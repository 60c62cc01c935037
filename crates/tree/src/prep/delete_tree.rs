//! deltree: deletes of a part of a subtree, as a multi that every ZooKeeper server applies. A check, which
//! changes nothing, tells the server of the client that the request must be repeated.

use zebu_proto::ErrorCode;
use zebu_proto::client::{DeleteRequest, DeleteTreeReply, DeleteTreeRequest};
use zebu_proto::txn::{CheckTxn, SubTxn, Txn};

use crate::access::PrepareRefusal;
use crate::node::NodeId;
use crate::overlay::VISITS_MAX;
use crate::path;
use crate::prep::delete;
use crate::prep::scope::PrepareScope;
use crate::prep::subtree::deletes_bytes_max;
use crate::tree::Tree;

/// The deletes of one request.
struct SubtreeDelete<'r> {
    request: &'r DeleteTreeRequest,
    parts: Vec<SubTxn>,
    bytes: usize,
    bytes_max: usize,
    visits: usize,
    visits_max: usize,
    /// Per level, the children that stay.
    left: Vec<u32>,
    /// Whether an earlier request deletes some of the nodes.
    has_gone: bool,
    /// Whether nodes are left that the next request can delete.
    more: bool,
}

/// What happened to a visited node.
enum VisitedNode {
    Deleted,
    Stays,
    /// Another request has deleted it.
    Gone,
    /// A limit is reached before it. The request is repeated when earlier ones are applied.
    Full,
}

pub(super) fn prepare(
    stage: &mut PrepareScope<'_, '_>,
    request: &DeleteTreeRequest,
) -> Result<Txn, PrepareRefusal> {
    stage.context.session?;
    path::validate(&request.root)?;
    if path::canonical(&request.root).is_empty() {
        return Err(ErrorCode::BadArguments.into());
    }
    stage.target(&request.root)?;
    let mark = || SubTxn(Txn::Check(CheckTxn { path: request.root.clone(), version: 0 }));
    let bytes_max = deletes_bytes_max(stage, mark().encoded_length());
    let mut delete = SubtreeDelete {
        request,
        parts: Vec::new(),
        bytes: 0,
        bytes_max,
        visits: 0,
        visits_max: stage.visits_left(),
        left: vec![0],
        has_gone: false,
        more: false,
    };
    let ended = delete.run(stage);
    let deleted = if ended.is_ok() { delete.parts.len() } else { 0 };
    stage.waste_visits(delete.visits - deleted);
    ended?;
    if delete.parts.is_empty() && delete.visits > VISITS_MAX && !delete.has_gone {
        // The nodes that stay are too many to find the others behind them.
        return Err(ErrorCode::NotEmpty.into());
    }
    let mut parts = delete.parts;
    let checks = match (parts.is_empty(), delete.more) {
        (false, more) => usize::from(more),
        (true, more) => 1 + usize::from(more),
    };
    parts.extend(std::iter::repeat_with(mark).take(checks));
    Ok(Txn::Multi(parts))
}

/// The reply of a transaction that a deltree has become. `None` if it has become another one.
pub fn delete_tree_reply(txn: &Txn) -> Option<DeleteTreeReply> {
    let Txn::Multi(parts) = txn else { return None };
    let deleted = parts.iter().filter(|SubTxn(part)| matches!(part, Txn::Delete(_))).count();
    let checks = parts.iter().filter(|SubTxn(part)| matches!(part, Txn::Check(_))).count();
    if deleted + checks != parts.len() {
        return None;
    }
    let more = if deleted > 0 { checks > 0 } else { checks > 1 };
    Some(DeleteTreeReply { deleted: i64::try_from(deleted).ok()?, more })
}

impl SubtreeDelete<'_> {
    /// Visits the nodes of the subtree, each after all nodes below it.
    fn run(&mut self, stage: &mut PrepareScope<'_, '_>) -> Result<(), PrepareRefusal> {
        let tree = stage.tree;
        let mut path = self.request.root.to_string();
        let Some(top) = tree.find(&path) else {
            // Its creation is pending.
            self.more |= matches!(self.visit_root(stage, &path)?, VisitedNode::Full);
            return Ok(());
        };
        let mut at = self.descend(tree, top, &mut path);
        loop {
            let visited = if at == top { self.visit_root(stage, &path)? } else { self.visit(stage, &path)? };
            let children_left = self.left.pop().unwrap_or(0);
            debug_assert!(children_left == 0 || !matches!(visited, VisitedNode::Deleted));
            match visited {
                VisitedNode::Full => {
                    self.more = true;
                    return Ok(());
                }
                VisitedNode::Stays => {
                    if let Some(siblings_left) = self.left.last_mut() {
                        *siblings_left += 1;
                    }
                }
                VisitedNode::Deleted | VisitedNode::Gone => {}
            }
            if at == top {
                return Ok(());
            }
            let node = tree.nodes.get(at);
            path.truncate(path.len() - node.name.as_bytes().len() - 1);
            at = match node.next.some() {
                Some(next) => {
                    self.enter(tree, next, &mut path);
                    self.descend(tree, next, &mut path)
                }
                None => node.parent,
            };
        }
    }

    fn enter(&mut self, tree: &Tree, id: NodeId, path: &mut String) {
        path.push('/');
        path.push_str(tree.nodes.get(id).name.as_str());
        self.left.push(0);
    }

    /// Follows first children down to a leaf.
    fn descend(&mut self, tree: &Tree, mut id: NodeId, path: &mut String) -> NodeId {
        while let Some(child) = tree.nodes.branch(tree.nodes.get(id)).first_child.some() {
            self.enter(tree, child, path);
            id = child;
        }
        id
    }

    fn visit_root(
        &mut self,
        stage: &mut PrepareScope<'_, '_>,
        path: &str,
    ) -> Result<VisitedNode, PrepareRefusal> {
        if !self.request.keep_root {
            return self.visit(stage, path);
        }
        if let Ok(node) = stage.get(path) {
            self.note_pending_children(node.child_count);
        }
        Ok(VisitedNode::Stays)
    }

    /// Deletes a node if it has no children any more.
    fn visit(&mut self, stage: &mut PrepareScope<'_, '_>, path: &str) -> Result<VisitedNode, PrepareRefusal> {
        let max = usize::try_from(self.request.max).unwrap_or(0);
        self.visits += 1;
        if self.parts.len() >= max || self.visits > self.visits_max {
            return Ok(VisitedNode::Full);
        }
        let Ok(node) = stage.get(path) else {
            self.has_gone = true;
            return Ok(VisitedNode::Gone);
        };
        if node.child_count > 0 {
            self.note_pending_children(node.child_count);
            return Ok(VisitedNode::Stays);
        }
        if self.request.leave_ephemerals && node.session.is_some() {
            return Ok(VisitedNode::Stays);
        }
        let bytes = SubTxn(Txn::Delete(path.into())).encoded_length();
        if self.bytes + bytes > self.bytes_max && !self.parts.is_empty() {
            return Ok(VisitedNode::Full);
        }
        let txn = delete::prepare(stage, DeleteRequest { path: Some(path.into()), version: -1 })?;
        self.bytes += bytes;
        self.parts.push(SubTxn(txn));
        Ok(VisitedNode::Deleted)
    }

    /// Children that are not among the visited ones are created by a pending request.
    fn note_pending_children(&mut self, child_count: u32) {
        let children_left = self.left.last().copied().unwrap_or(0);
        self.more |= child_count > children_left;
    }
}
