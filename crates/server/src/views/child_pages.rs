//! Pages of the children of a node, in the byte order of their names.
//!
//! The tree keeps the children of few large nodes in order, while readers ask for it. A page costs its own
//! length then. The first page of such a node prepares the order, in slices: one hold of the replica lock
//! does a bounded amount of work.

use zebu_node::Replica;
use zebu_proto::{ErrorCode, Permissions};
use zebu_tree::{ChildBound, Credentials, access};

use super::{ServerViews, StatView};

/// A child on a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildView {
    /// Its name.
    pub name: String,
    /// `None` if the caller may not read the child.
    pub node: Option<StatView>,
}

/// A page of children, of one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildPage {
    /// The children, in the byte order of their names.
    pub children: Vec<ChildView>,
    /// The name behind which the next page begins; `None` after the last page. It may be gone by now.
    pub next: Option<String>,
    /// The parent.
    pub parent: StatView,
}

/// The request for a page.
#[derive(Clone, Debug)]
pub struct ChildPageRequest<'a> {
    /// The parent.
    pub path: &'a str,
    /// The identities of the caller.
    pub credentials: &'a Credentials,
    /// The page begins behind this name; the empty name is before all others.
    pub after: &'a str,
    /// Most children of the page.
    pub limit: usize,
}

impl ServerViews {
    /// A page of children. `None`: the order of the children is being prepared, and the caller asks again,
    /// after others had their turn.
    ///
    /// # Errors
    /// NoNode or NoAuth of the parent.
    pub fn child_page(&self, request: &ChildPageRequest<'_>) -> Result<Option<ChildPage>, ErrorCode> {
        page_of(&self.shared.read_replica(), request)
    }
}

fn page_of(replica: &Replica, request: &ChildPageRequest<'_>) -> Result<Option<ChildPage>, ErrorCode> {
    let ChildPageRequest { path, credentials, after, limit } = *request;
    let parent = replica.readable_node(path, credentials)?;
    let bound = ChildBound::AfterName(after);
    let sort = replica.listing_settings().sort;
    let Some(found) = replica.tree().children_after(&parent, bound, limit.saturating_add(1), sort) else {
        return Ok(None);
    };
    let zxid = replica.last_zxid();
    let children = found.iter().take(limit).map(|child| {
        let may_read = access::allowed(child.acl(), Permissions::READ, credentials, replica.policy());
        ChildView { name: child.name().to_owned(), node: may_read.then(|| StatView::of(child, zxid)) }
    });
    let children: Vec<ChildView> = children.collect();
    let has_more = found.len() > limit;
    let next = children.last().filter(|_| has_more).map(|last| last.name.clone());
    Ok(Some(ChildPage { children, next, parent: StatView::of(&parent, zxid) }))
}

#[cfg(test)]
mod tests {
    use zebu_node::{AuthEnforcement, ListingSettings};
    use zebu_proto::txn::{CreateTxn, Txn, TxnHeader};
    use zebu_proto::{Acl, SessionId, Zxid};
    use zebu_tree::{Policy, SortLimits, Tree, TreeOptions};

    use super::*;

    fn create(tree: &mut Tree, path: &str, acl: Vec<Acl>) {
        let zxid = Zxid(tree.last_zxid().0 + 1);
        let header = TxnHeader { session: SessionId::NONE, cxid: 0, zxid, time_ms: 0 };
        let (path, acl) = (path.into(), Some(acl.into()));
        let create = CreateTxn { path, data: None, acl, ephemeral: false, parent_cversion: -1 };
        tree.apply(&header, &Txn::Create(create), &mut |_| ());
    }

    fn replica() -> Replica {
        let mut tree = Tree::new(TreeOptions::default());
        create(&mut tree, "/p", Acl::open());
        (0..500).for_each(|number| create(&mut tree, &format!("/p/{:04}", number * 7 % 500), Acl::open()));
        create(&mut tree, "/p/hidden", vec![Acl::new(0, "world", "anyone")]);
        let sort = SortLimits { at_once: 10, per_slice: 100 };
        Replica::new(tree, Policy::default(), AuthEnforcement::Off, 3)
            .with_listings(ListingSettings { sort, ..ListingSettings::default() })
    }

    fn page(replica: &Replica, after: &str, limit: usize) -> (Vec<String>, Option<String>, usize) {
        let credentials = Credentials::none();
        let request = ChildPageRequest { path: "/p", credentials: &credentials, after, limit };
        for calls in 1..100 {
            if let Some(page) = page_of(replica, &request).unwrap() {
                return (page.children.into_iter().map(|child| child.name).collect(), page.next, calls);
            }
        }
        panic!("the order is never ready");
    }

    #[test]
    fn only_the_first_page_prepares_the_order() {
        let replica = replica();
        let (names, next, calls) = page(&replica, "0099", 3);
        assert_eq!((names, next), (["0100", "0101", "0102"].map(String::from).to_vec(), Some("0102".into())));
        assert!(calls > 4, "{calls} calls for 501 children in slices of 100");
        let (names, next, calls) = page(&replica, "0498", 10);
        assert_eq!((names, next, calls), (["0499", "hidden"].map(String::from).to_vec(), None, 1));
        assert_eq!(page(&replica, "i", 10), (vec![], None, 1));
    }

    #[test]
    fn permissions_are_those_of_a_client() {
        let replica = replica();
        let credentials = Credentials::none();
        let request = ChildPageRequest { path: "/p/hidden", credentials: &credentials, after: "", limit: 1 };
        assert_eq!(page_of(&replica, &request), Err(ErrorCode::NoAuth));
        assert_eq!(
            page_of(&replica, &ChildPageRequest { path: "/x", ..request.clone() }),
            Err(ErrorCode::NoNode)
        );
        let request = ChildPageRequest { path: "/p", after: "0498", limit: 9, ..request };
        let mut found = page_of(&replica, &request);
        for _ in 0..20 {
            found = page_of(&replica, &request);
        }
        let page = found.unwrap().unwrap();
        let readable: Vec<bool> = page.children.iter().map(|child| child.node.is_some()).collect();
        assert_eq!(readable, [true, false]);
    }
}
