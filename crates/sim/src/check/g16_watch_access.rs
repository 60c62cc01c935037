//! G16: no client gets an event of a node that it may not read. G11 reports such an event as one without a
//! watch.

use zebu_proto::Permissions;

use crate::model::{Model, ModelChange};
use crate::operation::NodePath;

/// Whether every client may read the node at the time of a change; a deleted node counts as it was before.
/// `None` if a node was created or deleted more than once within the transaction.
pub(super) fn may_know(model: &Model, zxid: i64, path: &NodePath, change: ModelChange) -> Option<bool> {
    let fates = model.changes(zxid - 1, zxid).iter().filter(|it| it.1 == *path);
    if fates.filter(|it| matches!(it.2, ModelChange::Created | ModelChange::Deleted)).count() > 1 {
        return None;
    }
    let node = match change {
        ModelChange::Deleted => model.at(path, zxid - 1),
        ModelChange::Created | ModelChange::Data | ModelChange::Children => {
            model.at(path, zxid).or_else(|| model.at(path, zxid - 1))
        }
    };
    node.map(|node| node.permissions & Permissions::READ != 0)
}
