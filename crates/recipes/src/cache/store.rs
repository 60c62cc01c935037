//! The nodes of a cache, and what a fresh look at one of them means. Pure: it owns no connection.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use zebu_client::{Stat, path};

use super::changes::Change;

/// A node as a cache saw it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedNode {
    /// Its path.
    pub path: String,
    /// Its data.
    pub data: Bytes,
    /// Its bookkeeping. The counts of children are those of the moment when the data was read.
    pub stat: Stat,
}

/// All nodes of a cache by their paths.
pub(super) type Nodes = BTreeMap<String, Arc<CachedNode>>;

/// Takes a node that was read. A node that was deleted and made again is told as both, whatever its version.
pub(super) fn put(nodes: &mut Nodes, node: CachedNode) -> Vec<Change> {
    let node = Arc::new(node);
    let old = nodes.insert(node.path.clone(), node.clone());
    match old {
        None => vec![Change::Created(node)],
        Some(old) if old.stat.czxid != node.stat.czxid => vec![Change::Deleted(old), Change::Created(node)],
        Some(old) if old.stat.mzxid != node.stat.mzxid => vec![Change::Updated { old, new: node }],
        Some(_) => Vec::new(),
    }
}

/// Takes a node out, with all below it; the lowest first.
pub(super) fn remove(nodes: &mut Nodes, path: &str) -> Vec<Change> {
    let mut gone: Vec<String> = below(nodes, path).map(|(path, _)| path.clone()).collect();
    gone.reverse();
    gone.push(path.to_owned());
    gone.iter().filter_map(|path| nodes.remove(path)).map(Change::Deleted).collect()
}

/// All below a node, in the order of their paths.
pub(super) fn below<'a>(
    nodes: &'a Nodes,
    path: &str,
) -> impl Iterator<Item = (&'a String, &'a Arc<CachedNode>)> {
    let prefix = if path == "/" { "/".to_owned() } else { format!("{path}/") };
    let from = (Bound::Excluded(prefix.clone()), Bound::Unbounded);
    nodes.range(from).take_while(move |(path, _)| path.starts_with(&prefix))
}

/// The children of a node.
pub(super) fn children<'a>(nodes: &'a Nodes, of: &'a str) -> impl Iterator<Item = &'a Arc<CachedNode>> {
    below(nodes, of).filter(move |(path, _)| path::parent(path) == Some(of)).map(|(_, node)| node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(path: &str, czxid: i64, mzxid: i64) -> CachedNode {
        let stat = Stat { czxid, mzxid, ..Stat::default() };
        CachedNode { path: path.to_owned(), data: Bytes::new(), stat }
    }

    #[test]
    fn a_node_made_again_is_told_as_deleted_and_created() {
        let mut nodes = Nodes::new();
        assert!(matches!(&put(&mut nodes, node("/a", 1, 1))[..], [Change::Created(_)]));
        assert!(put(&mut nodes, node("/a", 1, 1)).is_empty());
        assert!(matches!(&put(&mut nodes, node("/a", 1, 2))[..], [Change::Updated { .. }]));
        assert!(matches!(&put(&mut nodes, node("/a", 3, 3))[..], [Change::Deleted(_), Change::Created(_)]));
    }

    #[test]
    fn what_goes_takes_along_what_is_below_and_nothing_else() {
        let mut nodes = Nodes::new();
        for path in ["/", "/a", "/a/b", "/a/b/c", "/a-b", "/ab"] {
            put(&mut nodes, node(path, 1, 1));
        }
        let paths = |changes: Vec<Change>| {
            let path = |change| match change {
                Change::Deleted(node) => node.path.clone(),
                other => panic!("{other:?}"),
            };
            changes.into_iter().map(path).collect::<Vec<_>>()
        };
        assert_eq!(children(&nodes, "/").count(), 3);
        assert_eq!(children(&nodes, "/a").count(), 1);
        assert_eq!(paths(remove(&mut nodes, "/a")), ["/a/b/c", "/a/b", "/a"]);
        assert_eq!(paths(remove(&mut nodes, "/none")), [""; 0]);
        assert_eq!(nodes.keys().collect::<Vec<_>>(), ["/", "/a-b", "/ab"]);
    }
}
