//! Applies every kind of create.

use zebu_proto::client::EventType;
use zebu_proto::txn::TxnHeader;
use zebu_proto::{Acl, Buffer, ErrorCode, StatPersisted, Zxid};

use crate::apply::EventSink;
use crate::data_store::NewData;
use crate::event::TreeEvent;
use crate::mutate::NodeRecord;
use crate::node::NodeId;
use crate::node_ref::NodeRef;
use crate::outcome::TxnOutcome;
use crate::path;
use crate::tree::Tree;

/// The common fields of all creates.
pub(super) struct NewNode<'a> {
    pub(super) path: &'a str,
    pub(super) data: &'a Buffer,
    pub(super) acl: Option<&'a [Acl]>,
    pub(super) owner: i64,
    pub(super) parent_cversion: i32,
}

/// The effect of a replay on the parent when the node exists already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OnExisting {
    AdvanceParent,
    LeaveParent,
}

impl Tree {
    pub(super) fn apply_create(
        &mut self,
        header: &TxnHeader,
        new: &NewNode<'_>,
        on_existing: OnExisting,
        events: EventSink<'_>,
    ) -> TxnOutcome {
        let Some((parent_path, name)) = path::split_stored(new.path) else {
            return TxnOutcome::error(ErrorCode::BadArguments);
        };
        let Some(parent) = self.find_parent(parent_path) else {
            return TxnOutcome::error(ErrorCode::NoNode);
        };
        let acl = self.acls.intern(new.acl);
        let place = match self.names.place(&self.nodes, parent, name.as_bytes()) {
            Ok(place) => place,
            Err(existing) => {
                // The ACL may be newer than the table of the snapshot that the node came from.
                self.replace_acl(existing, acl);
                if on_existing == OnExisting::AdvanceParent {
                    self.advance_parent(parent, new.parent_cversion, header.zxid);
                }
                return TxnOutcome::error(ErrorCode::NodeExists);
            }
        };
        self.advance_parent(parent, new.parent_cversion, header.zxid);
        let stat = StatPersisted {
            czxid: header.zxid.0,
            mzxid: header.zxid.0,
            pzxid: header.zxid.0,
            ctime: header.time_ms,
            mtime: header.time_ms,
            ephemeral_owner: new.owner,
            ..StatPersisted::default()
        };
        let id = self.attach(
            place,
            new.path,
            NodeRecord { name, data: NewData::Shared(new.data), acl, stat: &stat },
        );
        // Taken before usage is counted: the reply describes the data that was sent, also for the node that
        // contains the usage.
        let stat = NodeRef::new(self, id).stat();
        self.quota_created(new.path, id);
        events(TreeEvent {
            zxid: header.zxid,
            kind: EventType::NodeCreated,
            path: new.path,
            acl: self.acls.get(acl),
        });
        events(self.children_changed(header.zxid, parent_path, parent));
        TxnOutcome::Created { stat }
    }

    /// cversion and pzxid only ever grow; -1 increments cversion.
    fn advance_parent(&mut self, parent: NodeId, cversion: i32, zxid: Zxid) {
        let current = self.nodes.branch(self.nodes.get(parent)).cversion;
        let cversion = if cversion == -1 { current.wrapping_add(1) } else { cversion };
        if cversion > current {
            self.change_stat(parent, |stat| {
                stat.cversion = cversion;
                stat.pzxid = zxid.0;
            });
        }
    }

    pub(super) fn children_changed<'a>(&'a self, zxid: Zxid, path: &'a str, id: NodeId) -> TreeEvent<'a> {
        let acl = self.acls.get(self.nodes.traits(self.nodes.get(id)).acl);
        TreeEvent { zxid, kind: EventType::NodeChildrenChanged, path: path::shown(path), acl }
    }
}
