//! Sessions for the HTTP API: pages in the order of their ids, and the details of one session.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use zebu_proto::SessionId;

use super::{ConnectionView, ServerViews};
use crate::four_letter::long_answers::sessions_by_watcher;

/// A session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    /// Its id.
    pub id: SessionId,
    /// The negotiated timeout in milliseconds.
    pub timeout_ms: i32,
    /// How many ephemeral nodes it has.
    pub ephemerals: usize,
    /// Whether only this server knows the session.
    pub is_local: bool,
    /// Its connection, if it is connected to this server.
    pub connection: Option<ConnectionView>,
}

/// A page of sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionPage {
    /// In the order of their ids.
    pub sessions: Vec<SessionRow>,
    /// Whether there are sessions behind the last one.
    pub has_more: bool,
    /// All sessions of the ensemble, without local ones.
    pub total: usize,
}

/// A session with the paths that belong to it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionDetailView {
    /// Everything else.
    pub row: SessionRow,
    /// Paths of its ephemeral nodes, up to the limit of the caller.
    pub ephemerals: Vec<String>,
    /// Paths with a watch on data that this server holds, up to the limit of the caller.
    pub data_watches: Vec<String>,
    /// Whether one of the lists was cut.
    pub is_cut: bool,
}

/// The sessions with a connection to this server, at one moment.
#[derive(Debug)]
pub struct ConnectedSessions {
    by_id: BTreeMap<SessionId, ConnectionView>,
    local: BTreeSet<SessionId>,
}

impl ServerViews {
    /// At most `limit` sessions with ids above `after`. Ids are compared as signed numbers.
    pub fn session_page(&self, after: Option<SessionId>, limit: usize) -> SessionPage {
        self.session_page_with(&self.sessions_here(), after, limit)
    }

    /// The connections for the pages of a walk over all sessions. A local session is one that the tree does
    /// not have now; a session that ends during the walk does not become one.
    pub fn sessions_here(&self) -> ConnectedSessions {
        let by_id = self.connected_sessions();
        let replica = self.shared.read_replica();
        let known = replica.tree().sessions();
        let local = by_id.keys().filter(|id| !known.contains_key(id)).copied().collect();
        ConnectedSessions { by_id, local }
    }

    /// A page as [`ServerViews::session_page`] with connections that were read before.
    pub fn session_page_with(
        &self,
        connected: &ConnectedSessions,
        after: Option<SessionId>,
        limit: usize,
    ) -> SessionPage {
        let above = after.map_or(Bound::Unbounded, Bound::Excluded);
        let replica = self.shared.read_replica();
        let tree = replica.tree();
        let global = tree.sessions().range((above, Bound::Unbounded)).take(limit + 1);
        let mut rows: BTreeMap<SessionId, SessionRow> = global
            .map(|(&id, &timeout_ms)| {
                let ephemerals = tree.ephemerals_count_of(id);
                (id, SessionRow { id, timeout_ms, ephemerals, is_local: false, connection: None })
            })
            .collect();
        // Behind the last global session of a full page, local ones wait for the next page.
        let last = rows.last_key_value().filter(|_| rows.len() > limit);
        let end = last.map_or(Bound::Unbounded, |(id, _)| Bound::Included(*id));
        for (&id, connection) in connected.by_id.range((above, end)) {
            if let Some(row) = rows.get_mut(&id) {
                row.connection = Some(connection.clone());
            } else if connected.local.contains(&id) {
                let timeout_ms = connection.session.as_ref().map_or(0, |session| session.timeout_ms);
                let connection = Some(connection.clone());
                rows.insert(id, SessionRow { id, timeout_ms, ephemerals: 0, is_local: true, connection });
            }
        }
        let (has_more, total) = (rows.len() > limit, tree.sessions().len());
        SessionPage { sessions: rows.into_values().take(limit).collect(), has_more, total }
    }

    /// One session with at most `limit` paths of each kind; `None` if this server does not know it.
    pub fn session_detail(&self, id: SessionId, limit: usize) -> Option<SessionDetailView> {
        let connection = self.connected_sessions().remove(&id);
        let (timeout_ms, ephemerals_count, ephemerals) = {
            let replica = self.shared.read_replica();
            let tree = replica.tree();
            let paths: Vec<String> = tree.ephemeral_paths_of(id).take(limit).collect();
            (tree.sessions().get(&id).copied(), tree.ephemerals_count_of(id), paths)
        };
        let is_local = timeout_ms.is_none();
        let connected_timeout = connection.as_ref().and_then(|connection| connection.session.as_ref());
        let timeout_ms = timeout_ms.or(connected_timeout.map(|session| session.timeout_ms))?;
        let data_watches = self.data_watches_of(id, limit + 1);
        let is_cut = ephemerals_count > limit || data_watches.len() > limit;
        let data_watches = data_watches.into_iter().take(limit).collect();
        let row = SessionRow { id, timeout_ms, ephemerals: ephemerals_count, is_local, connection };
        Some(SessionDetailView { row, ephemerals, data_watches, is_cut })
    }

    fn data_watches_of(&self, id: SessionId, max: usize) -> Vec<String> {
        let watcher = sessions_by_watcher(&self.shared)
            .into_iter()
            .find_map(|(watcher, session)| (session == id).then_some(watcher));
        let Some(watcher) = watcher else { return Vec::new() };
        let replica = self.shared.read_replica();
        let table = replica.watches();
        table.data_paths_of(watcher, 0).take(max).map(|(_, path)| path.to_owned()).collect()
    }

    fn connected_sessions(&self) -> BTreeMap<SessionId, ConnectionView> {
        // A connection that closes may belong to a session that has ended or moved.
        let connections = self.connections().into_iter().filter(|connection| connection.is_serving);
        connections.filter_map(|connection| Some((connection.session.as_ref()?.id, connection))).collect()
    }
}
