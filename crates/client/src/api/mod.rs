//! The typed calls: all operations of the protocol, as futures and streams.

mod acl;
mod builder;
mod call;
mod child_pages;
mod children;
mod cleanup;
mod client;
mod compression;
mod create;
mod create_retry;
mod delete;
mod ensemble;
mod error;
mod exists;
mod feed;
mod freshness;
mod get;
mod identity;
mod keep_lease;
mod multi_read;
mod node_content;
mod pending;
mod protection;
mod quota;
mod retry;
mod scan;
mod set;
mod sync;
mod transaction;
mod types;
mod watch;

pub use acl::{GetAcl, SetAcl};
pub use builder::ClientBuilder;
pub use child_pages::{ChildEntry, ChildPage, ChildPages};
pub use children::{Children, WatchedChildren};
pub use cleanup::CleanupGuard;
pub use client::{Client, CloseReport, ConnectError};
pub use compression::Compression;
pub use create::{Create, Parents};
pub use delete::Delete;
pub use ensemble::{ConfigMember, EnsembleConfig, Reconfigure};
pub use error::{Error, ErrorKind};
pub use exists::{Exists, WatchedExists};
pub use feed::{Feed, FeedItem, FeedTransaction, NodeChange};
pub use get::{Get, WatchedGet};
pub use keep_lease::LeaseRenewal;
pub use multi_read::{MultiRead, MultiReadResults, ReadRef};
pub use pending::Pending;
pub use protection::{ProtectionStyle, is_protected, without_protection};
pub use quota::{Quota, QuotaLimits, QuotaUsage};
pub use retry::{Retry, RetryPolicy};
pub use scan::{Scan, ScanEntry};
pub use set::Set;
pub use sync::Sync;
pub use transaction::{
    CreateSpec, CreatedInTransaction, OpRef, Transaction, TransactionResult, TransactionResults,
};
pub use types::{
    AclList, ChildList, ConfirmedBy, Created, Identity, NodeData, Version, digest_id, sequence_of,
};
pub use watch::{AddWatch, OneshotWatcher, WatchMode, WatchStream};
