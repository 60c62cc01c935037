//! Views that grow with sessions, ephemeral nodes and watches. Each reads in slices, and ends at a
//! limit of bytes.

use zebu_proto::SessionId;

use super::ServerViews;
use crate::four_letter::long_answers::{PATHS_PER_HOLD, sessions_by_watcher};

/// Sessions with the paths of their ephemeral nodes, or with the paths that they watch.
pub type SessionPaths = Vec<(SessionId, Vec<String>)>;

/// Watched paths with the sessions that watch them.
pub type WatchedPaths = Vec<(String, Vec<SessionId>)>;

/// The view would exceed the caller's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is longer than {limit} bytes")]
pub struct ViewTooLong {
    /// The limit in bytes.
    pub limit: usize,
}

/// Bytes of the texts that a view has collected.
struct ByteBudget {
    limit: usize,
    left: usize,
}

impl ByteBudget {
    fn take(&mut self, bytes: usize) -> Result<(), ViewTooLong> {
        self.left = self.left.checked_sub(bytes).ok_or(ViewTooLong { limit: self.limit })?;
        Ok(())
    }
}

/// Bytes of an id or of the marks around a path, about.
const ENTRY_BYTES: usize = 24;

impl ServerViews {
    /// The ephemeral nodes by session.
    ///
    /// # Errors
    /// The view exceeds `limit` bytes.
    pub fn ephemerals(&self, limit: usize) -> Result<SessionPaths, ViewTooLong> {
        let mut budget = ByteBudget { limit, left: limit };
        let owners: Vec<SessionId> = self.shared.read_replica().tree().sessions_with_ephemerals().collect();
        let mut sessions = Vec::with_capacity(owners.len());
        for session in owners {
            let paths = self.shared.read_replica().tree().ephemerals_of(session);
            budget.take(ENTRY_BYTES + paths.iter().map(|path| path.len() + ENTRY_BYTES).sum::<usize>())?;
            sessions.push((session, paths.into_iter().map(String::from).collect()));
        }
        Ok(sessions)
    }

    /// The watches on data by session.
    ///
    /// # Errors
    /// The view exceeds `limit` bytes.
    pub fn watches(&self, limit: usize) -> Result<SessionPaths, ViewTooLong> {
        let mut budget = ByteBudget { limit, left: limit };
        let mut sessions = Vec::new();
        for (watcher, session) in sessions_by_watcher(&self.shared) {
            let mut paths = Vec::new();
            let mut next = Some(0);
            while let Some(position) = next.take() {
                let replica = self.shared.read_replica();
                let table = replica.watches();
                for (count, (position, path)) in table.data_paths_of(watcher, position).enumerate() {
                    budget.take(path.len() + ENTRY_BYTES)?;
                    paths.push(path.to_owned());
                    if count + 1 == PATHS_PER_HOLD {
                        next = Some(position + 1);
                        break;
                    }
                }
            }
            if !paths.is_empty() {
                budget.take(ENTRY_BYTES)?;
                sessions.push((session, paths));
            }
        }
        Ok(sessions)
    }

    /// The watches on data by path.
    ///
    /// # Errors
    /// The view exceeds `limit` bytes.
    pub fn watches_by_path(&self, limit: usize) -> Result<WatchedPaths, ViewTooLong> {
        let mut budget = ByteBudget { limit, left: limit };
        let sessions = sessions_by_watcher(&self.shared);
        let mut paths = Vec::new();
        let mut next = Some(0);
        while let Some(position) = next.take() {
            let replica = self.shared.read_replica();
            let table = replica.watches();
            for (count, (position, path, watchers)) in table.data_by_path_from(position).enumerate() {
                let watching: Vec<SessionId> =
                    watchers.iter().filter_map(|watcher| sessions.get(watcher).copied()).collect();
                budget.take(path.len() + (watching.len() + 1) * ENTRY_BYTES)?;
                paths.push((path.to_owned(), watching));
                if count + 1 == PATHS_PER_HOLD {
                    next = Some(position + 1);
                    break;
                }
            }
        }
        Ok(paths)
    }
}
