//! What a znode tree means.
//!
//! [`Tree`] is the replicated state. [`Tree::prepare`] turns a request into a transaction, against the tree
//! and the [`Overlay`] of changes that are decided but not applied; [`Tree::apply`] turns a transaction into
//! new state, an [`Outcome`] and [`TreeEvent`]s. [`watch::WatchTable`] knows who waits for which event.
//!
//! The crate is pure: no files, no clock, no threads. It never fails on a transaction, whoever wrote it.

mod acl_table;
mod apply;
mod arena;
mod digest;
mod edit;
mod event;
mod expiry;
mod loader;
mod name;
mod name_index;
mod node;
mod node_ref;
mod options;
mod outcome;
mod overlay;
mod owner;
mod owner_table;
mod prep;
mod quota;
mod slots;
mod tree;
mod values;
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
pub use outcome::Outcome;
pub use overlay::Overlay;
pub use owner::{CONTAINER_OWNER, Lifetime, TTL_MAX_MS};
pub use prep::{PrepareContext, Prepared, Reconfig};
pub use tree::Tree;
pub use walker::{NodeSink, WalkProgress, Walker};
