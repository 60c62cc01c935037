//! The nodes of a cache, and the changes that a fresh read implies. Pure: it owns no connection.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use zebu_client::{Stat, path};

use super::changes::CacheChange;

/// A node as the cache last read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedNode {
    /// Its path.
    pub path: String,
    /// Its data.
    pub data: Bytes,
    /// Its stat. The counts of children are those of the read.
    pub stat: Stat,
}

/// All nodes of a cache by their paths.
pub(super) type Nodes = BTreeMap<String, Arc<CachedNode>>;

/// Stores a node that was read. A node that was deleted and created again yields both changes, whatever its
/// version.
pub(super) fn put(nodes: &mut Nodes, node: CachedNode) -> Vec<CacheChange> {
    let node = Arc::new(node);
    let old = nodes.insert(node.path.clone(), node.clone());
    match old {
        None => vec![CacheChange::Created(node)],
        Some(old) if old.stat.czxid != node.stat.czxid => {
            vec![CacheChange::Deleted(old), CacheChange::Created(node)]
        }
        Some(old) if old.stat.mzxid != node.stat.mzxid => vec![CacheChange::Updated { old, new: node }],
        Some(_) => Vec::new(),
    }
}

/// Removes a node with all its descendants, the deepest first.
pub(super) fn remove(nodes: &mut Nodes, path: &str) -> Vec<CacheChange> {
    let mut gone: Vec<String> = below(nodes, path).map(|(path, _)| path.clone()).collect();
    gone.reverse();
    gone.push(path.to_owned());
    gone.iter().filter_map(|path| nodes.remove(path)).map(CacheChange::Deleted).collect()
}

/// All descendants of a node, sorted by path.
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
    fn a_recreated_node_yields_deleted_and_created() {
        let mut nodes = Nodes::new();
        assert!(matches!(&put(&mut nodes, node("/a", 1, 1))[..], [CacheChange::Created(_)]));
        assert!(put(&mut nodes, node("/a", 1, 1)).is_empty());
        assert!(matches!(&put(&mut nodes, node("/a", 1, 2))[..], [CacheChange::Updated { .. }]));
        assert!(matches!(
            &put(&mut nodes, node("/a", 3, 3))[..],
            [CacheChange::Deleted(_), CacheChange::Created(_)]
        ));
    }

    #[test]
    fn what_goes_takes_along_what_is_below_and_nothing_else() {
        let mut nodes = Nodes::new();
        for path in ["/", "/a", "/a/b", "/a/b/c", "/a-b", "/ab"] {
            put(&mut nodes, node(path, 1, 1));
        }
        let paths = |changes: Vec<CacheChange>| {
            let path = |change| match change {
                CacheChange::Deleted(node) => node.path.clone(),
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
