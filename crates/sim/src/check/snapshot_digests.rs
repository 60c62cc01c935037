//! A digest that is sent after a snapshot is right: learners of ZooKeeper compare it with their tree after
//! each transaction that follows the snapshot.

use zebu_proto::Zxid;
use zebu_proto::txn::TxnEntry;
use zebu_runtime::SnapshotReceiver;
use zebu_zab::EncodedTxn;

use crate::history::{CheckResult, Violation};
use crate::server::start::tree_options;

const NAME: &str = "snapshot_digests";

/// Applies `tail` to the snapshot in `bytes` that a SNAP of `zxid` announced.
pub(crate) fn check(server: usize, zxid: Zxid, bytes: &[u8], tail: &[EncodedTxn]) -> CheckResult {
    let mut receiver = SnapshotReceiver::new(tree_options(), zxid);
    let Ok((_, Some(mut tree))) = receiver.feed(bytes) else { return Ok(()) };
    for entry in tail {
        let Ok(decoded) = TxnEntry::decode(&entry.bytes) else { continue };
        tree.apply(&decoded.header, &decoded.txn, &mut |_| ());
        let found = tree.digest();
        if let Some(digest) = decoded.digest.filter(|digest| digest.tree_digest != found) {
            let text = format!(
                "server {server} got a snapshot of {zxid} and after it {} with digest {:x}, but has {found:x}",
                entry.zxid, digest.tree_digest
            );
            return Err(Violation::new(NAME, text));
        }
    }
    Ok(())
}
