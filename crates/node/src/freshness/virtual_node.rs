//! The virtual node by which a client finds out what this server can do for it now. Those of ClickHouse have
//! the same form. They are in no list, count, digest or snapshot. A real node of the same name takes
//! precedence.

use zebu_proto::client::ReadRequest;
use zebu_proto::jute::encode_buffer;
use zebu_proto::{Acl, ErrorCode, Jute, Permissions, Stat};
use zebu_tree::Credentials;
use zebu_tree::path::{VIRTUAL, is_keeper_node};

use super::receive::sends_clients_away;
use crate::connection::ClientConnection;
use crate::replica::Replica;

/// The virtual node, as one connection sees it.
pub(crate) struct VirtualNode {
    data: Vec<u8>,
}

impl VirtualNode {
    /// Encodes the reply to a read. A watch of the virtual node is ignored: the node has no events.
    pub(crate) fn encode_reply(&self, request: &ReadRequest<'_>, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        let data_length = i32::try_from(self.data.len()).unwrap_or(i32::MAX);
        let stat = Stat { data_length, ..Stat::default() };
        match request {
            ReadRequest::GetData(..) => encode_buffer(Some(&self.data), out),
            ReadRequest::GetAcl(_) => vec![Acl::new(Permissions::READ, "world", "anyone")].encode(out),
            // Wildcard: the reply to exists is the stat alone, and no other read finds the node.
            _ => {}
        }
        stat.encode(out);
        Ok(())
    }
}

impl Replica {
    /// The virtual node, if the request names it and no real node has its name.
    pub(crate) fn virtual_node(
        &self,
        request: &ReadRequest<'_>,
        connection: &ClientConnection,
        credentials: &Credentials,
    ) -> Option<VirtualNode> {
        let (ReadRequest::GetData(path, _) | ReadRequest::Exists(path, _) | ReadRequest::GetAcl(path)) =
            request
        else {
            return None;
        };
        if is_keeper_node(path) {
            return self.keeper_node(path, connection, credentials).map(|data| VirtualNode { data });
        }
        if path != VIRTUAL || !self.freshness.settings.private_requests || self.tree.node(path).is_some() {
            return None;
        }
        let mut features = "min_zxid".to_owned();
        if self.has_strict_leader(connection) {
            features.push_str(",linear,max_age");
        }
        features.push_str(",page,scan");
        if self.accepts_private_writes(connection) {
            features.push_str(",deltree");
        }
        if self.has_feeds(connection) {
            features.push_str(",feed");
        }
        if sends_clients_away(connection) {
            features.push_str(",move");
        }
        let text = format!("version={}\nfeatures={features}\n", env!("CARGO_PKG_VERSION"));
        Some(VirtualNode { data: text.into_bytes() })
    }
}
