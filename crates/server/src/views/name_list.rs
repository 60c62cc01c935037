//! All names of the children of a node, sorted, for lists that a person scrolls.
//!
//! The names are collected in parts, each under one hold of the replica lock. Children that come or go
//! meanwhile may be in the list or not; the pzxid of the parent tells whether there were any.

use zebu_node::Replica;
use zebu_proto::{ErrorCode, Permissions};
use zebu_tree::{ChildBound, Credentials, access};

use super::{ChildView, ServerViews, StatView};

/// Names that are collected under one hold of the replica lock.
const NAMES_PER_HOLD: usize = 2048;

/// Bytes of the names of one list, with [`NAME_OVERHEAD`] per name.
const LIST_BYTES_MAX: usize = 64 << 20;
const NAME_OVERHEAD: usize = 16;

/// The names of all children, sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameList {
    /// The names, in their byte order.
    pub names: Vec<Box<str>>,
    /// The parent before the first name was collected.
    pub parent: StatView,
    /// Bytes of the names, with those around each name.
    pub bytes: usize,
}

/// A list in progress.
#[derive(Debug)]
pub struct NameScan {
    path: String,
    credentials: Credentials,
    names: Vec<Box<str>>,
    bytes: usize,
    parent: Option<StatView>,
}

/// Where a scan stands.
#[derive(Debug, PartialEq, Eq)]
pub enum NameProgress {
    /// Call again, after others had their turn.
    More,
    /// The names.
    Done(NameList),
    /// The names need more memory than one list may have.
    TooLong,
}

impl NameScan {
    /// Begins with the first name.
    pub fn new(path: &str, credentials: &Credentials) -> NameScan {
        let (path, credentials) = (path.to_owned(), credentials.clone());
        NameScan { path, credentials, names: Vec::new(), bytes: 0, parent: None }
    }

    fn advance(&mut self, replica: &Replica, max: usize) -> Result<NameProgress, ErrorCode> {
        let parent = replica.readable_node(&self.path, &self.credentials)?;
        let before = *self.parent.get_or_insert_with(|| StatView::of(&parent, replica.last_zxid()));
        let bound = ChildBound::AfterName(self.names.last().map_or("", |name| name));
        let sort = replica.listing_settings().sort;
        let Some(found) = replica.tree().children_after(&parent, bound, max, sort) else {
            // The order of the children is being prepared.
            return Ok(NameProgress::More);
        };
        for child in &found {
            self.bytes += child.name().len() + NAME_OVERHEAD;
            self.names.push(child.name().into());
        }
        Ok(if self.bytes > LIST_BYTES_MAX {
            NameProgress::TooLong
        } else if found.len() < max {
            let names = std::mem::take(&mut self.names);
            NameProgress::Done(NameList { names, parent: before, bytes: self.bytes })
        } else {
            NameProgress::More
        })
    }
}

impl ServerViews {
    /// Continues a scan under one hold of the replica lock.
    ///
    /// # Errors
    /// NoNode or NoAuth of the parent.
    pub fn scan_names(&self, scan: &mut NameScan) -> Result<NameProgress, ErrorCode> {
        scan.advance(&self.shared.read_replica(), NAMES_PER_HOLD)
    }

    /// The children with these names as they are now; names that are gone are left out. The caller bounds the
    /// number of names.
    ///
    /// # Errors
    /// NoNode or NoAuth of the parent.
    pub fn read_children(
        &self,
        path: &str,
        names: &[Box<str>],
        credentials: &Credentials,
    ) -> Result<Vec<ChildView>, ErrorCode> {
        let replica = self.shared.read_replica();
        let parent = replica.readable_node(path, credentials)?;
        let zxid = replica.last_zxid();
        let children = names.iter().filter_map(|name| {
            let child = parent.child(name)?;
            let may_read = access::allowed(child.acl(), Permissions::READ, credentials, replica.policy());
            let node = may_read.then(|| StatView::of(&child, zxid));
            Some(ChildView { name: name.to_string(), node })
        });
        Ok(children.collect())
    }
}

#[cfg(test)]
mod tests {
    use zebu_node::AuthEnforcement;
    use zebu_proto::txn::{CreateTxn, Txn, TxnHeader};
    use zebu_proto::{Acl, SessionId, Zxid};
    use zebu_tree::{Policy, Tree, TreeOptions};

    use super::*;

    fn replica(children: usize) -> Replica {
        let mut tree = Tree::new(TreeOptions::default());
        let names = (0..children).map(|number| format!("/p/{:04}", number * 7 % children.max(1)));
        for (zxid, path) in (1..).zip(std::iter::once("/p".to_owned()).chain(names)) {
            let header = TxnHeader { session: SessionId::NONE, cxid: 0, zxid: Zxid(zxid), time_ms: 0 };
            let acl = Some(Acl::open().into());
            let path = path.as_str().into();
            let create = CreateTxn { path, data: None, acl, ephemeral: false, parent_cversion: -1 };
            tree.apply(&header, &Txn::Create(create), &mut |_| ());
        }
        Replica::new(tree, Policy::default(), AuthEnforcement::Off, 3)
    }

    fn list(replica: &Replica, path: &str, max: usize) -> Result<NameList, ErrorCode> {
        let mut scan = NameScan::new(path, &Credentials::none());
        for _ in 0..1000 {
            if let NameProgress::Done(list) = scan.advance(replica, max)? {
                return Ok(list);
            }
        }
        panic!("the list has no end");
    }

    #[test]
    fn a_list_of_many_parts_has_each_name_once_in_order() {
        let replica = replica(500);
        let expected: Vec<Box<str>> = (0..500).map(|number| format!("{number:04}").into()).collect();
        for max in [1, 7, 500, 501] {
            let list = list(&replica, "/p", max).unwrap();
            assert_eq!(list.names, expected, "{max} names in a part");
            assert_eq!((list.parent.stat.num_children, list.bytes), (500, 500 * (4 + NAME_OVERHEAD)));
        }
    }

    #[test]
    fn a_node_without_children_has_an_empty_list_and_no_node_has_none() {
        let replica = replica(0);
        assert_eq!(list(&replica, "/p", 10).unwrap().names.len(), 0);
        assert_eq!(list(&replica, "/x", 10), Err(ErrorCode::NoNode));
    }
}
