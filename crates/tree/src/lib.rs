//! The semantics of the znode tree.
//!
//! [`Tree`] is the replicated state. [`Tree::prepare`] turns a request into a transaction, against the tree
//! and the [`Overlay`] of prepared changes. [`Tree::apply`] turns a transaction into new state, an
//! [`TxnOutcome`] and [`TreeEvent`]s. [`watch::WatchTable`] maps events to watchers.
//!
//! The crate is pure: no files, no clock, no threads. It never fails on a transaction, even on an invalid
//! one.

mod acl_table;
mod apply;
mod arena;
mod birth_numbers;
mod data_store;
mod digest;
mod event;
mod expiry;
mod loader;
mod mutate;
mod name;
mod name_index;
mod node;
mod node_ref;
mod options;
mod outcome;
mod overlay;
mod owner;
mod prep;
mod quota;
mod sibling_orders;
mod slots;
mod sorted_blocks;
mod subtree_scan;
mod trait_table;
mod tree;
mod walker;

pub mod access;
pub mod path;
pub mod watch;

pub use access::{Credentials, Policy};
pub use digest::digest_of_node;
pub use event::TreeEvent;
pub use loader::{LoadError, TreeLoader};
pub use node_ref::{Children, NodeRef};
pub use options::{DigestMode, TreeOptions, TtlNodes};
pub use outcome::TxnOutcome;
pub use overlay::Overlay;
pub use owner::{CONTAINER_OWNER, Lifetime, TTL_MAX_MS};
pub use prep::{PrepareContext, Prepared, Reconfig, delete_tree_reply};
pub use quota::QuotaUsage;
pub use sibling_orders::{ChildBound, SiblingSort, SortLimits};
pub use subtree_scan::{ScanBounds, ScanPlace, ScanVisit};
pub use tree::Tree;
pub use walker::{NodeSink, WalkProgress, Walker};
