//! A walk over a subtree for searches, counts and exports: parents before their children, in slices.
//!
//! One hold of the replica lock visits a bounded number of nodes and bytes. Between two holds, and between
//! two pages, the walk is known by the path and the czxid of the last visited node. If that node is gone, the
//! walk goes on at the children of the nearest ancestor that still exists. A node that was created again
//! counts as gone: it is now the last child of its parent. So nodes may be visited twice, but none is left
//! out.

use zebu_node::Replica;
use zebu_proto::{ErrorCode, Permissions, Zxid};
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
    last: Option<WalkPlace>,
    has_jumped: bool,
}

/// The place of a walk: the last visited node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkPlace {
    /// Its path.
    pub path: String,
    /// The transaction that created it. `None` accepts any node with the path.
    pub czxid: Option<Zxid>,
}

impl WalkPlace {
    /// Whether this node, which is the last visited one or an ancestor of it, is still the one of the walk.
    /// Ancestors are not younger than the last visited node; one that was created again is.
    fn is_same(&self, node: &NodeRef<'_>) -> bool {
        self.czxid.is_none_or(|czxid| Zxid(node.czxid()) <= czxid)
    }
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
    pub fn new(root: &str, credentials: &Credentials, after: Option<WalkPlace>) -> TreeWalk {
        let last = after.filter(|place| is_within(&place.path, root));
        TreeWalk { root: root.to_owned(), credentials: credentials.clone(), last, has_jumped: false }
    }

    /// The last visited node.
    pub fn last(&self) -> Option<&WalkPlace> {
        self.last.as_ref()
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
        let mut path = last.path.as_str();
        loop {
            // The walk may begin again at its root, also at another node with that path.
            let node = tree.node(path).filter(|node| last.is_same(node) || path == self.root);
            match node {
                Some(node) if path == last.path && last.is_same(&node) => {
                    return Ok(self.behind(replica, &node, path));
                }
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
        walk.last = Some(WalkPlace { path, czxid: Some(Zxid(node.czxid())) });
        if step == WalkStep::Pause || bytes >= BYTES_PER_HOLD {
            break;
        }
    }
    Ok(if next.is_some() { WalkProgress::More } else { WalkProgress::Done })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]
mod tests {
    use zebu_node::AuthEnforcement;
    use zebu_proto::SessionId;
    use zebu_proto::txn::{CreateTxn, Txn, TxnHeader};
    use zebu_tree::{Policy, Tree, TreeOptions};

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
            let place = WalkPlace { path: path.to_owned(), czxid: None };
            let walk = TreeWalk::new(root, &Credentials::none(), Some(place));
            assert_eq!(walk.last().is_some(), is_in, "{path} {root}");
        }
        assert_eq!((parent_path("/a/b"), parent_path("/a"), parent_path("/")), ("/a", "/", "/"));
    }
    fn header(zxid: i64) -> TxnHeader {
        TxnHeader { session: SessionId(0), cxid: 0, zxid: Zxid(zxid), time_ms: 1 }
    }

    fn create(tree: &mut Tree, zxid: i64, path: &str) {
        let acl = Some(zebu_proto::Acl::open().into());
        let create = CreateTxn { path: path.into(), data: None, acl, ephemeral: false, parent_cversion: -1 };
        tree.apply(&header(zxid), &Txn::Create(create), &mut |_| ());
    }

    fn replica(tree: Tree) -> Replica {
        Replica::new(tree, Policy::default(), AuthEnforcement::Off, 3)
    }

    /// Walks over `/s`, changes the tree after `pause` nodes, and returns all visited paths.
    fn walk_with_change(build: impl Fn(&mut Tree), pause: usize, change: impl Fn(&mut Tree)) -> Vec<String> {
        let (mut before, mut after) = (Tree::new(TreeOptions::default()), Tree::new(TreeOptions::default()));
        build(&mut before);
        build(&mut after);
        change(&mut after);
        let (before, after) = (replica(before), replica(after));
        let mut walk = TreeWalk::new("/s", &Credentials::none(), None);
        let mut seen = Vec::new();
        let mut current = &before;
        loop {
            let progress = walk_slice(current, &mut walk, &mut |node| {
                seen.push(node.path.to_owned());
                if seen.len() == pause { WalkStep::Pause } else { WalkStep::Continue }
            });
            if seen.len() >= pause {
                current = &after;
            }
            if progress.unwrap() == WalkProgress::Done {
                assert!(walk.has_jumped());
                return seen;
            }
        }
    }

    #[test]
    fn a_place_that_was_created_again_hides_no_siblings() {
        const CHILDREN: i64 = 3000;
        let build = |tree: &mut Tree| {
            create(tree, 1, "/s");
            (0..CHILDREN).for_each(|number| create(tree, number + 2, &format!("/s/n{number}")));
        };
        // The node `/s` is the first one.
        let seen = walk_with_change(build, 1501, |tree| {
            tree.apply(&header(9000), &Txn::Delete("/s/n1499".into()), &mut |_| ());
            create(tree, 9001, "/s/n1499");
        });
        assert!((0..CHILDREN).all(|number| seen.contains(&format!("/s/n{number}"))));
    }

    #[test]
    fn an_ancestor_that_was_created_again_hides_no_siblings() {
        let build = |tree: &mut Tree| {
            ["/s", "/s/a", "/s/a/x", "/s/b"]
                .iter()
                .zip(1..)
                .for_each(|(path, zxid)| create(tree, zxid, path));
        };
        let seen = walk_with_change(build, 3, |tree| {
            for (path, zxid) in [("/s/a/x", 10), ("/s/a", 11)] {
                tree.apply(&header(zxid), &Txn::Delete(path.into()), &mut |_| ());
            }
            create(tree, 12, "/s/a");
        });
        assert!(seen.contains(&"/s/b".to_owned()), "{seen:?}");
    }
}
