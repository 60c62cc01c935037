//! Local copies of a part of the tree, kept up to date, and typed configuration.

mod area;
mod changes;
mod config;
mod copy;
mod feed_changes;
mod feed_loop;
mod feed_scan;
mod handle;
mod reads;
mod store;
mod watch_loop;
mod watch_source;

pub use changes::{CacheChange, CacheChanges};
pub use config::{ConfigState, JsonConfig};
pub use handle::{Cache, CacheScope, CacheWatchMode};
pub use store::CachedNode;
