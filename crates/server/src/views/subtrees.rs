//! The paths of a subtree, leaves first, for a recursive delete. Bounded in number and bytes, and read in
//! slices: one hold of the replica lock visits a bounded number of nodes.

use zebu_proto::ErrorCode;
use zebu_tree::{Credentials, NodeRef};

use super::ServerViews;

/// Nodes that are visited under one hold of the replica lock.
const NODES_PER_HOLD: usize = 1024;

/// Bytes of the collected paths.
const PATH_BYTES_MAX: usize = 8 << 20;

/// A scan of one subtree.
#[derive(Debug)]
pub struct SubtreeScan {
    root: String,
    credentials: Credentials,
    max: usize,
    bytes: usize,
    /// Paths, each after all paths below it.
    paths: Vec<String>,
}

/// Where a scan stands.
#[derive(Debug, PartialEq, Eq)]
pub enum SubtreeProgress {
    /// Call again.
    More,
    /// The collected paths, and whether nodes of the subtree are missing among them.
    Done {
        /// Leaves first.
        paths: Vec<String>,
        /// Whether the scan ended before the root.
        has_more: bool,
    },
}

impl SubtreeScan {
    /// Collects at most `max` paths.
    pub fn new(root: &str, credentials: &Credentials, max: usize) -> SubtreeScan {
        SubtreeScan {
            root: root.to_owned(),
            credentials: credentials.clone(),
            max,
            bytes: 0,
            paths: Vec::new(),
        }
    }

    fn done(&mut self, has_more: bool) -> SubtreeProgress {
        SubtreeProgress::Done { paths: std::mem::take(&mut self.paths), has_more }
    }
}

impl ServerViews {
    /// Continues a scan under one hold of the replica lock.
    ///
    /// # Errors
    /// NoNode of the root, or NoAuth of a node whose children the caller may not list.
    pub fn scan_subtree(&self, scan: &mut SubtreeScan) -> Result<SubtreeProgress, ErrorCode> {
        let replica = self.shared.read_replica();
        let may_list =
            |node: &NodeRef<'_>| replica.readable_node(&node.path(), &scan.credentials).map(|_| ());
        let tree = replica.tree();
        let root = tree.node(&scan.root).ok_or(ErrorCode::NoNode)?;
        let mut steps = 0;
        let mut at = match scan.paths.last() {
            None => deepest_first(root, &may_list, &mut steps)?,
            // Without its place the scan ends early; the caller deletes what it has, and asks again.
            Some(last) => match tree.node(last) {
                None => return Ok(scan.done(true)),
                Some(last) => match following(last, &may_list, &mut steps)? {
                    None => return Ok(scan.done(false)),
                    Some(next) => next,
                },
            },
        };
        loop {
            let path = at.path();
            let is_root = path == scan.root;
            scan.bytes += path.len();
            scan.paths.push(path);
            if is_root {
                return Ok(scan.done(false));
            }
            if scan.paths.len() >= scan.max || scan.bytes > PATH_BYTES_MAX {
                return Ok(scan.done(true));
            }
            steps += 1;
            if steps >= NODES_PER_HOLD {
                return Ok(SubtreeProgress::More);
            }
            match following(at, &may_list, &mut steps)? {
                Some(next) => at = next,
                None => return Ok(scan.done(false)),
            }
        }
    }
}

/// The next node in the order that visits a node after all nodes below it.
fn following<'a>(
    node: NodeRef<'a>,
    may_list: &impl Fn(&NodeRef<'_>) -> Result<(), ErrorCode>,
    steps: &mut usize,
) -> Result<Option<NodeRef<'a>>, ErrorCode> {
    match node.next_sibling() {
        Some(sibling) => deepest_first(sibling, may_list, steps).map(Some),
        None => Ok(node.parent()),
    }
}

/// Follows the oldest children down to a leaf.
fn deepest_first<'a>(
    mut node: NodeRef<'a>,
    may_list: &impl Fn(&NodeRef<'_>) -> Result<(), ErrorCode>,
    steps: &mut usize,
) -> Result<NodeRef<'a>, ErrorCode> {
    while let Some(child) = node.first_child() {
        may_list(&node)?;
        *steps += 1;
        node = child;
    }
    Ok(node)
}
