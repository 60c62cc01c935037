//! No transaction is proposed that is longer than every member reads. A request that needs a longer one is refused,
//! and the end of a session always fits.

use zebu_proto::ErrorCode;
use zebu_proto::txn::Txn;

use crate::history::{Verdict, Violation};
use crate::operation::Operation;

const NAME: &str = "transaction_lengths";

/// Bytes of a transaction that are not in its request: header, digest and what the server adds to a name.
const OVERHEAD: usize = 200;

/// A transaction was committed.
pub(crate) fn check_commit(zxid: i64, length: usize, limit: usize) -> Verdict {
    if length <= limit {
        return Ok(());
    }
    let text = format!("transaction {zxid:#x} has {length} bytes; members read {limit}");
    Err(Violation::new(NAME, text))
}

/// Whether a request was refused because its transaction would be too long, and could be.
pub(crate) fn is_refused_as_too_long(txn: &Txn, operation: &Operation, limit: usize) -> bool {
    let mut request = Vec::new();
    operation.encode(&mut request);
    *txn == Txn::error(ErrorCode::MarshallingError) && request.len() + OVERHEAD > limit
}
