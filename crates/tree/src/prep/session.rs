//! closeSession: never refused. The ephemeral nodes that go with the session are named in the transaction,
//! pending ones included, so that every replica removes the same.

use zebu_proto::txn::Txn;

use crate::prep::stage::Stage;

pub(super) fn prepare_close(stage: &mut Stage<'_, '_>) -> Txn {
    let paths = stage.ephemerals();
    for path in &paths {
        if let Ok(node) = stage.get(path) {
            stage.remove(path, &node);
        }
    }
    Txn::CloseSession(Some(paths))
}
