//! No proposed transaction is longer than the length that every server can read. A request that needs a
//! longer one is refused, and the transaction that closes a session always fits.

use zebu_proto::ErrorCode;
use zebu_proto::txn::Txn;

use crate::history::{CheckResult, Violation};
use crate::operation::Operation;

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
pub(crate) fn is_refused_as_too_long(txn: &Txn, operation: &Operation, limit: usize) -> bool {
    let mut request = Vec::new();
    operation.encode(&mut request);
    *txn == Txn::error(ErrorCode::MarshallingError) && request.len() + OVERHEAD > limit
}
