//! The limit of watched paths per connection. A request beyond it is refused as a whole, so that no client
//! misses a watch without knowing.
//!
//! Only requests of the connection itself add watches, and its lock is held. So the check and the
//! registration after it need not share one hold of the table's lock.

use std::collections::BTreeSet;

use zebu_proto::ErrorCode;
use zebu_proto::client::watch::SetWatches;

use crate::connection::ConnectionId;
use crate::replica::{Replica, watcher_id};

impl Replica {
    /// Refuses a watch on one more path beyond the limit. A path that the connection already watches is no
    /// further one.
    pub(crate) fn check_watch_limit(&self, connection: ConnectionId, path: &str) -> Result<(), ErrorCode> {
        let limit = self.traffic.watched_paths_max;
        if limit == usize::MAX {
            return Ok(());
        }
        let table = self.watches();
        let watcher = watcher_id(connection);
        if table.watched_paths(watcher) < limit || table.is_watching(watcher, path) {
            return Ok(());
        }
        self.metrics.watches_refused.increment();
        Err(ErrorCode::BadArguments)
    }

    /// Refuses a setWatches that would exceed the limit. A client within the limit never sends one, because
    /// its watches were counted on the connection before.
    pub(crate) fn check_set_watches_limit(
        &self,
        connection: ConnectionId,
        request: &SetWatches,
    ) -> Result<(), ErrorCode> {
        let limit = self.traffic.watched_paths_max;
        if limit == usize::MAX {
            return Ok(());
        }
        let SetWatches { data, exist, child, persistent, persistent_recursive, .. } = request;
        let lists = [data, exist, child, persistent, persistent_recursive];
        let paths = || lists.into_iter().flatten().flatten().filter_map(|path| path.as_deref());
        let table = self.watches();
        let watcher = watcher_id(connection);
        let watched = table.watched_paths(watcher);
        if watched + paths().count() <= limit {
            return Ok(());
        }
        // A path may be in several lists.
        let further: BTreeSet<&str> = paths().filter(|path| !table.is_watching(watcher, path)).collect();
        if watched + further.len() <= limit {
            return Ok(());
        }
        self.metrics.watches_refused.increment();
        Err(ErrorCode::BadArguments)
    }
}
