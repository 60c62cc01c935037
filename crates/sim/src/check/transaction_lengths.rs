//! No proposed transaction is longer than the length that every server can read. A request that needs a
//! longer one is refused, and the transaction that closes a session always fits.

use zebu_proto::ErrorCode;
use zebu_proto::client::{KeeperPart, KeeperWrite};
use zebu_proto::txn::Txn;

use crate::history::{CheckResult, Violation};
use crate::model::Model;
use crate::operation::{Operation, WriteOperation};

const NAME: &str = "transaction_lengths";

/// Bytes of a transaction that are not in its request: header, digest and the suffix that the server adds to
/// a name.
const OVERHEAD: usize = 200;

/// Checks the length of a committed transaction.
pub(crate) fn check_commit(zxid: i64, length: usize, limit: usize) -> CheckResult {
    if length <= limit {
        return Ok(());
    }
    let text = format!("transaction {zxid:#x} has {length} bytes; members read {limit}");
    Err(Violation::new(NAME, text))
}

/// Whether a request was refused because its transaction would be too long, and that can be true.
pub(crate) fn is_refused_as_too_long(txn: &Txn, operation: &Operation, model: &Model, limit: usize) -> bool {
    // A delete of a subtree deletes less, or is refused with another error.
    let deletes_subtree = match operation {
        Operation::DeleteTree(_) => true,
        Operation::Write(write) => subtree_root(write).is_some(),
        _ => false,
    };
    if *txn != Txn::error(ErrorCode::MarshallingError) || deletes_subtree {
        return false;
    }
    let mut request = Vec::new();
    operation.encode(&mut request);
    // A multi that deletes a subtree names all of its nodes.
    let subtrees: usize = match operation {
        Operation::Multi(writes) => {
            writes.iter().filter_map(subtree_root).map(|root| model.deletes_bytes(root)).sum()
        }
        _ => 0,
    };
    request.len() + subtrees + OVERHEAD > limit
}

/// The first node of a subtree that a write deletes.
fn subtree_root(write: &WriteOperation) -> Option<&str> {
    let WriteOperation::Keeper(part) = write else { return None };
    match &**part {
        KeeperPart::Write(KeeperWrite::RemoveRecursive(request)) => request.path.as_deref(),
        KeeperPart::Write(_) | KeeperPart::Check(_) => None,
    }
}

/// Bytes that the deletes of one request may have. Servers of old releases read a packet of `PACKET_MAX`.
/// Header, number of parts and digest take the rest of a short transaction.
pub(crate) fn deletes_bytes_max(limit: usize) -> usize {
    const PACKET_MAX: usize = 0xf_ffff;
    const REST: usize = 1 << 16;
    const HEADER_COUNT_AND_DIGEST: usize = 32 + 4 + 12;
    (PACKET_MAX - REST).min(limit - HEADER_COUNT_AND_DIGEST)
}
