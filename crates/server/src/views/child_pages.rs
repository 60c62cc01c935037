//! Pages of the children of a node, in the byte order of their names.
//!
//! The tree keeps children in the order of their creation, so each page walks all of them. The walk is cut
//! into slices: one hold of the replica lock visits a bounded number of children, and copies only names that
//! may belong to the page. A child that exists during the whole walk is on exactly one page.

use std::collections::BTreeSet;

use zebu_node::Replica;
use zebu_proto::{ErrorCode, Permissions};
use zebu_tree::{Credentials, NodeRef, access};

use super::{ServerViews, StatView};

/// Children that are visited under one hold of the replica lock.
const CHILDREN_PER_HOLD: usize = 2048;

/// Visited children by which a walk finds its place again; the newest that still exists is taken.
const PLACES_MAX: usize = 8;

/// Walks that lost their place before the scan is given up.
const RESTARTS_MAX: usize = 16;

/// A child on a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildView {
    /// Its name.
    pub name: String,
    /// `None` if the caller may not read the child.
    pub node: Option<StatView>,
}

/// A page of children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildPage {
    /// The children, in the byte order of their names.
    pub children: Vec<ChildView>,
    /// The name behind which the next page begins; `None` after the last page. It may be gone by now.
    pub next: Option<String>,
    /// The parent at the end of the scan.
    pub parent: StatView,
    /// Whether no child was created or deleted during the scan.
    pub is_one_state: bool,
}

/// The place of a walk among the children.
#[derive(Clone, Debug)]
struct Place {
    name: String,
    /// A child that was deleted and created again is at another place.
    czxid: i64,
}

/// A scan for one page.
#[derive(Debug)]
pub struct ChildScan {
    path: String,
    credentials: Credentials,
    after: String,
    limit: usize,
    /// The first names behind `after`, one more than the page holds.
    found: BTreeSet<String>,
    places: Vec<Place>,
    restarts: usize,
    /// The pzxid of the first slice.
    began_at: Option<i64>,
}

/// Where a scan stands.
#[derive(Debug)]
pub enum ScanProgress {
    /// Call again.
    More,
    /// The page.
    Done(ChildPage),
    /// The children change too quickly for the walk to keep its place.
    Unsteady,
}

impl ChildScan {
    /// Scans for at most `limit` names behind `after`; the empty name is before all others.
    pub fn new(path: &str, credentials: &Credentials, after: &str, limit: usize) -> ChildScan {
        ChildScan {
            path: path.to_owned(),
            credentials: credentials.clone(),
            after: after.to_owned(),
            limit,
            found: BTreeSet::new(),
            places: Vec::new(),
            restarts: 0,
            began_at: None,
        }
    }

    /// Visits the next children, up to `max`. Returns whether the walk has ended; `None` if it lost its place
    /// too often.
    fn advance(&mut self, parent: &NodeRef<'_>, max: usize) -> Option<bool> {
        self.began_at.get_or_insert(parent.persisted().pzxid);
        let mut next = if self.places.is_empty() {
            parent.first_child()
        } else {
            let place = self.places.iter().rev().find_map(|place| {
                parent.child(&place.name).filter(|child| child.persisted().czxid == place.czxid)
            });
            match place {
                Some(child) => child.next_sibling(),
                None => {
                    self.restarts += 1;
                    if self.restarts > RESTARTS_MAX {
                        return None;
                    }
                    parent.first_child()
                }
            }
        };
        self.places.clear();
        for visited in 1..=max {
            let Some(child) = next else { return Some(true) };
            self.consider(child.name());
            if visited + PLACES_MAX > max {
                let czxid = child.persisted().czxid;
                self.places.push(Place { name: child.name().to_owned(), czxid });
            }
            next = child.next_sibling();
        }
        Some(next.is_none())
    }

    fn consider(&mut self, name: &str) {
        let is_full = self.found.len() > self.limit;
        let is_small = !is_full || self.found.last().is_some_and(|last| name < last.as_str());
        if name > self.after.as_str() && is_small && self.found.insert(name.to_owned()) && is_full {
            self.found.pop_last();
        }
    }

    /// The page, with the nodes as they are now. Names that are gone are left out.
    fn finish(&mut self, replica: &Replica, parent: &NodeRef<'_>) -> ChildPage {
        let is_last = self.found.len() <= self.limit;
        let next = self.found.iter().nth(self.limit.saturating_sub(1)).filter(|_| !is_last).cloned();
        let zxid = replica.last_zxid();
        let names = std::mem::take(&mut self.found).into_iter().take(self.limit);
        let children = names.filter_map(|name| {
            let child = parent.child(&name)?;
            let may_read =
                access::allowed(child.acl(), Permissions::READ, &self.credentials, replica.policy());
            Some(ChildView { name, node: may_read.then(|| StatView::of(&child, zxid)) })
        });
        ChildPage {
            children: children.collect(),
            next,
            parent: StatView::of(parent, zxid),
            is_one_state: self.began_at == Some(parent.persisted().pzxid),
        }
    }
}

impl ServerViews {
    /// Continues a scan under one hold of the replica lock.
    ///
    /// # Errors
    /// NoNode or NoAuth of the parent.
    pub fn scan_children(&self, scan: &mut ChildScan) -> Result<ScanProgress, ErrorCode> {
        let replica = self.shared.read_replica();
        let parent = replica.readable_node(&scan.path, &scan.credentials)?;
        Ok(match scan.advance(&parent, CHILDREN_PER_HOLD) {
            Some(true) => ScanProgress::Done(scan.finish(&replica, &parent)),
            Some(false) => ScanProgress::More,
            None => ScanProgress::Unsteady,
        })
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::txn::{CreateTxn, Txn, TxnHeader};
    use zebu_proto::{Acl, SessionId, Zxid};
    use zebu_tree::{Tree, TreeOptions};

    use super::*;

    fn apply(tree: &mut Tree, txn: &Txn) {
        let zxid = Zxid(tree.last_zxid().0 + 1);
        let header = TxnHeader { session: SessionId::NONE, cxid: 0, zxid, time_ms: 0 };
        tree.apply(&header, txn, &mut |_| ());
    }

    fn create(tree: &mut Tree, path: &str) {
        let (path, acl) = (path.into(), Some(Acl::open().into()));
        apply(tree, &Txn::Create(CreateTxn { path, data: None, acl, ephemeral: false, parent_cversion: -1 }));
    }

    fn delete(tree: &mut Tree, path: &str) {
        apply(tree, &Txn::Delete(path.into()));
    }

    fn tree_of(names: impl IntoIterator<Item = u32>) -> Tree {
        let mut tree = Tree::new(TreeOptions::default());
        create(&mut tree, "/p");
        names.into_iter().for_each(|name| create(&mut tree, &format!("/p/{name:04}")));
        tree
    }

    /// A scan in slices of `max`; `change` runs between them.
    fn scan(
        tree: &mut Tree,
        after: &str,
        limit: usize,
        max: usize,
        mut change: impl FnMut(&mut Tree, usize),
    ) -> Option<Vec<String>> {
        let mut scan = ChildScan::new("/p", &Credentials::none(), after, limit);
        for slice in 0.. {
            let has_ended = scan.advance(&tree.node("/p").unwrap(), max)?;
            if has_ended {
                break;
            }
            change(tree, slice);
        }
        Some(scan.found.into_iter().collect())
    }

    #[test]
    fn a_page_has_the_first_names_and_one_more() {
        let mut tree = tree_of((0..500).map(|number| number * 7 % 500));
        for max in [1, 7, 8, 9, 100, 1000] {
            let page = scan(&mut tree, "0099", 3, max, |_, _| ()).unwrap();
            assert_eq!(page, ["0100", "0101", "0102", "0103"], "{max}");
        }
        assert_eq!(scan(&mut tree, "", 2, 50, |_, _| ()).unwrap(), ["0000", "0001", "0002"]);
        assert_eq!(scan(&mut tree, "0498", 10, 50, |_, _| ()).unwrap(), ["0499"]);
        assert!(scan(&mut tree, "9", 10, 50, |_, _| ()).unwrap().is_empty());
    }

    /// Children that stay are found although the place of the walk is deleted, or created again behind it.
    #[test]
    fn a_walk_that_loses_its_place_begins_again() {
        let mut tree = tree_of(0..100);
        let found = scan(&mut tree, "", 200, 20, |tree, slice| {
            if slice == 0 {
                (12..20).for_each(|name| delete(tree, &format!("/p/{name:04}")));
                (12..20).for_each(|name| create(tree, &format!("/p/{name:04}")));
            }
        });
        assert_eq!(found.unwrap().len(), 100);
        let mut next = 100;
        let unsteady = scan(&mut tree, "", 200, 20, |tree, _| {
            let names: Vec<String> = tree.node("/p").unwrap().children().map(str::to_owned).collect();
            names.iter().for_each(|name| delete(tree, &format!("/p/{name}")));
            (0..100).for_each(|_| {
                next += 1;
                create(tree, &format!("/p/{next:04}"));
            });
        });
        assert_eq!(unsteady, None, "a walk that never ends is given up");
    }
}
