//! Four-letter words: collects the values of each and sends the reply. `four_letter` defines the
//! layout.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::debug;
use zebu_node::{ConnectionPhase, ServingMode};
use zebu_proto::Zxid;
use zebu_tree::Tree;

use super::collect_member;
use crate::config::ServerConfig;
use crate::core::context::ServerContext;
use crate::core::inbox::{ControlEvent, CoreStatus};
use crate::four_letter::long_answers::LongAnswer;
use crate::four_letter::{
    ConnectionReport, DirectorySizes, EnvironmentReport, FourLetterReport, FourLetterWord, ServerReport,
    SessionReport, SettingsReport, SocketInterest, SummaryReport, WatchSummary, render, render_not_allowed,
    render_not_serving,
};
use crate::metrics::collect::collect_view;
use crate::net::ClientPortKind;
use crate::net::connections::ConnectionEntry;
use crate::net::shed;

/// Most bytes that are read and discarded after a word before the connection is closed.
const DISCARD_BYTES_MAX: usize = 64 * 1024;

/// How long the server waits for the client to close first.
const DISCARD_TIMEOUT: Duration = Duration::from_millis(500);

/// ZooKeeper's trace mask at the start. It is stored and shown without effect.
pub(crate) const TRACE_MASK_DEFAULT: i64 = 306;

/// Sends the reply to a word and closes the stream. `rest` holds bytes that already followed the
/// word.
pub(crate) async fn answer_and_close(
    word: FourLetterWord,
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    rest: &[u8],
    shared: &ServerContext,
    entry: &ConnectionEntry,
) {
    if answer_word(word, stream, rest, shared, entry).await.is_ok() {
        // Unread input would turn the close into a reset, and the reply could be lost.
        let _ = stream.shutdown().await;
        discard_input(stream).await;
    }
}

async fn answer_word(
    word: FourLetterWord,
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    rest: &[u8],
    shared: &ServerContext,
    entry: &ConnectionEntry,
) -> io::Result<()> {
    if word == FourLetterWord::TelnetClose {
        return Ok(());
    }
    if !shared.config.four_letter_words.allows(word) {
        return stream.write_all(render_not_allowed(word).as_bytes()).await;
    }
    // Probes send words every few seconds.
    debug!(peer = %entry.remote_address, word = word.name(), "four-letter word");
    let serves =
        !shared.stopping.load(std::sync::atomic::Ordering::Acquire) && shared.serving_mode().is_some();
    if !serves && let Some(text) = render_not_serving(word) {
        return stream.write_all(text.as_bytes()).await;
    }
    if let Some(long) = LongAnswer::of(word) {
        return long.write(stream, shared, entry.port).await;
    }
    match collect_report(word, stream, rest, shared, entry.port).await {
        Some(report) => stream.write_all(render(&report).as_bytes()).await,
        None => Ok(()),
    }
}

/// Reads and discards input, because a close with unread input resets the connection and the client
/// may lose the reply.
async fn discard_input(stream: &mut (impl AsyncRead + Unpin)) {
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
    // A client that does not close its side is not waited for.
    let _ = timeout(DISCARD_TIMEOUT, discard).await;
}

async fn collect_report(
    word: FourLetterWord,
    stream: &mut (impl AsyncRead + Unpin),
    rest: &[u8],
    shared: &ServerContext,
    port: ClientPortKind,
) -> Option<FourLetterReport> {
    Some(match word {
        FourLetterWord::Ruok => FourLetterReport::Alive,
        FourLetterWord::Srvr => FourLetterReport::Server(collect_server(shared)),
        FourLetterWord::Conf => FourLetterReport::Settings(collect_settings(shared)),
        FourLetterWord::Dirs => FourLetterReport::Directories(directory_sizes(&shared.config)),
        FourLetterWord::Envi => FourLetterReport::Environment(collect_environment()),
        FourLetterWord::Mntr => {
            let core = query_core_status(shared).await?;
            FourLetterReport::Monitor(Box::new(collect_view(shared, &core)))
        }
        FourLetterWord::Wchs => FourLetterReport::WatchSummary(watch_summary(shared)),
        FourLetterWord::Hash => FourLetterReport::Digests(shared.read_replica().digest_history().collect()),
        FourLetterWord::Isro if shared.serving_mode() == Some(ServingMode::ReadOnly) => {
            FourLetterReport::ReadOnly
        }
        FourLetterWord::Isro => FourLetterReport::Writable,
        FourLetterWord::Gtmk => FourLetterReport::TraceMask(shared.trace_mask()),
        FourLetterWord::Stmk => {
            let bytes = read_argument(word, stream, rest, shared).await;
            let mask = i64::from_be_bytes(bytes.try_into().ok()?);
            shared.set_trace_mask(mask);
            FourLetterReport::TraceMask(mask)
        }
        FourLetterWord::Crst => {
            let connections = shared.connections.all_of(port);
            connections.iter().for_each(|entry| entry.lock().stats.reset());
            FourLetterReport::ConnectionStatsReset
        }
        FourLetterWord::Srst => {
            shared.stats.reset();
            shared.metrics.reset();
            shared.traffic.reset();
            shared.protection.reset();
            shared.read_replica().metrics().reset();
            FourLetterReport::ServerStatsReset
        }
        FourLetterWord::Shed => {
            match shed::parse_percentage(&read_argument(word, stream, rest, shared).await) {
                Some(percentage) => shed::shed_connections(shared, percentage),
                None => FourLetterReport::ShedUsage,
            }
        }
        FourLetterWord::Stat
        | FourLetterWord::Cons
        | FourLetterWord::Dump
        | FourLetterWord::Topn
        | FourLetterWord::Topp
        | FourLetterWord::Wchc
        | FourLetterWord::Wchp
        | FourLetterWord::TelnetClose => return None,
    })
}

/// Reads the argument of a word. It is shorter than expected if the client stops sending.
async fn read_argument(
    word: FourLetterWord,
    stream: &mut (impl AsyncRead + Unpin),
    rest: &[u8],
    shared: &ServerContext,
) -> Vec<u8> {
    let mut bytes = rest[..rest.len().min(word.argument_length())].to_vec();
    let more = async {
        let is_text = word == FourLetterWord::Shed;
        while bytes.len() < word.argument_length() && !(is_text && bytes.last() == Some(&b'\n')) {
            match stream.read_u8().await {
                Ok(byte) => bytes.push(byte),
                Err(_) => return,
            }
        }
    };
    // A short argument is no error here; the word checks it.
    let _ = timeout(shared.config.listen.sessionless_timeout, more).await;
    bytes
}

/// Asks the core for its status; `None` if it has ended.
pub(crate) async fn query_core_status(shared: &ServerContext) -> Option<CoreStatus> {
    let (reply, report) = oneshot::channel();
    shared.inbox.push_control(ControlEvent::GetStatus(reply));
    report.await.ok()
}

pub(crate) fn collect_server(shared: &ServerContext) -> ServerReport {
    let (received, sent) = shared.stats.packets();
    let (zxid, node_count) = {
        let replica = shared.read_replica();
        (replica.last_zxid(), reported_node_count(replica.tree()))
    };
    ServerReport {
        latency: collect_latency(shared),
        received,
        sent,
        connections: connection_count(shared) as u64,
        outstanding: shared.inbox.outstanding() as u64,
        zxid,
        mode: shared.serving_mode().unwrap_or(ServingMode::Standalone),
        node_count,
        proposals: collect_member::collect_proposal_sizes(shared),
    }
}

/// ZooKeeper stores the root under two names and counts both.
pub(crate) fn reported_node_count(tree: &Tree) -> u64 {
    tree.node_count() as u64 + 1
}

pub(crate) fn connection_count(shared: &ServerContext) -> usize {
    shared.connection_count.load(std::sync::atomic::Ordering::Acquire)
}

pub(crate) fn collect_latency(shared: &ServerContext) -> SummaryReport {
    let latency = shared.stats.latency();
    let (min, max) = (i64::from(latency.min_ms), i64::from(latency.max_ms));
    SummaryReport { min, max, count: latency.count as i64, sum: latency.total_ms }
}

pub(crate) fn connection_report(entry: &Arc<ConnectionEntry>) -> ConnectionReport {
    let connection = entry.lock();
    let stats = &connection.stats;
    let reads = matches!(connection.phase, ConnectionPhase::Handshake) || connection.has_room();
    let interest = match (reads, connection.outbox_len() > 0) {
        (false, false) => SocketInterest::Nothing,
        (true, false) => SocketInterest::Read,
        (false, true) => SocketInterest::Write,
        (true, true) => SocketInterest::ReadAndWrite,
    };
    ConnectionReport {
        remote: entry.remote_address,
        is_serving: connection.phase == ConnectionPhase::Serving,
        interest,
        queued: connection.outstanding() as u64,
        received: stats.packets_received,
        sent: stats.packets_sent,
        session: connection.session.map(|session| SessionReport {
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

fn collect_settings(shared: &ServerContext) -> SettingsReport {
    let (config, client_port) = (&shared.config, shared.client_port());
    let sizes = directory_sizes(config);
    let absolute =
        |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    SettingsReport {
        client_port,
        secure_client_port: shared.secure_client_port(),
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
        ensemble: collect_member::collect_member_settings(shared),
    }
}

pub(crate) fn directory_sizes(config: &ServerConfig) -> DirectorySizes {
    DirectorySizes {
        data: directory_size(&config.storage.snapshot_dir()),
        log: directory_size(&config.storage.log_dir()),
    }
}

/// Bytes of the files in a directory. A file that disappears meanwhile counts 0.
fn directory_size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(|data| data.is_file())
        .map(|data| data.len())
        .sum()
}

pub(crate) fn collect_environment() -> EnvironmentReport {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let memory = |path: &str, key: &str| {
        let text = read(path)?;
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? / 1024)
    };
    EnvironmentReport {
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

pub(crate) fn watch_summary(shared: &ServerContext) -> WatchSummary {
    let replica = shared.read_replica();
    let summary = replica.watches().data_summary();
    WatchSummary {
        connections: summary.watchers as u64,
        paths: summary.paths as u64,
        watches: summary.watches as u64,
    }
}
