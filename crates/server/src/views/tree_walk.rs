//! A walk over a subtree for searches, counts and exports: parents before their children, in slices.
//!
//! One hold of the replica lock visits a bounded number of nodes and bytes. Between two holds, and between
//! two pages, the walk is known by the path of the last visited node. If that node is gone, the walk goes on
//! at the children of the nearest ancestor that exists. So nodes may be visited twice, but none is left out.

use zebu_node::Replica;
use zebu_proto::{ErrorCode, Permissions};
use zebu_tree::{Credentials, NodeRef, access};

use super::{ServerViews, StatView};

/// Nodes that are visited under one hold of the replica lock.
const NODES_PER_HOLD: usize = 1024;
/// Bytes of data that are shown to the visitor under one hold.
const BYTES_PER_HOLD: usize = 1 << 20;

/// A walk over one subtree.
#[derive(Clone, Debug)]
pub struct TreeWalk {
    root: String,
    credentials: Credentials,
    /// The last visited node; `None` before the first.
    last: Option<String>,
    has_jumped: bool,
}

/// A visited node.
#[derive(Debug)]
pub struct WalkedNode<'a> {
    /// Its path.
    pub path: &'a str,
    /// Stat, lifetime and data; `None` if the caller may not read the node. Its children are left out then.
    pub shown: Option<(StatView, Option<&'a [u8]>)>,
}

/// What a visitor wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkStep {
    /// The next node.
    Continue,
    /// No further node now.
    Pause,
}

/// Where a walk stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkProgress {
    /// The slice is over, or the visitor paused.
    More,
    /// All nodes were visited.
    Done,
}

impl TreeWalk {
    /// A walk below `root`, which is the first node, or behind the node `after` of an earlier walk.
    pub fn new(root: &str, credentials: &Credentials, after: Option<&str>) -> TreeWalk {
        let last = after.filter(|path| is_within(path, root)).map(str::to_owned);
        TreeWalk { root: root.to_owned(), credentials: credentials.clone(), last, has_jumped: false }
    }

    /// The last visited node.
    pub fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Whether nodes may have been visited twice, because the place of the walk was deleted.
    pub fn has_jumped(&self) -> bool {
        self.has_jumped
    }

    fn may_read(&self, replica: &Replica, node: &NodeRef<'_>) -> bool {
        access::allowed(node.acl(), Permissions::READ, &self.credentials, replica.policy())
    }

    /// The next node to visit.
    fn next<'a>(&mut self, replica: &'a Replica) -> Result<Option<NodeRef<'a>>, ErrorCode> {
        let tree = replica.tree();
        let root = tree.node(&self.root).ok_or(ErrorCode::NoNode)?;
        let Some(last) = self.last.clone() else { return Ok(Some(root)) };
        let mut path = last.as_str();
        loop {
            match tree.node(path) {
                Some(node) if path == last => return Ok(self.behind(replica, &node, path)),
                Some(node) => {
                    self.has_jumped = true;
                    return Ok(match self.may_read(replica, &node).then(|| node.first_child()).flatten() {
                        Some(child) => Some(child),
                        None => self.behind(replica, &node, path),
                    });
                }
                None => path = parent_path(path),
            }
        }
    }

    /// The node behind `node` in the order of the walk.
    fn behind<'a>(&self, replica: &Replica, node: &NodeRef<'a>, path: &str) -> Option<NodeRef<'a>> {
        if self.may_read(replica, node)
            && let Some(child) = node.first_child()
        {
            return Some(child);
        }
        let (mut node, mut path) = (*node, path);
        while path != self.root {
            if let Some(sibling) = node.next_sibling() {
                return Some(sibling);
            }
            node = node.parent()?;
            path = parent_path(path);
        }
        None
    }
}

fn parent_path(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(end) => &path[..end],
    }
}

fn is_within(path: &str, root: &str) -> bool {
    path == root || root == "/" || path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'))
}

impl ServerViews {
    /// Continues a walk under one hold of the replica lock.
    ///
    /// # Errors
    /// NoNode of the root.
    pub fn walk_tree(
        &self,
        walk: &mut TreeWalk,
        visit: &mut dyn FnMut(&WalkedNode<'_>) -> WalkStep,
    ) -> Result<WalkProgress, ErrorCode> {
        let replica = self.shared.read_replica();
        walk_slice(&replica, walk, visit)
    }
}

fn walk_slice(
    replica: &Replica,
    walk: &mut TreeWalk,
    visit: &mut dyn FnMut(&WalkedNode<'_>) -> WalkStep,
) -> Result<WalkProgress, ErrorCode> {
    let zxid = replica.last_zxid();
    let mut bytes = 0;
    let mut next = walk.next(replica)?;
    for _ in 0..NODES_PER_HOLD {
        let Some(node) = next else { return Ok(WalkProgress::Done) };
        let path = node.path();
        let shown = walk.may_read(replica, &node).then(|| (StatView::of(&node, zxid), node.data()));
        bytes += path.len() + shown.as_ref().and_then(|(_, data)| *data).map_or(0, <[u8]>::len);
        let step = visit(&WalkedNode { path: &path, shown });
        next = walk.behind(replica, &node, &path);
        walk.last = Some(path);
        if step == WalkStep::Pause || bytes >= BYTES_PER_HOLD {
            break;
        }
    }
    Ok(if next.is_some() { WalkProgress::More } else { WalkProgress::Done })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_stays_in_its_subtree() {
        for (path, root, is_in) in [
            ("/a/b", "/a", true),
            ("/a", "/a", true),
            ("/ab", "/a", false),
            ("/", "/a", false),
            ("/x", "/", true),
        ] {
            assert_eq!(is_within(path, root), is_in, "{path} {root}");
            let walk = TreeWalk::new(root, &Credentials::none(), Some(path));
            assert_eq!(walk.last().is_some(), is_in, "{path} {root}");
        }
        assert_eq!((parent_path("/a/b"), parent_path("/a"), parent_path("/")), ("/a", "/", "/"));
    }
}
