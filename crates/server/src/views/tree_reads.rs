//! Reads of single nodes with the permissions of a caller. Each holds the shared replica lock once.

use zebu_proto::{Acl, ErrorCode, Stat, Zxid};
use zebu_tree::{Credentials, Lifetime, NodeRef};

use super::ServerViews;

/// A node without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatView {
    /// The stat that clients see.
    pub stat: Stat,
    /// Its lifetime, which the stat does not show for containers and TTL nodes.
    pub lifetime: Lifetime,
    /// The last transaction of the state that was read.
    pub zxid: Zxid,
}

/// A node with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// `None` for null, which is not the empty data.
    pub data: Option<Vec<u8>>,
    /// Everything else.
    pub node: StatView,
}

/// A node with its ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclView {
    /// The entries; digests are masked for a reader without the permission ADMIN.
    pub acl: Vec<Acl>,
    /// Everything else.
    pub node: StatView,
}

/// The digest of the whole tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestView {
    /// The last transaction that it covers.
    pub zxid: Zxid,
    /// The digest; zero if digests are off.
    pub digest: i64,
}

impl StatView {
    pub(super) fn of(node: &NodeRef<'_>, zxid: Zxid) -> StatView {
        StatView { stat: node.stat(), lifetime: node.lifetime(), zxid }
    }
}

impl ServerViews {
    /// Whether the configured authentication lets the caller send requests.
    pub fn admits(&self, credentials: &Credentials) -> bool {
        self.shared.read_replica().admits(credentials)
    }

    /// A node and its data.
    ///
    /// # Errors
    /// NoNode or NoAuth.
    pub fn read_node(&self, path: &str, credentials: &Credentials) -> Result<NodeView, ErrorCode> {
        let replica = self.shared.read_replica();
        let node = replica.readable_node(path, credentials)?;
        let data = node.data().map(<[u8]>::to_vec);
        Ok(NodeView { data, node: StatView::of(&node, replica.last_zxid()) })
    }

    /// A node without its data.
    ///
    /// # Errors
    /// NoNode or NoAuth.
    pub fn read_stat(&self, path: &str, credentials: &Credentials) -> Result<StatView, ErrorCode> {
        let replica = self.shared.read_replica();
        let node = replica.readable_node(path, credentials)?;
        Ok(StatView::of(&node, replica.last_zxid()))
    }

    /// A node and its ACL.
    ///
    /// # Errors
    /// NoNode or NoAuth.
    pub fn read_acl(&self, path: &str, credentials: &Credentials) -> Result<AclView, ErrorCode> {
        let replica = self.shared.read_replica();
        let (node, acl) = replica.readable_acl(path, credentials)?;
        Ok(AclView { acl: acl.into_owned(), node: StatView::of(&node, replica.last_zxid()) })
    }

    /// The digest of the tree now.
    pub fn digest(&self) -> DigestView {
        let replica = self.shared.read_replica();
        DigestView { zxid: replica.last_zxid(), digest: replica.tree().digest() }
    }
}
