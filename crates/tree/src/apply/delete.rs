//! Applies the deletion of a node, for clients and for the server's own requests.

use zebu_proto::client::EventType;
use zebu_proto::{ErrorCode, Zxid};

use crate::apply::EventSink;
use crate::event::TreeEvent;
use crate::node::NodeId;
use crate::outcome::TxnOutcome;
use crate::path;
use crate::tree::Tree;

impl Tree {
    pub(crate) fn apply_delete(&mut self, zxid: Zxid, path: &str, events: EventSink<'_>) -> TxnOutcome {
        let Some((parent_path, name)) = path::split_stored(path) else {
            return TxnOutcome::error(ErrorCode::BadArguments);
        };
        let Some(parent) = self.find_parent(parent_path) else {
            return TxnOutcome::error(ErrorCode::NoNode);
        };
        // Also when the node is missing: the snapshot may have been taken after its deletion.
        if zxid.0 > self.nodes.branch(self.nodes.get(parent)).pzxid {
            self.change_stat(parent, |stat| stat.pzxid = zxid.0);
        }
        let Some(id) = self.child(parent, name) else {
            return TxnOutcome::error(ErrorCode::NoNode);
        };
        self.remove_descendants(id);
        let acl = self.acls.get(self.nodes.traits(self.nodes.get(id)).acl).clone();
        self.remove_leaf(id, path);
        events(TreeEvent { zxid, kind: EventType::NodeDeleted, path, acl: &acl });
        events(self.children_changed(zxid, parent_path, parent));
        TxnOutcome::Deleted
    }

    /// Only a replay finds children here: they were created after this deletion, and will be created again.
    fn remove_descendants(&mut self, top: NodeId) {
        if self.nodes.branch(self.nodes.get(top)).child_count == 0 {
            return;
        }
        let descendants: Vec<NodeId> = self.descendants(top).collect();
        for id in descendants.into_iter().rev() {
            let path = self.path_of(id);
            self.remove_leaf(id, &path);
        }
    }

    fn remove_leaf(&mut self, id: NodeId, path: &str) {
        let data_length = self.nodes.get(id).data_length();
        self.detach(id, path);
        self.quota_deleted(path, data_length);
    }
}
