//! Fingerprints of nodes. The seed differs between runs, so that no file can be crafted to hide differences.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::RandomState;
use hashbrown::HashMap;
use zebu_proto::{Acl, StatPersisted};

/// The ACL that nodes have without an entry in the table.
const OPEN_ACL_ID: i64 = -1;

/// Turns paths and nodes into numbers.
#[derive(Clone, Debug)]
pub(super) struct Fingerprints {
    paths: RandomState,
    contents: RandomState,
}

impl Fingerprints {
    pub(super) fn new() -> Fingerprints {
        Fingerprints { paths: RandomState::default(), contents: RandomState::default() }
    }

    /// The number of a path.
    pub(super) fn path(&self, path: &str) -> u64 {
        self.paths.hash_one(path)
    }

    /// The number of all that a node holds.
    pub(super) fn node(&self, node: &NodeFacts) -> u64 {
        let mut hasher = self.contents.build_hasher();
        node.data.hash(&mut hasher);
        node.acl.hash(&mut hasher);
        stat_fields(&node.stat).iter().for_each(|(_, value)| value.hash(&mut hasher));
        hasher.finish()
    }

    fn bytes(&self, bytes: Option<&[u8]>) -> u64 {
        self.contents.hash_one(bytes)
    }

    fn acl(&self, acl: &[Acl]) -> u64 {
        self.contents.hash_one(acl)
    }
}

/// The compared properties of a node.
#[derive(Clone, Debug)]
pub(super) struct NodeFacts {
    /// Length of the data; `None` for null.
    pub(super) length: Option<usize>,
    /// The number of the data.
    pub(super) data: u64,
    /// The number of the ACL's content: ids mean nothing outside of their file.
    pub(super) acl: u64,
    /// The stat.
    pub(super) stat: StatPersisted,
}

/// The contents of a snapshot's ACL table, as numbers.
#[derive(Debug)]
pub(super) struct AclNumbers {
    by_id: HashMap<i64, u64, RandomState>,
}

impl AclNumbers {
    pub(super) fn new(fingerprints: &Fingerprints) -> AclNumbers {
        let mut by_id = HashMap::with_hasher(RandomState::default());
        by_id.insert(OPEN_ACL_ID, fingerprints.acl(&Acl::open()));
        AclNumbers { by_id }
    }

    pub(super) fn insert(&mut self, fingerprints: &Fingerprints, id: i64, acl: &[Acl]) {
        self.by_id.insert(id, fingerprints.acl(acl));
    }

    /// The compared properties of a node. ACLs that are missing in their tables count as equal.
    pub(super) fn facts(
        &self,
        fingerprints: &Fingerprints,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> NodeFacts {
        NodeFacts {
            length: data.map(<[u8]>::len),
            data: fingerprints.bytes(data),
            acl: self.by_id.get(&acl).copied().unwrap_or(0),
            stat: *stat,
        }
    }
}

/// The fields of a stat with their names.
pub(super) fn stat_fields(stat: &StatPersisted) -> [(&'static str, i64); 9] {
    [
        ("version", stat.version.into()),
        ("cversion", stat.cversion.into()),
        ("aversion", stat.aversion.into()),
        ("czxid", stat.czxid),
        ("mzxid", stat.mzxid),
        ("pzxid", stat.pzxid),
        ("ctime", stat.ctime),
        ("mtime", stat.mtime),
        ("owner", stat.ephemeral_owner),
    ]
}
