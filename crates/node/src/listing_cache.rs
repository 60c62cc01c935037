//! Caches the encoded children of one large node while they do not change. Encoding a million names takes
//! long under the shared lock, and clients tend to request the same listing together. The caller checks
//! permissions and registers watches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zebu_tree::NodeRef;

use crate::limits::{CACHED_LISTING_BYTES_MAX, CACHED_LISTING_CHILDREN_MIN};

/// The version of a node's children. Each change of them has its own transaction, which becomes the pzxid.
#[derive(Debug, PartialEq, Eq)]
struct ListingVersion {
    path: Box<str>,
    czxid: i64,
    pzxid: i64,
    cversion: i32,
    children: usize,
}

#[derive(Debug)]
struct CachedListing {
    version: ListingVersion,
    /// `None` until the same version is requested again: a listing that always changes is not worth a copy.
    encoded: Option<Arc<[u8]>>,
}

/// Holds at most one listing.
#[derive(Debug, Default)]
pub(crate) struct ListingCache(Mutex<Option<CachedListing>>);

impl ListingCache {
    /// Appends the children of a node: from the cache, or with `encode`.
    pub(crate) fn encode(
        &self,
        path: &str,
        node: &NodeRef<'_>,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&NodeRef<'_>, &mut Vec<u8>),
    ) {
        let children = node.num_children();
        if children < CACHED_LISTING_CHILDREN_MIN {
            return encode(node, out);
        }
        let stat = node.persisted();
        let (czxid, pzxid, cversion) = (stat.czxid, stat.pzxid, stat.cversion);
        let version = ListingVersion { path: path.into(), czxid, pzxid, cversion, children };
        let known = match &*self.lock() {
            Some(CachedListing { version: known, encoded }) if *known == version => Some(encoded.clone()),
            _ => None,
        };
        if let Some(Some(encoded)) = &known {
            out.extend_from_slice(encoded);
            return;
        }
        let start = out.len();
        encode(node, out);
        let is_kept = known.is_some() && out.len() - start <= CACHED_LISTING_BYTES_MAX;
        let encoded = is_kept.then(|| Arc::from(&out[start..]));
        *self.lock() = Some(CachedListing { version, encoded });
    }

    /// Empties the cache because the tree was replaced.
    pub(crate) fn clear(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<CachedListing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::txn::{CreateTxn, Txn, TxnHeader};
    use zebu_proto::{Acl, SessionId, Zxid};
    use zebu_tree::{Tree, TreeOptions};

    use super::*;

    struct Listed {
        tree: Tree,
        cache: ListingCache,
    }

    impl Listed {
        fn apply(&mut self, txn: &Txn) {
            let zxid = Zxid(self.tree.last_zxid().0 + 1);
            let header = TxnHeader { session: SessionId::NONE, cxid: 0, zxid, time_ms: 0 };
            self.tree.apply(&header, txn, &mut |_| ());
        }

        fn create(&mut self, path: &str) {
            let (path, acl) = (path.into(), Some(Acl::open().into()));
            let create = CreateTxn { path, data: None, acl, ephemeral: false, parent_cversion: -1 };
            self.apply(&Txn::Create(create));
        }

        /// Whether a listing of the node had to be encoded. Its content is checked in both cases.
        fn is_encoded(&self, path: &str) -> bool {
            let (mut listing, mut is_encoded) = (Vec::new(), false);
            let node = self.tree.node(path).unwrap();
            let encode = |node: &NodeRef<'_>, out: &mut Vec<u8>| {
                node.children().for_each(|name| out.extend(name.bytes()));
            };
            self.cache.encode(path, &node, &mut listing, |node, out| {
                is_encoded = true;
                encode(node, out);
            });
            let mut expected = Vec::new();
            encode(&node, &mut expected);
            assert_eq!(listing, expected);
            is_encoded
        }

        fn is_encoded_times(&self, path: &str, times: usize) -> Vec<bool> {
            (0..times).map(|_| self.is_encoded(path)).collect()
        }
    }

    #[test]
    fn a_large_listing_is_encoded_twice_while_it_does_not_change() {
        let mut listed = Listed { tree: Tree::new(TreeOptions::default()), cache: ListingCache::default() };
        for parent in ["/a", "/b", "/small"] {
            listed.create(parent);
        }
        for number in 0..CACHED_LISTING_CHILDREN_MIN {
            listed.create(&format!("/a/{number}"));
            listed.create(&format!("/b/{number}"));
        }
        listed.create("/small/1");
        assert_eq!(listed.is_encoded_times("/a", 4), [true, true, false, false]);
        assert_eq!(listed.is_encoded_times("/small", 4), [true; 4]);
        assert!(!listed.is_encoded("/a"), "a small one takes no place");
        listed.create("/a/new");
        assert_eq!(listed.is_encoded_times("/a", 3), [true, true, false]);
        listed.apply(&Txn::Delete("/a/new".into()));
        assert_eq!(listed.is_encoded_times("/a", 3), [true, true, false]);
        assert_eq!(listed.is_encoded_times("/b", 3), [true, true, false]);
        assert_eq!(listed.is_encoded_times("/a", 3), [true, true, false]);
        listed.cache.clear();
        assert_eq!(listed.is_encoded_times("/a", 3), [true, true, false]);
    }
}
