//! Applies new data and new ACLs: absolute values, so that a replay gives the same state.

use zebu_proto::client::EventType;
use zebu_proto::txn::{SetAclTxn, SetDataTxn, TxnHeader};
use zebu_proto::{Buffer, ErrorCode, Stat, Zxid};

use crate::apply::EventSink;
use crate::data_store::NewData;
use crate::event::TreeEvent;
use crate::node_ref::NodeRef;
use crate::outcome::TxnOutcome;
use crate::path;
use crate::tree::Tree;

impl Tree {
    pub(super) fn apply_set_data(
        &mut self,
        header: &TxnHeader,
        set: &SetDataTxn,
        events: EventSink<'_>,
    ) -> Result<Stat, ErrorCode> {
        let id = self.find_to_change(&set.path).ok_or(ErrorCode::NoNode)?;
        let before = self.nodes.get(id).data_length();
        self.replace_data(id, &set.path, NewData::Shared(&set.data), |stat| {
            stat.mtime = header.time_ms;
            stat.mzxid = header.zxid.0;
            stat.version = set.version;
        });
        self.quota_data_set(&set.path, before, self.nodes.get(id).data_length());
        let acl = self.acls.get(self.nodes.traits(self.nodes.get(id)).acl);
        let path = path::shown(&set.path);
        events(TreeEvent { zxid: header.zxid, kind: EventType::NodeDataChanged, path, acl });
        Ok(NodeRef::new(self, id).stat())
    }

    /// Writes the configuration that the server started with to `/zookeeper/config`: outside the history,
    /// with the version of the configuration as zxid.
    pub fn write_config(&mut self, text: Buffer, config_version: Zxid, time_ms: i64) {
        if let Some(id) = self.find(path::CONFIG) {
            self.replace_data(id, path::CONFIG, NewData::Shared(&text), |stat| {
                stat.version = -1;
                stat.mzxid = config_version.0;
                stat.mtime = time_ms;
            });
        }
    }

    pub(super) fn apply_set_acl(&mut self, set: &SetAclTxn) -> TxnOutcome {
        let Some(id) = self.find(&set.path) else {
            return TxnOutcome::error(ErrorCode::NoNode);
        };
        let acl = self.acls.intern(set.acl.as_deref());
        self.replace_acl(id, acl);
        self.change_stat(id, |stat| stat.aversion = set.version);
        TxnOutcome::AclSet { stat: NodeRef::new(self, id).stat() }
    }
}
