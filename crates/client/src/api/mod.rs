//! The typed calls: everything that the protocol offers, as futures and streams.

mod acl;
mod builder;
mod call;
mod children;
mod client;
mod compression;
mod content;
mod create;
mod create_run;
mod delete;
mod ensemble;
mod error;
mod exists;
mod get;
mod identity;
mod janitor;
mod keep_lease;
mod multi_read;
mod pending;
mod protection;
mod quota;
mod retry;
mod set;
mod sync;
mod transaction;
mod types;
mod watch;

pub use acl::{GetAcl, SetAcl};
pub use builder::ClientBuilder;
pub use children::{Children, WatchedChildren};
pub use client::{Client, CloseReport, ConnectError};
pub use compression::Compression;
pub use create::{Create, Parents};
pub use delete::Delete;
pub use ensemble::{EnsembleConfig, Member, Reconfigure};
pub use error::{Error, ErrorKind};
pub use exists::{Exists, WatchedExists};
pub use get::{Get, WatchedGet};
pub use keep_lease::KeptLease;
pub use multi_read::{MultiRead, MultiReadResults, ReadRef};
pub use pending::Pending;
pub use protection::{is_protected, without_protection};
pub use quota::{Quota, QuotaLimits, QuotaUsage};
pub use retry::{Retry, RetryPolicy};
pub use set::Set;
pub use sync::Sync;
pub use transaction::{
    CreateSpec, CreatedInTransaction, OpRef, Transaction, TransactionResult, TransactionResults,
};
pub use types::{AclList, ChildList, Created, Identity, NodeData, Proof, Version, digest_id, sequence_of};
pub use watch::{AddWatch, OneshotWatcher, WatchMode, WatchStream};
