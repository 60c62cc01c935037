//! The nodes of a subtree as they will be when all earlier requests are applied, leaves first.

use std::cmp::Reverse;

use zebu_proto::ErrorCode;
use zebu_proto::txn::{DIGEST_VERSION, SubTxn, Txn, TxnDigest};

use crate::node::NodeId;
use crate::overlay::VISITS_MAX;
use crate::prep::scope::PrepareScope;
use crate::tree::Tree;

/// Bytes of the deletes of one transaction: servers of older releases refuse longer packets than
/// `jute.maxbuffer`. The rest is for the header, the digest and the mark of a deltree.
const BYTES_MAX: usize = 0xf_ffff - (1 << 16);

/// The paths of a subtree, each after all paths below it.
pub(super) struct SubtreeNodes {
    pub(super) paths: Vec<Box<str>>,
    nodes_max: usize,
    bytes: usize,
    bytes_max: usize,
    /// Children of the nodes that were found.
    children: usize,
    visits: usize,
    visits_max: usize,
}

impl SubtreeNodes {
    /// # Errors
    /// NotEmpty: the subtree has more nodes, or their deletes have more bytes, than one transaction may have.
    /// OperationTimeout: the requests since the last applied transaction have visited too many nodes.
    pub(super) fn collect(
        stage: &mut PrepareScope<'_, '_>,
        root: &str,
        nodes_max: usize,
    ) -> Result<SubtreeNodes, ErrorCode> {
        let bytes_max = deletes_bytes_max(stage, 0);
        let visits_max = stage.visits_left();
        let mut nodes = SubtreeNodes {
            paths: Vec::new(),
            nodes_max,
            bytes: 0,
            bytes_max,
            children: 0,
            visits: 0,
            visits_max,
        };
        let is_complete = nodes.add_all(stage, root).is_some();
        let kept = if is_complete { nodes.paths.len() } else { 0 };
        stage.waste_visits(nodes.visits.saturating_sub(kept));
        match is_complete {
            true => {}
            false if nodes.visits > visits_max && visits_max < VISITS_MAX => {
                return Err(ErrorCode::OperationTimeout);
            }
            false => return Err(ErrorCode::NotEmpty),
        }
        // One order, whether a node is pending or applied.
        let depth = |path: &str| path.bytes().filter(|byte| *byte == b'/').count();
        nodes.paths.sort_unstable_by(|a, b| Reverse(depth(a)).cmp(&Reverse(depth(b))).then_with(|| a.cmp(b)));
        Ok(nodes)
    }

    /// `None`: a limit is reached.
    fn add_all(&mut self, stage: &PrepareScope<'_, '_>, root: &str) -> Option<()> {
        let mut path = root.to_owned();
        if let Some(top) = stage.tree.find(root) {
            let mut at = descend(stage.tree, top, &mut path);
            loop {
                self.visits += 1;
                if self.visits > self.visits_max {
                    return None;
                }
                self.add(stage, &path)?;
                if at == top {
                    break;
                }
                at = following(stage.tree, at, &mut path);
            }
        } else {
            self.add(stage, root)?;
        }
        // The root is a child of a node outside.
        if self.children + 1 > self.paths.len() {
            self.visits += stage.pending_changes();
            for path in pending_below(stage, root) {
                self.add(stage, &path)?;
            }
        }
        Some(())
    }

    /// Adds a node, unless an earlier request deletes it. `None`: a limit is reached.
    fn add(&mut self, stage: &PrepareScope<'_, '_>, path: &str) -> Option<()> {
        let Ok(node) = stage.get(path) else { return Some(()) };
        self.children += node.child_count as usize;
        self.bytes += SubTxn(Txn::Delete(path.into())).encoded_length();
        self.paths.push(path.into());
        (self.paths.len() <= self.nodes_max && self.bytes <= self.bytes_max).then_some(())
    }
}

/// Bytes that the deletes of one transaction may have beside these bytes of other parts. With a small
/// `jute.maxbuffer`, header and digest count: the whole transaction must not be too long.
pub(super) fn deletes_bytes_max(stage: &PrepareScope<'_, '_>, others: usize) -> usize {
    let digest = TxnDigest { version: DIGEST_VERSION, tree_digest: 0 };
    let empty = Txn::Multi(Vec::new()).entry_length(Some(&digest));
    BYTES_MAX.min(stage.context.policy.transaction_bytes_max.saturating_sub(empty + others))
}

/// Follows first children down to a leaf.
fn descend(tree: &Tree, mut id: NodeId, path: &mut String) -> NodeId {
    while let Some(child) = tree.nodes.branch(tree.nodes.get(id)).first_child.some() {
        enter(tree, child, path);
        id = child;
    }
    id
}

fn enter(tree: &Tree, id: NodeId, path: &mut String) {
    path.push('/');
    path.push_str(tree.nodes.get(id).name.as_str());
}

/// The first leaf below the next sibling, or the parent behind the last sibling.
fn following(tree: &Tree, at: NodeId, path: &mut String) -> NodeId {
    let node = tree.nodes.get(at);
    path.truncate(path.len() - node.name.as_bytes().len() - 1);
    match node.next.some() {
        Some(next) => {
            enter(tree, next, path);
            descend(tree, next, path)
        }
        None => node.parent,
    }
}

/// Paths below a node that only pending requests create, sorted.
fn pending_below(stage: &PrepareScope<'_, '_>, root: &str) -> Vec<Box<str>> {
    let is_new = |pending: &&str| {
        let below = pending.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
        below && stage.tree.find(pending).is_none()
    };
    let mut paths: Vec<Box<str>> = stage.pending_paths().filter(is_new).map(Box::from).collect();
    paths.sort_unstable();
    paths
}
