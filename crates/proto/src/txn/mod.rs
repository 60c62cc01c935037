//! Transactions: the form of a write after it is prepared. The same bytes go to the log, to the other servers
//! and to servers of ZooKeeper.

mod body;
mod entry;
mod length;

pub use body::{
    CheckTxn, CreateContainerTxn, CreateTtlTxn, CreateTxn, DIGEST_VERSION, SetAclTxn, SetDataTxn, SubTxn,
    Txn, TxnDigest,
};
pub use entry::{TxnEntry, TxnHeader};
