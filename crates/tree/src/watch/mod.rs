//! Watches: who waits for what. Pure: it says which watchers an event concerns, others tell them.

mod modes;
mod summary;
mod table;
mod watchers;

pub use modes::WatchKind;
pub use summary::DataWatchSummary;
pub use table::WatchTable;

/// A connection that watches. The caller gives the numbers and never uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatcherId(pub u64);
