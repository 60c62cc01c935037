//! closeSession: never refused. The transaction names the ephemeral nodes of the session, including pending
//! ones, so that every replica deletes the same. If the names do not fit into a transaction, it has the form
//! before 3.6 without them. Then every replica deletes the ephemeral nodes that the session has there.

use zebu_proto::txn::{DIGEST_VERSION, Txn, TxnDigest};

use crate::prep::scope::PrepareScope;

pub(super) fn prepare_close(stage: &mut PrepareScope<'_, '_>) -> Txn {
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
