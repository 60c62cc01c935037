//! Watches of connections. Pure: it returns the watchers of an event; the caller sends the notifications.

mod modes;
mod summary;
mod table;
mod watchers;

pub use modes::WatchKind;
pub use summary::DataWatchSummary;
pub use table::WatchTable;

/// A connection that watches. The caller assigns the numbers and never reuses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatcherId(pub u64);
