//! G16: an event tells nobody of a node that he may not read. Whoever is told all the same is a surplus event
//! in the eyes of G11.

use zebu_proto::Permissions;

use crate::model::{Change, Model};
use crate::operation::Path;

/// Whether everybody may read the node at the moment of a change; a deleted one, as it was before. `None` if a
/// node came or went more than once within the transaction.
pub(super) fn may_know(model: &Model, zxid: i64, path: &Path, change: Change) -> Option<bool> {
    let fates = model.changes(zxid - 1, zxid).iter().filter(|it| it.1 == *path);
    if fates.filter(|it| matches!(it.2, Change::Created | Change::Deleted)).count() > 1 {
        return None;
    }
    let node = match change {
        Change::Deleted => model.at(path, zxid - 1),
        Change::Created | Change::Data | Change::Children => {
            model.at(path, zxid).or_else(|| model.at(path, zxid - 1))
        }
    };
    node.map(|node| node.permissions & Permissions::READ != 0)
}
