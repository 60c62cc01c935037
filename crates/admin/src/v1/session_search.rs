//! The sessions that fit a text, in an order other than that of their ids. A walk looks at all sessions in
//! slices, and keeps the first ones.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use zebu_proto::SessionId;
use zebu_server::views::{ServerViews, SessionRow};

use super::problem::Problem;
use super::values::hex;

/// Sessions that are looked at before other requests get their turn.
const SLICE: usize = 1024;

/// The order of a list of sessions: by id, or the largest number first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionOrder {
    /// By id.
    Id,
    /// Most requests.
    Received,
    /// Highest maximum latency.
    Latency,
    /// Most ephemeral nodes.
    Ephemerals,
}

impl SessionOrder {
    /// The order with a name.
    pub fn of_name(name: Option<&str>) -> Result<SessionOrder, Problem> {
        match name {
            None | Some("id") => Ok(SessionOrder::Id),
            Some("received") => Ok(SessionOrder::Received),
            Some("latency") => Ok(SessionOrder::Latency),
            Some("ephemerals") => Ok(SessionOrder::Ephemerals),
            Some(_) => {
                Err(Problem::bad_request("order takes the values id, received, latency and ephemerals"))
            }
        }
    }

    fn weight(self, row: &SessionRow) -> i64 {
        let connection = row.connection.as_ref();
        let session = connection.and_then(|connection| connection.session.as_ref());
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        match self {
            SessionOrder::Id => 0,
            SessionOrder::Received => {
                connection.map_or(-1, |connection| i64::try_from(connection.received).unwrap_or(i64::MAX))
            }
            SessionOrder::Latency => session.map_or(-1, |session| session.max_latency_ms),
            SessionOrder::Ephemerals => count(row.ephemerals),
        }
    }
}

/// The sessions that were found.
#[derive(Debug)]
pub(crate) struct FoundSessions {
    pub(crate) sessions: Vec<SessionRow>,
    pub(crate) matched: usize,
    pub(crate) total: usize,
}

/// The first `limit` sessions of an order whose id or client address has a text. The text is in lower case.
pub(crate) async fn find_sessions(
    views: &ServerViews,
    text: &str,
    order: SessionOrder,
    limit: usize,
) -> FoundSessions {
    let connected = views.sessions_here();
    let mut first: BTreeMap<(Reverse<i64>, SessionId), SessionRow> = BTreeMap::new();
    let (mut matched, mut after) = (0, None);
    loop {
        let page = views.session_page_with(&connected, after, SLICE);
        after = page.sessions.last().map(|row| row.id);
        for row in page.sessions.into_iter().filter(|row| fits(row, text)) {
            matched += 1;
            first.insert((Reverse(order.weight(&row)), row.id), row);
            if first.len() > limit {
                first.pop_last();
            }
        }
        if !page.has_more {
            return FoundSessions { sessions: first.into_values().collect(), matched, total: page.total };
        }
        tokio::task::yield_now().await;
    }
}

fn fits(row: &SessionRow, text: &str) -> bool {
    text.is_empty()
        || hex(row.id.0).as_str().is_some_and(|id| id.contains(text))
        || row.connection.as_ref().is_some_and(|connection| connection.remote.to_lowercase().contains(text))
}
