//! Caches the encoded children of nodes while they do not change: of one node with very many, whose encoding
//! takes long under the shared lock while clients tend to request it together, and of few with some. The
//! caller checks permissions and registers watches.

use std::sync::{Arc, Mutex, PoisonError};

use zebu_tree::NodeRef;

use crate::limits::{
    CACHED_LISTING_BYTES_MAX, CACHED_LISTING_CHILDREN_MIN, SHORT_LISTING_BYTES_MAX,
    SHORT_LISTING_CHILDREN_MIN, SHORT_LISTINGS_MAX,
};

/// The version of a node's children. Each change of them has its own transaction, which becomes the pzxid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ListingVersion {
    czxid: i64,
    pzxid: i64,
    cversion: i32,
    children: usize,
}

#[derive(Debug)]
struct CachedListing {
    path: Box<str>,
    version: ListingVersion,
    /// `None` until the same version is requested again: a listing that always changes is not worth a copy.
    encoded: Option<Arc<[u8]>>,
}

type ListingPlace = Mutex<Option<CachedListing>>;

/// Holds one long listing and some short ones.
#[derive(Debug)]
pub(crate) struct ListingCache {
    long: ListingPlace,
    /// A node's place follows from its czxid.
    short: [ListingPlace; SHORT_LISTINGS_MAX],
}

impl Default for ListingCache {
    fn default() -> ListingCache {
        ListingCache { long: Mutex::default(), short: std::array::from_fn(|_| Mutex::default()) }
    }
}

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
        if children < SHORT_LISTING_CHILDREN_MIN {
            return encode(node, out);
        }
        let stat = node.persisted();
        let (czxid, pzxid, cversion) = (stat.czxid, stat.pzxid, stat.cversion);
        let version = ListingVersion { czxid, pzxid, cversion, children };
        let (place, bytes_max) = self.place(&version);
        let known = match &*place.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(known) if known.version == version && *known.path == *path => Some(known.encoded.clone()),
            _ => None,
        };
        if let Some(Some(encoded)) = &known {
            out.extend_from_slice(encoded);
            return;
        }
        let start = out.len();
        encode(node, out);
        let is_kept = known.is_some() && out.len() - start <= bytes_max;
        if known.is_some() && !is_kept {
            return;
        }
        let encoded = is_kept.then(|| Arc::from(&out[start..]));
        *place.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(CachedListing { path: path.into(), version, encoded });
    }

    /// The place of a listing, and its longest content.
    fn place(&self, version: &ListingVersion) -> (&ListingPlace, usize) {
        if version.children >= CACHED_LISTING_CHILDREN_MIN {
            return (&self.long, CACHED_LISTING_BYTES_MAX);
        }
        let at = version.czxid as u64 % SHORT_LISTINGS_MAX as u64;
        (&self.short[at as usize], SHORT_LISTING_BYTES_MAX)
    }

    /// Empties the cache because the tree was replaced.
    pub(crate) fn clear(&self) {
        for place in self.short.iter().chain([&self.long]) {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
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

    #[test]
    fn short_listings_have_places_of_their_own() {
        let mut listed = Listed { tree: Tree::new(TreeOptions::default()), cache: ListingCache::default() };
        for parent in ["/a", "/b"] {
            listed.create(parent);
            for number in 0..SHORT_LISTING_CHILDREN_MIN {
                listed.create(&format!("{parent}/{number}"));
            }
        }
        for path in ["/a", "/b"] {
            assert_eq!(listed.is_encoded_times(path, 3), [true, true, false], "{path}");
        }
        assert!(!listed.is_encoded("/a") && !listed.is_encoded("/b"));
        listed.create("/a/new");
        assert_eq!(listed.is_encoded_times("/a", 3), [true, true, false]);
        assert!(!listed.is_encoded("/b"), "only the changed one is encoded again");
        listed.apply(&Txn::Delete("/a/new".into()));
        assert_eq!(listed.is_encoded_times("/a", 3), [true, true, false]);
        listed.cache.clear();
        assert_eq!(listed.is_encoded_times("/b", 3), [true, true, false]);
        listed.create(&format!("/a/{}", "x".repeat(SHORT_LISTING_BYTES_MAX)));
        assert_eq!(listed.is_encoded_times("/a", 4), [true; 4], "too long for a place");
    }
}
