//! closeSession: never refused. The ephemeral nodes that go with the session are named in the transaction,
//! pending ones included, so that every replica removes the same. If the names do not fit into a transaction, it has
//! the form before 3.6 without them: every replica removes the ephemeral nodes that the session has there.

use zebu_proto::txn::{DIGEST_VERSION, Txn, TxnDigest};

use crate::prep::stage::Stage;

pub(super) fn prepare_close(stage: &mut Stage<'_, '_>) -> Txn {
    let paths = stage.ephemerals();
    for path in &paths {
        if let Ok(node) = stage.get(path) {
            stage.remove(path, &node);
        }
    }
    let listed = Txn::CloseSession(Some(paths));
    let bytes = listed.entry_length(Some(&TxnDigest { version: DIGEST_VERSION, tree_digest: 0 }));
    if bytes > stage.context.policy.transaction_bytes_max { Txn::CloseSession(None) } else { listed }
}
