//! Copies of a part of the tree that are kept up to date, and configuration on top of them.

mod changes;
mod config;
mod follow;
mod mirror;
mod store;

pub use changes::{Change, Changes};
pub use config::{Config, Reading};
pub use mirror::{Cache, CacheWatching, Reach};
pub use store::CachedNode;
