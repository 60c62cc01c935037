//! Whether a request makes the tree larger. A server without room on its disk refuses such requests; all
//! others go on, because they make room or keep it.

use zebu_proto::Buffer;
use zebu_proto::client::{KeeperPart, KeeperWrite, MultiOp, SetDataRequest, WriteRequest};

use crate::overlay::Overlay;
use crate::path;
use crate::tree::Tree;

impl Tree {
    /// Whether a request makes the tree larger: it creates a node or a session, or gives a node more data
    /// than it has. A multi does if one of its operations does, compared with the state before it.
    pub fn grows_by(&self, overlay: &Overlay, request: &WriteRequest) -> bool {
        match request {
            WriteRequest::Create(_) | WriteRequest::CreateSession { .. } => true,
            WriteRequest::SetData(set) => self.is_longer(overlay, set),
            WriteRequest::Multi(ops) => ops.iter().any(|op| match op {
                MultiOp::Create(_) => true,
                MultiOp::SetData(set) => self.is_longer(overlay, set),
                MultiOp::Keeper(part) => match &**part {
                    KeeperPart::Write(write) => self.creates(overlay, write),
                    KeeperPart::Check(_) => false,
                },
                MultiOp::Delete(_) | MultiOp::Check(_) => false,
            }),
            WriteRequest::Keeper(write) => self.creates(overlay, write),
            WriteRequest::Delete(_)
            | WriteRequest::DeleteTree(_)
            | WriteRequest::SetAcl(_)
            | WriteRequest::Reconfig(_)
            | WriteRequest::Refused(_)
            | WriteRequest::CloseSession
            | WriteRequest::DeleteContainer { .. } => false,
        }
    }

    /// Whether a write of Keeper creates a node.
    fn creates(&self, overlay: &Overlay, write: &KeeperWrite) -> bool {
        match write {
            KeeperWrite::CreateIfNotExists(create) => {
                let Some(path) = create.path.as_deref() else { return false };
                match overlay.get(path::canonical(path)) {
                    Some(record) => record.node.is_none(),
                    None => self.find(path).is_none(),
                }
            }
            KeeperWrite::RemoveRecursive(_) | KeeperWrite::TryRemove(_) => false,
        }
    }

    /// Whether the new data of a node is longer than its data after all pending changes. A request for a
    /// missing node fails later, with its own error.
    fn is_longer(&self, overlay: &Overlay, set: &SetDataRequest) -> bool {
        let length = |data: &Buffer| data.as_ref().map_or(0, |data| data.len());
        let Some(path) = set.path.as_deref() else { return false };
        let before = match overlay.get(path::canonical(path)) {
            Some(record) => record.node.as_ref().map(|node| node.data_length),
            None => self.find(path).map(|id| self.nodes.get(id).data_length()),
        };
        before.is_some_and(|before| length(&set.data) > before)
    }
}
