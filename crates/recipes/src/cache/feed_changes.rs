//! How the transactions of a feed change the nodes of a cache. Pure: the nodes that must be read are named,
//! and given to the changes afterwards.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use zebu_client::{ChangeKind, Compression, Error, FeedTransaction, NodeChange, path};

use super::area::CacheArea;
use super::changes::CacheChange;
use super::handle::CacheState;
use super::store::{CachedNode, Nodes, below};

/// The nodes that were read: a node, `None` if it is missing, or why it cannot be read.
pub(super) type FeedReads = BTreeMap<String, Result<Option<CachedNode>, Error>>;

/// The changes of one transaction in the area of a cache.
#[derive(Debug)]
pub(super) struct PlannedTransaction {
    pub(super) zxid: i64,
    pub(super) time_ms: i64,
    pub(super) changes: Vec<PlannedChange>,
}

/// A change of one node.
#[derive(Debug)]
pub(super) struct PlannedChange {
    pub(super) path: String,
    pub(super) action: PlannedAction,
}

#[derive(Debug)]
pub(super) enum PlannedAction {
    /// The node was created and is read: a feed does not tell who may read it.
    Create,
    /// The node is read, because the change alone does not say what the client may see of it.
    Read,
    Set(DataChange),
    Delete,
}

/// New data of a node.
#[derive(Debug)]
pub(super) struct DataChange {
    pub(super) version: i32,
    pub(super) data: Bytes,
    /// The length that the server has.
    pub(super) length: i32,
}

/// Transactions in the area of a cache, and the nodes that must be read to apply them.
#[derive(Debug, Default)]
pub(super) struct FeedPlan {
    pub(super) txns: Vec<PlannedTransaction>,
    pub(super) reads: BTreeSet<String>,
}

impl FeedPlan {
    /// Plans for a copy as it is before these transactions.
    pub(super) fn new(
        txns: Vec<FeedTransaction>,
        area: &CacheArea,
        copy: &CacheState,
        compression: Compression,
    ) -> FeedPlan {
        let mut plan = FeedPlan::default();
        let nodes = copy.nodes();
        for FeedTransaction { zxid, time_ms, changes, .. } in txns {
            let in_area = changes.into_iter().filter(|change| area.contains(&change.path));
            let mut planned = Vec::new();
            for change in in_area.filter(|change| !copy.is_below_unreadable(&change.path)) {
                let is_known = nodes.contains_key(&change.path);
                // A node that is left out may become readable. One that was deleted meanwhile is not there.
                let may_appear = !is_known
                    && (copy.is_unreadable(&change.path)
                        || change.path == area.root
                        || path::parent(&change.path).is_some_and(|parent| nodes.contains_key(parent)));
                let Some(change) = planned_change(change, may_appear, compression) else { continue };
                if matches!(change.action, PlannedAction::Create | PlannedAction::Read) {
                    plan.reads.insert(change.path.clone());
                }
                planned.push(change);
            }
            plan.txns.push(PlannedTransaction { zxid, time_ms, changes: planned });
        }
        plan
    }
}

fn planned_change(change: NodeChange, may_appear: bool, compression: Compression) -> Option<PlannedChange> {
    let NodeChange { kind, path, version, data, .. } = change;
    let action = match (kind, data) {
        (ChangeKind::Created, _) => PlannedAction::Create,
        (ChangeKind::Deleted, _) => PlannedAction::Delete,
        (ChangeKind::DataChanged, Some(raw)) if !may_appear => {
            let length = i32::try_from(raw.len()).unwrap_or(i32::MAX);
            match compression.unpack(raw) {
                Ok(data) => PlannedAction::Set(DataChange { version, data, length }),
                Err(_) => PlannedAction::Read,
            }
        }
        (ChangeKind::DataChanged | ChangeKind::AclChanged, _) => PlannedAction::Read,
        (ChangeKind::SessionOpened | ChangeKind::SessionEnded, _) => return None,
    };
    Some(PlannedChange { path, action })
}

/// Sets the data of a node, unless the copy has this or a later change.
pub(super) fn set_data(
    nodes: &mut Nodes,
    path: &str,
    (zxid, time_ms): (i64, i64),
    change: DataChange,
) -> Option<CacheChange> {
    let old = nodes.get(path).filter(|node| node.stat.mzxid < zxid)?.clone();
    let mut new = CachedNode { data: change.data, ..(*old).clone() };
    new.stat.mzxid = zxid;
    new.stat.mtime = time_ms;
    new.stat.version = change.version;
    new.stat.data_length = change.length;
    let new = std::sync::Arc::new(new);
    nodes.insert(path.to_owned(), new.clone());
    Some(CacheChange::Updated { old, new })
}

/// Deletes a node with its descendants, as far as they are older than the transaction. Later ones were read
/// ahead of the feed.
pub(super) fn delete(nodes: &mut Nodes, path: &str, zxid: i64) -> Vec<CacheChange> {
    let at = nodes.get(path).map(|node| (path, node));
    let all = at.into_iter().chain(below(nodes, path).map(|(path, node)| (path.as_str(), node)));
    let older = all.filter(|(_, node)| node.stat.czxid < zxid);
    let mut gone: Vec<String> = older.map(|(path, _)| path.to_owned()).collect();
    gone.reverse();
    gone.iter().filter_map(|path| nodes.remove(path)).map(CacheChange::Deleted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::store::put;
    use zebu_client::Stat;

    fn nodes(all: &[(&str, i64, i64)]) -> Nodes {
        let mut nodes = Nodes::new();
        for &(path, czxid, mzxid) in all {
            let stat = Stat { czxid, mzxid, ..Stat::default() };
            put(&mut nodes, CachedNode { path: path.to_owned(), data: Bytes::new(), stat });
        }
        nodes
    }

    fn data(text: &'static str) -> DataChange {
        DataChange { version: 4, data: Bytes::from_static(text.as_bytes()), length: 9 }
    }

    #[test]
    fn data_that_was_read_ahead_of_the_feed_stays() {
        let mut nodes = nodes(&[("/a", 1, 5)]);
        assert_eq!(set_data(&mut nodes, "/a", (4, 0), data("old")), None);
        assert_eq!(set_data(&mut nodes, "/a", (5, 0), data("same")), None);
        assert_eq!(set_data(&mut nodes, "/b", (7, 0), data("missing")), None);
        let Some(CacheChange::Updated { old, new }) = set_data(&mut nodes, "/a", (6, 77), data("new")) else {
            panic!("it is newer")
        };
        assert_eq!((old.stat.mzxid, new.stat.mzxid, new.stat.mtime), (5, 6, 77));
        assert_eq!((new.stat.czxid, new.stat.version, new.stat.data_length), (1, 4, 9));
        assert_eq!((&new.data[..], &nodes["/a"].data[..]), (&b"new"[..], &b"new"[..]));
    }

    #[test]
    fn nodes_that_were_created_behind_a_delete_stay() {
        let mut nodes = nodes(&[("/a", 1, 1), ("/a/b", 2, 2), ("/a/c", 9, 9), ("/ab", 1, 1), ("/d", 9, 9)]);
        let paths = |changes: Vec<CacheChange>| {
            let path = |change| match change {
                CacheChange::Deleted(node) => node.path.clone(),
                other => panic!("{other:?}"),
            };
            changes.into_iter().map(path).collect::<Vec<_>>()
        };
        assert_eq!(paths(delete(&mut nodes, "/d", 8)), [""; 0]);
        assert_eq!(paths(delete(&mut nodes, "/a", 8)), ["/a/b", "/a"]);
        assert_eq!(nodes.keys().collect::<Vec<_>>(), ["/a/c", "/ab", "/d"]);
    }
}
