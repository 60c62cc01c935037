//! Four-letter words whose replies grow with connections, sessions, ephemeral nodes and watches.
//! They are sent in pieces: no reply is built in memory as a whole, and no lock is held while the
//! client reads. `four_letter` defines the layout.

use std::collections::BTreeMap;
use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use zebu_node::ServingMode;
use zebu_node::session::TrackerReport;
use zebu_proto::SessionId;
use zebu_tree::watch::WatcherId;

use super::{collect, top};
use crate::core::context::ServerContext;
use crate::core::inbox::CoreStatus;
use crate::four_letter::connection::{write_connection, write_stat_head, write_stat_tail};
use crate::four_letter::dump::{write_connections_of_sessions, write_ephemerals, write_sessions};
use crate::four_letter::watches::{write_path, write_path_of_session, write_session};
use crate::four_letter::{
    ConnectionDetail, DumpedConnection, ExpiryBucket, FourLetterWord, GlobalSessions, SessionDump,
};
use crate::net::ClientPortKind;

/// Text above this length is sent before more is appended.
const PIECE_BYTES: usize = 64 << 10;

/// Watched paths that are read under one hold of the locks.
pub(crate) const PATHS_PER_HOLD: usize = 1000;

/// A word with a long reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LongAnswer {
    Stat,
    Connections,
    Sessions,
    WatchesBySession,
    WatchesByPath,
    HotKeys,
    LargestNodes,
}

impl LongAnswer {
    pub(crate) fn of(word: FourLetterWord) -> Option<LongAnswer> {
        match word {
            FourLetterWord::Stat => Some(LongAnswer::Stat),
            FourLetterWord::Cons => Some(LongAnswer::Connections),
            FourLetterWord::Dump => Some(LongAnswer::Sessions),
            FourLetterWord::Wchc => Some(LongAnswer::WatchesBySession),
            FourLetterWord::Wchp => Some(LongAnswer::WatchesByPath),
            FourLetterWord::Topp => Some(LongAnswer::HotKeys),
            FourLetterWord::Topn => Some(LongAnswer::LargestNodes),
            FourLetterWord::Conf
            | FourLetterWord::Crst
            | FourLetterWord::Dirs
            | FourLetterWord::Envi
            | FourLetterWord::Gtmk
            | FourLetterWord::Hash
            | FourLetterWord::Isro
            | FourLetterWord::Mntr
            | FourLetterWord::Ruok
            | FourLetterWord::Shed
            | FourLetterWord::Srst
            | FourLetterWord::Srvr
            | FourLetterWord::Stmk
            | FourLetterWord::TelnetClose
            | FourLetterWord::Wchs => None,
        }
    }

    pub(crate) async fn write(
        self,
        stream: &mut (impl AsyncWrite + Unpin),
        shared: &ServerContext,
        port: ClientPortKind,
    ) -> io::Result<()> {
        let mut pieces = Pieces { stream, text: String::new() };
        match self {
            LongAnswer::Stat => {
                let server = collect::collect_server(shared);
                write_stat_head(&mut pieces.text, &server);
                connections(&mut pieces, shared, port, ConnectionDetail::Brief).await?;
                write_stat_tail(&mut pieces.text, &server);
            }
            LongAnswer::Connections => {
                connections(&mut pieces, shared, port, ConnectionDetail::Full).await?;
                pieces.text.push('\n');
            }
            LongAnswer::Sessions => {
                if let Some(core) = collect::query_core_status(shared).await {
                    sessions(&mut pieces, shared, core).await?;
                }
            }
            LongAnswer::WatchesBySession => {
                watches_by_session(&mut pieces, shared).await?;
                pieces.text.push('\n');
            }
            LongAnswer::WatchesByPath => {
                watches_by_path(&mut pieces, shared).await?;
                pieces.text.push('\n');
            }
            LongAnswer::HotKeys => top::write_hot(&mut pieces.text, shared),
            LongAnswer::LargestNodes => {
                let nodes = shared.traffic.largest_nodes.get(shared).await;
                top::write_largest(&mut pieces.text, &nodes);
            }
        }
        pieces.send().await
    }
}

/// The text that is not sent yet, and its stream.
struct Pieces<'a, Stream> {
    stream: &'a mut Stream,
    text: String,
}

impl<Stream: AsyncWrite + Unpin> Pieces<'_, Stream> {
    fn is_long(&self) -> bool {
        self.text.len() >= PIECE_BYTES
    }

    async fn send_if_long(&mut self) -> io::Result<()> {
        if self.is_long() { self.send().await } else { Ok(()) }
    }

    async fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(self.text.as_bytes()).await?;
        self.text.clear();
        // One piece may have been far longer than usual.
        self.text.shrink_to(2 * PIECE_BYTES);
        Ok(())
    }
}

/// Writes the connections of the port on which the word came, as ZooKeeper does.
async fn connections<S: AsyncWrite + Unpin>(
    pieces: &mut Pieces<'_, S>,
    shared: &ServerContext,
    port: ClientPortKind,
    detail: ConnectionDetail,
) -> io::Result<()> {
    for entry in shared.connections.all_of(port) {
        write_connection(&mut pieces.text, &collect::connection_report(&entry), detail);
        pieces.send_if_long().await?;
    }
    Ok(())
}

/// Writes `dump`. Ids and times are small and are collected first; the paths of ephemeral nodes are
/// read per session.
async fn sessions<S: AsyncWrite + Unpin>(
    pieces: &mut Pieces<'_, S>,
    shared: &ServerContext,
    core: CoreStatus,
) -> io::Result<()> {
    let owners: Vec<SessionId> = shared.read_replica().tree().sessions_with_ephemerals().collect();
    let dump = session_dump(shared, core, owners.len());
    write_sessions(&mut pieces.text, &dump);
    for session in owners {
        let paths = shared.read_replica().tree().ephemerals_of(session);
        write_ephemerals(&mut pieces.text, session, &paths);
        pieces.send_if_long().await?;
    }
    write_connections_of_sessions(&mut pieces.text, &dump);
    Ok(())
}

fn session_dump(shared: &ServerContext, core: CoreStatus, sessions_with_ephemerals: usize) -> SessionDump {
    let now = shared.clock.now();
    let wall = |monotonic_ms: i64| now.wall_ms + (monotonic_ms - now.monotonic_ms);
    let buckets = |report: TrackerReport| -> Vec<_> {
        let buckets = report.buckets.into_iter();
        buckets
            .map(|(at_ms, members)| ExpiryBucket { expires_at_ms: wall(at_ms), entries: members })
            .collect()
    };
    let sessions = match shared.serving_mode() {
        Some(ServingMode::Follower | ServingMode::Observer) => {
            let replica = shared.read_replica();
            let timeouts = replica.tree().sessions().iter().map(|(&id, &ms)| (id, ms));
            GlobalSessions::WithTimeouts(timeouts.collect())
        }
        Some(ServingMode::Leader | ServingMode::Standalone | ServingMode::ReadOnly) | None => {
            GlobalSessions::ByExpiry(buckets(core.global_sessions))
        }
    };
    let connections = connections_by_expiry(shared).into_iter();
    let connections = connections
        .map(|(at_ms, members)| ExpiryBucket { expires_at_ms: wall(at_ms), entries: members })
        .collect();
    SessionDump { local: core.local_sessions.map(buckets), sessions, sessions_with_ephemerals, connections }
}

/// The connections by expiry in monotonic milliseconds, rounded up to ticks.
fn connections_by_expiry(shared: &ServerContext) -> BTreeMap<i64, Vec<DumpedConnection>> {
    let tick_ms = shared.config.sessions.tick_time.as_millis() as i64;
    let mut by_time = BTreeMap::<i64, Vec<DumpedConnection>>::new();
    for entry in shared.connections.all() {
        let connection = entry.lock();
        let session = connection.session.map_or(SessionId::NONE, |session| session.id);
        let timeout_ms = match connection.session {
            Some(session) => i64::from(session.timeout_ms),
            None => shared.config.listen.sessionless_timeout.as_millis() as i64,
        };
        let at_ms = ((connection.touched_ms + timeout_ms) / tick_ms + 1) * tick_ms;
        by_time.entry(at_ms).or_default().push(DumpedConnection { remote: entry.remote_address, session });
    }
    by_time
}

/// The sessions of all connections by watcher id, which equals the connection id.
pub(crate) fn sessions_by_watcher(shared: &ServerContext) -> BTreeMap<WatcherId, SessionId> {
    let entries = shared.connections.all();
    let session = entries.iter().filter_map(|entry| {
        let connection = entry.lock();
        connection.session.map(|session| (WatcherId(connection.id.0), session.id))
    });
    session.collect()
}

async fn watches_by_session<S: AsyncWrite + Unpin>(
    pieces: &mut Pieces<'_, S>,
    shared: &ServerContext,
) -> io::Result<()> {
    for (watcher, session) in sessions_by_watcher(shared) {
        let mut next = Some(0);
        let mut is_first = true;
        while let Some(position) = next.take() {
            {
                let replica = shared.read_replica();
                let table = replica.watches();
                let mut looked_at = 0;
                for (position, path) in table.data_paths_of(watcher, position) {
                    if std::mem::take(&mut is_first) {
                        write_session(&mut pieces.text, session);
                    }
                    write_path_of_session(&mut pieces.text, path);
                    looked_at += 1;
                    if pieces.is_long() || looked_at == PATHS_PER_HOLD {
                        next = Some(position + 1);
                        break;
                    }
                }
            }
            pieces.send_if_long().await?;
        }
    }
    Ok(())
}

async fn watches_by_path<S: AsyncWrite + Unpin>(
    pieces: &mut Pieces<'_, S>,
    shared: &ServerContext,
) -> io::Result<()> {
    let sessions = sessions_by_watcher(shared);
    let mut next = Some(0);
    while let Some(position) = next.take() {
        {
            let replica = shared.read_replica();
            let table = replica.watches();
            let mut looked_at = 0;
            for (position, path, watchers) in table.data_by_path_from(position) {
                let watching = watchers.iter().filter_map(|watcher| sessions.get(watcher).copied());
                write_path(&mut pieces.text, path, watching);
                looked_at += 1;
                if pieces.is_long() || looked_at == PATHS_PER_HOLD {
                    next = Some(position + 1);
                    break;
                }
            }
        }
        pieces.send_if_long().await?;
    }
    Ok(())
}
