//! Four-letter words: gathers what each of them shows and sends it. The layout of the answers is in
//! `four_letter`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::info;
use zebu_node::Phase;
use zebu_node::session::TrackerReport;
use zebu_proto::{SessionId, Zxid};
use zebu_tree::Tree;
use zebu_zab::Serving;

use crate::config::ServerConfig;
use crate::four_letter::{
    ConnectionOfSession, ConnectionReport, DirectorySizes, ExpiryBucket, Gauges, GlobalSessions, Interest,
    MachineReport, Metrics, Mode, Report, ResponseSize, ServerReport, SessionDump, SessionReport,
    SettingsReport, Summary, WatchSummary, Word, render, render_not_allowed, render_not_serving,
};
use crate::inbox::{SessionsReport, Urgent};
use crate::lanes::LaneCell;
use crate::member_words;
use crate::shared::{Shared, Standing};
use crate::shedding;

/// Bytes after a word that are read and thrown away before the connection is closed.
const DISCARD_BYTES_MAX: usize = 64 * 1024;

/// How long the close waits for the client to close first.
const DISCARD_PATIENCE: Duration = Duration::from_millis(500);

/// ZooKeeper's trace mask at start. It is kept and shown, and means nothing here.
pub(crate) const TRACE_MASK_DEFAULT: i64 = 306;

/// The text of the answer to a word. `rest` is what came behind it already.
pub(crate) async fn answer(
    word: Word,
    stream: &mut (impl AsyncRead + Unpin),
    rest: &[u8],
    shared: &Shared,
    cell: &LaneCell,
) -> String {
    if word == Word::TelnetClose {
        return String::new();
    }
    if !shared.config.four_letter_words.allows(word) {
        return render_not_allowed(word);
    }
    info!(peer = %cell.peer, word = word.name(), "four-letter word");
    let serves = !shared.stopping.load(std::sync::atomic::Ordering::Acquire)
        && shared.standing() != Standing::NotServing;
    if !serves && let Some(text) = render_not_serving(word) {
        return text;
    }
    match report(word, stream, rest, shared).await {
        Some(report) => render(&report),
        None => String::new(),
    }
}

/// Reads what the client still sends. Closing with unread input would reset the connection, and the client
/// might never see the answer.
pub(crate) async fn discard_input(stream: &mut (impl AsyncRead + Unpin)) {
    let discard = async {
        let mut left = DISCARD_BYTES_MAX;
        let mut buffer = [0; 1024];
        while let Ok(count) = stream.read(&mut buffer).await {
            left = left.saturating_sub(count);
            if count == 0 || left == 0 {
                return;
            }
        }
    };
    // A client that keeps its side open is not waited for.
    let _ = timeout(DISCARD_PATIENCE, discard).await;
}

async fn report(
    word: Word,
    stream: &mut (impl AsyncRead + Unpin),
    rest: &[u8],
    shared: &Shared,
) -> Option<Report> {
    Some(match word {
        Word::Ruok => Report::Alive,
        Word::Srvr => Report::Server(server(shared)),
        Word::Stat => Report::ServerAndClients(server(shared), connections(shared)),
        Word::Cons => Report::Connections(connections(shared)),
        Word::Conf => Report::Settings(settings(shared)),
        Word::Dirs => Report::Directories(directory_sizes(&shared.config)),
        Word::Envi => Report::Machine(machine()),
        Word::Dump => Report::Sessions(dump(shared, ask_core(shared).await?)),
        Word::Mntr => Report::Monitor(mode(shared)?, metrics(shared, ask_core(shared).await?)),
        Word::Wchs => Report::WatchSummary(watch_summary(shared)),
        Word::Wchc => Report::WatchesBySession(watches_by_session(shared)),
        Word::Wchp => Report::WatchesByPath(watches_by_path(shared)),
        Word::Hash => Report::Digests(shared.read().digest_history().collect()),
        Word::Isro if shared.standing() == Standing::ReadOnly => Report::ReadOnly,
        Word::Isro => Report::Writable,
        Word::Gtmk => Report::TraceMask(shared.trace_mask()),
        Word::Stmk => {
            let bytes = read_argument(word, stream, rest, shared).await;
            let mask = i64::from_be_bytes(bytes.try_into().ok()?);
            shared.set_trace_mask(mask);
            Report::TraceMask(mask)
        }
        Word::Crst => {
            shared.lanes.all().iter().for_each(|cell| cell.lock().stats.reset());
            Report::ConnectionStatsReset
        }
        Word::Srst => {
            shared.stats.reset();
            shared.metrics.reset();
            Report::ServerStatsReset
        }
        Word::Shed => match shedding::percentage(&read_argument(word, stream, rest, shared).await) {
            Some(percentage) => shedding::shed(shared, percentage),
            None => Report::ShedWhat,
        },
        Word::TelnetClose => return None,
    })
}

/// What belongs to a word and follows it: shorter than it should be if the client ends or does not go on.
async fn read_argument(
    word: Word,
    stream: &mut (impl AsyncRead + Unpin),
    rest: &[u8],
    shared: &Shared,
) -> Vec<u8> {
    let mut bytes = rest[..rest.len().min(word.argument_length())].to_vec();
    let more = async {
        let is_text = word == Word::Shed;
        while bytes.len() < word.argument_length() && !(is_text && bytes.last() == Some(&b'\n')) {
            match stream.read_u8().await {
                Ok(byte) => bytes.push(byte),
                Err(_) => return,
            }
        }
    };
    // Whatever came counts; the word knows what is too little.
    let _ = timeout(shared.config.listen.sessionless_timeout, more).await;
    bytes
}

/// What only the core knows; `None` if it has ended.
async fn ask_core(shared: &Shared) -> Option<SessionsReport> {
    let (reply, report) = oneshot::channel();
    shared.inbox.push_urgent(Urgent::Sessions(reply));
    report.await.ok()
}

/// What this server is; `None` if it serves nobody.
fn mode(shared: &Shared) -> Option<Mode> {
    match shared.standing() {
        Standing::Standalone => Some(Mode::Standalone),
        Standing::NotServing => None,
        Standing::ReadOnly => Some(Mode::ReadOnly),
        Standing::Serving(Serving::Leading { .. }) => Some(Mode::Leader),
        Standing::Serving(Serving::Following { .. }) => Some(Mode::Follower),
        Standing::Serving(Serving::Observing { .. }) => Some(Mode::Observer),
    }
}

fn server(shared: &Shared) -> ServerReport {
    let (received, sent) = shared.stats.packets();
    let (zxid, node_count) = {
        let replica = shared.read();
        (replica.last_zxid(), reported_nodes(replica.tree()))
    };
    ServerReport {
        latency: latency(shared),
        received,
        sent,
        connections: connection_count(shared) as u64,
        outstanding: shared.inbox.outstanding() as u64,
        zxid,
        mode: mode(shared).unwrap_or(Mode::Standalone),
        node_count,
        proposals: member_words::proposals(shared),
    }
}

/// ZooKeeper knows the root under two names, and counts both.
fn reported_nodes(tree: &Tree) -> u64 {
    tree.node_count() as u64 + 1
}

fn connection_count(shared: &Shared) -> usize {
    shared.connections.load(std::sync::atomic::Ordering::Acquire)
}

fn latency(shared: &Shared) -> Summary {
    let latency = shared.stats.latency();
    let (min, max) = (i64::from(latency.min_ms), i64::from(latency.max_ms));
    Summary { min, max, count: latency.count as i64, sum: latency.total_ms }
}

fn connections(shared: &Shared) -> Vec<ConnectionReport> {
    shared.lanes.all().iter().map(connection).collect()
}

fn connection(cell: &Arc<LaneCell>) -> ConnectionReport {
    let lane = cell.lock();
    let stats = &lane.stats;
    let reads = matches!(lane.phase, Phase::Handshake) || lane.has_room();
    let interest = match (reads, lane.outbox_len() > 0) {
        (false, false) => Interest::Nothing,
        (true, false) => Interest::Read,
        (false, true) => Interest::Write,
        (true, true) => Interest::ReadAndWrite,
    };
    ConnectionReport {
        remote: cell.peer,
        interest,
        queued: lane.outstanding() as u64,
        received: stats.packets_received,
        sent: stats.packets_sent,
        session: lane.session.map(|session| SessionReport {
            id: session.id,
            last_operation: stats.last_op,
            established_ms: stats.established_ms,
            timeout_ms: session.timeout_ms,
            last_xid: i64::from(stats.last_cxid),
            last_zxid: Zxid(stats.last_zxid),
            last_response_ms: stats.last_response_ms,
            last_latency_ms: i64::from(stats.last_latency_ms),
            min_latency_ms: i64::from(stats.latency.min_ms),
            average_latency_ms: stats.latency.mean_ms(),
            max_latency_ms: i64::from(stats.latency.max_ms),
        }),
    }
}

fn settings(shared: &Shared) -> SettingsReport {
    let (config, client_port) = (&shared.config, shared.client_port());
    let sizes = directory_sizes(config);
    let absolute =
        |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    SettingsReport {
        client_port,
        secure_client_port: None,
        data_dir: absolute(&config.storage.snapshot_dir()),
        data_dir_size: sizes.data,
        data_log_dir: absolute(&config.storage.log_dir()),
        data_log_size: sizes.log,
        tick_time_ms: config.sessions.tick_time.as_millis() as u64,
        max_client_connections: config.listen.max_connections_per_address.unwrap_or(0),
        min_session_timeout_ms: config.sessions.min_timeout.as_millis() as u64,
        max_session_timeout_ms: config.sessions.max_timeout.as_millis() as u64,
        backlog: config.listen.backlog,
        server_id: config.server_id().map_or(0, |id| id.0),
        member: member_words::settings(shared),
    }
}

fn directory_sizes(config: &ServerConfig) -> DirectorySizes {
    DirectorySizes {
        data: directory_size(&config.storage.snapshot_dir()),
        log: directory_size(&config.storage.log_dir()),
    }
}

/// Bytes of the files in a directory. A file that goes while it is looked at counts nothing.
fn directory_size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(|data| data.is_file())
        .map(|data| data.len())
        .sum()
}

fn machine() -> MachineReport {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let memory = |path: &str, key: &str| {
        let text = read(path)?;
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? / 1024)
    };
    MachineReport {
        host_name: read("/proc/sys/kernel/hostname"),
        temporary_directory: Some(std::env::temp_dir().display().to_string()),
        os_name: read("/proc/sys/kernel/ostype"),
        os_arch: Some(
            if std::env::consts::ARCH == "x86_64" { "amd64" } else { std::env::consts::ARCH }.to_owned(),
        ),
        os_version: read("/proc/sys/kernel/osrelease"),
        user_name: std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok(),
        user_home: std::env::var("HOME").ok(),
        working_directory: std::env::current_dir().ok().map(|path| path.display().to_string()),
        memory_free_mb: memory("/proc/meminfo", "MemAvailable:"),
        memory_max_mb: memory("/proc/meminfo", "MemTotal:"),
        memory_total_mb: memory("/proc/self/status", "VmRSS:"),
    }
}

fn dump(shared: &Shared, core: SessionsReport) -> SessionDump {
    let now = shared.clock.now();
    let wall = |monotonic_ms: i64| now.wall_ms + (monotonic_ms - now.monotonic_ms);
    let tick_ms = shared.config.sessions.tick_time.as_millis() as i64;
    let buckets = |report: TrackerReport| -> Vec<_> {
        let buckets = report.buckets.into_iter();
        buckets.map(|(at_ms, members)| ExpiryBucket { expires_at_ms: wall(at_ms), members }).collect()
    };
    let sessions = match mode(shared) {
        Some(Mode::Follower | Mode::Observer) => {
            let replica = shared.read();
            GlobalSessions::WithTimeouts(
                replica.tree().sessions().iter().map(|(&id, &ms)| (id, ms)).collect(),
            )
        }
        Some(Mode::Leader | Mode::Standalone | Mode::ReadOnly) | None => {
            GlobalSessions::ByExpiry(buckets(core.tracker))
        }
    };
    let ephemerals = {
        let replica = shared.read();
        let tree = replica.tree();
        let paths = |session| tree.ephemerals_of(session).into_iter().map(String::from).collect();
        tree.sessions_with_ephemerals().map(|session| (session, paths(session))).collect()
    };
    let mut by_time = std::collections::BTreeMap::<i64, Vec<ConnectionOfSession>>::new();
    for cell in shared.lanes.all() {
        let lane = cell.lock();
        let session = lane.session.map_or(SessionId::NONE, |session| session.id);
        let timeout_ms = match lane.session {
            Some(session) => i64::from(session.timeout_ms),
            None => shared.config.listen.sessionless_timeout.as_millis() as i64,
        };
        let at_ms = ((lane.touched_ms + timeout_ms) / tick_ms + 1) * tick_ms;
        by_time.entry(at_ms).or_default().push(ConnectionOfSession { remote: cell.peer, session });
    }
    let connections = by_time.into_iter();
    let connections =
        connections.map(|(at_ms, members)| ExpiryBucket { expires_at_ms: wall(at_ms), members }).collect();
    SessionDump { local: core.local.map(buckets), sessions, ephemerals, connections }
}

fn watch_summary(shared: &Shared) -> WatchSummary {
    let replica = shared.read();
    let summary = replica.watches().data_summary();
    WatchSummary {
        connections: summary.watchers as u64,
        paths: summary.paths as u64,
        watches: summary.watches as u64,
    }
}

/// Sessions of all connections, by the number that they share with their watcher.
fn sessions_of_watchers(shared: &Shared) -> std::collections::BTreeMap<u64, SessionId> {
    let session = |cell: &Arc<LaneCell>| {
        let lane = cell.lock();
        lane.session.map(|session| (lane.id.0, session.id))
    };
    shared.lanes.all().iter().filter_map(session).collect()
}

fn watches_by_session(shared: &Shared) -> Vec<(SessionId, Vec<String>)> {
    let sessions = sessions_of_watchers(shared);
    let replica = shared.read();
    let table = replica.watches();
    table
        .data_by_watcher()
        .filter_map(|(watcher, paths)| {
            Some((*sessions.get(&watcher.0)?, paths.into_iter().map(str::to_owned).collect()))
        })
        .collect()
}

fn watches_by_path(shared: &Shared) -> Vec<(String, Vec<SessionId>)> {
    let sessions = sessions_of_watchers(shared);
    let replica = shared.read();
    let table = replica.watches();
    table
        .data_by_path()
        .map(|(path, watchers)| {
            let watching = watchers.iter().filter_map(|watcher| sessions.get(&watcher.0).copied()).collect();
            (path.to_owned(), watching)
        })
        .collect()
}

fn metrics(shared: &Shared, core: SessionsReport) -> Metrics {
    let (packets_received, packets_sent) = shared.stats.packets();
    let (last, min, max) = shared.stats.response_bytes();
    let mut metrics = Metrics::default();
    let gauges = {
        let replica = shared.read();
        let tree = replica.tree();
        Gauges {
            latency: latency(shared),
            packets_received: packets_received as i64,
            packets_sent: packets_sent as i64,
            connections: connection_count(shared) as i64,
            outstanding_requests: shared.inbox.outstanding() as i64,
            uptime_ms: shared.clock.monotonic_ms(),
            znode_count: reported_nodes(tree) as i64,
            watch_count: replica.watches().len() as i64,
            ephemerals_count: tree.ephemerals_count() as i64,
            approximate_data_size: tree.approximate_data_size() as i64,
            global_sessions: tree.sessions().len() as i64,
            local_sessions: core.local.as_ref().map_or(0, |local| local.len() as i64),
            open_files: open_files(),
            max_files: max_files(),
            connection_drop_probability: core.drop_probability,
            response_size: if last < 0 { None } else { Some(ResponseSize { last, min, max }) },
            auth_failed: shared.stats.auth_failures() as i64,
            plain_local_connections: 0,
            plain_remote_connections: connection_count(shared) as i64,
        }
    };
    gauges.add_to(&mut metrics);
    let edge = &shared.metrics;
    for (name, counter) in [
        ("connection_request_count", &edge.connection_requests),
        ("connection_rejected", &edge.connections_rejected),
        ("connection_drop_count", &edge.connections_dropped),
        ("sessionless_connections_expired", &edge.sessionless_expired),
        ("bytes_received_count", &edge.bytes_received),
        ("large_requests_rejected", &edge.large_requests_rejected),
        ("commit_count", &edge.commits),
        ("snapshot_error_count", &edge.snapshot_errors),
        ("purge_error_count", &edge.purge_errors),
    ] {
        metrics.integer(name, counter.get() as i64);
    }
    // In the files at the start, and in what the ensemble has decided since.
    let mismatches = edge.digest_mismatches.get() + core.digest_mismatches;
    metrics.integer("digest_mismatches_count", mismatches as i64);
    member_words::add_metrics(shared, core.master, &core.learners, &mut metrics);
    for (name, summary) in [
        ("fsynctime", &edge.fsync_ms),
        ("sync_processor_batch_size", &edge.sync_batch),
        ("snapshottime", &edge.snapshot_ms),
    ] {
        let (count, sum, min, max) = summary.get();
        let summary = Summary { min: min as i64, max: max as i64, count: count as i64, sum: sum as i64 };
        metrics.summary(name, &summary);
    }
    metrics
}

fn open_files() -> i64 {
    std::fs::read_dir("/proc/self/fd").map_or(-1, |entries| entries.count() as i64)
}

fn max_files() -> i64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(-1)
}
