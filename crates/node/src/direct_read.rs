//! Reads without a connection: the same checks as for a client, with references into the tree as results.
//! `read.rs` encodes them for clients; the HTTP API reads them as values.

use std::borrow::Cow;

use zebu_proto::{Acl, ErrorCode, Permissions};
use zebu_tree::{Credentials, NodeRef, access};

use crate::replica::Replica;

impl Replica {
    /// Whether the configured authentication lets these credentials send requests.
    pub fn admits(&self, credentials: &Credentials) -> bool {
        self.enforcement.is_satisfied_by(credentials)
    }

    /// The node, if it exists and the credentials may read it.
    ///
    /// # Errors
    /// NoNode or NoAuth.
    pub fn readable_node(&self, path: &str, credentials: &Credentials) -> Result<NodeRef<'_>, ErrorCode> {
        let node = self.tree.node(path).ok_or(ErrorCode::NoNode)?;
        if self.is_permitted(&node, Permissions::READ, credentials) {
            Ok(node)
        } else {
            Err(ErrorCode::NoAuth)
        }
    }

    /// The node and its ACL. Digests are masked for a reader without the permission ADMIN.
    ///
    /// # Errors
    /// NoNode or NoAuth.
    pub fn readable_acl(
        &self,
        path: &str,
        credentials: &Credentials,
    ) -> Result<(NodeRef<'_>, Cow<'_, [Acl]>), ErrorCode> {
        let node = self.tree.node(path).ok_or(ErrorCode::NoNode)?;
        if !self.is_permitted(&node, Permissions::READ | Permissions::ADMIN, credentials) {
            return Err(ErrorCode::NoAuth);
        }
        let acl = match self.is_permitted(&node, Permissions::ADMIN, credentials) {
            true => Cow::Borrowed(&node.acl()[..]),
            false => Cow::Owned(access::masked(node.acl())),
        };
        Ok((node, acl))
    }

    fn is_permitted(&self, node: &NodeRef<'_>, permissions: i32, credentials: &Credentials) -> bool {
        access::allowed(node.acl(), permissions, credentials, &self.policy)
    }
}
