//! Local copies of a part of the tree, kept up to date, and typed configuration.

mod changes;
mod config;
mod handle;
mod store;
mod watch_loop;

pub use changes::{CacheChange, CacheChanges};
pub use config::{ConfigState, JsonConfig};
pub use handle::{Cache, CacheScope, CacheWatchMode};
pub use store::CachedNode;
