//! Transactions: what a write becomes once it is decided. The same bytes go into the log, to the other
//! members and to Apache's servers.

mod body;
mod entry;
mod length;

pub use body::{
    CheckTxn, CreateContainerTxn, CreateTtlTxn, CreateTxn, DIGEST_VERSION, SetAclTxn, SetDataTxn, SubTxn,
    Txn, TxnDigest,
};
pub use entry::{TxnEntry, TxnHeader};
