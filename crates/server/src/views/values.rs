//! The values of the views, and how they are collected.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Acquire;

use zebu_metrics::MetricsView;
use zebu_proto::{OpCode, ServerId, SessionId, Zxid};

use super::ServerViews;
use crate::four_letter::collect;
use crate::four_letter::collect_member;
use crate::four_letter::{SummaryReport, java_text, op_mnemonic};
use crate::metrics::MetricsSource;
use crate::net::ClientPortKind;
use crate::peers::learner_links::LearnerConnectionView;

/// The values of `server_stats`.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerStatsView {
    /// Sent packets.
    pub packets_sent: u64,
    /// Received packets.
    pub packets_received: u64,
    /// Last, least and greatest bytes of a reply; -1 before the first.
    pub response_bytes: (i64, i64, i64),
    /// Last, least and greatest bytes of a proposal; only a leader has them.
    pub proposal_bytes: Option<(i64, i64, i64)>,
    /// Bytes of the snapshot directory.
    pub data_dir_bytes: u64,
    /// Bytes of the log directory.
    pub log_dir_bytes: u64,
    /// Last applied transaction.
    pub last_zxid: Zxid,
    /// Requests without a reply.
    pub outstanding_requests: u64,
    /// Average latency in milliseconds, with four decimals.
    pub average_latency_ms: f64,
    /// Least latency in milliseconds.
    pub min_latency_ms: i64,
    /// Greatest latency in milliseconds.
    pub max_latency_ms: i64,
    /// Open connections of all listeners.
    pub connections: u64,
    /// Open connections without TLS.
    pub plain_connections: u64,
    /// Milliseconds since the start.
    pub uptime_ms: i64,
    /// Syncs of the log above the warning threshold.
    pub slow_fsyncs: u64,
    /// Failed authentications.
    pub auth_failed: u64,
    /// Nodes in the tree, as ZooKeeper counts them.
    pub node_count: u64,
}

/// One client connection.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionView {
    /// The remote address as Java writes it.
    pub remote: String,
    /// Whether the connection came to `secureClientPort`.
    pub is_secure: bool,
    /// Whether requests are served. A connection that closes still has its session here.
    pub is_serving: bool,
    /// The bits of Java's selector that the server waits for.
    pub interest_ops: i64,
    /// Requests without a reply.
    pub outstanding: u64,
    /// Received packets.
    pub received: u64,
    /// Sent packets.
    pub sent: u64,
    /// `None` before the session is established.
    pub session: Option<SessionView>,
}

/// The session of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionView {
    /// Session id.
    pub id: SessionId,
    /// ZooKeeper's short name of the last operation.
    pub last_operation: &'static str,
    /// Wall clock milliseconds when the connection was accepted.
    pub established_ms: i64,
    /// The negotiated timeout in milliseconds.
    pub timeout_ms: i32,
    /// The xid of the last reply.
    pub last_xid: i64,
    /// The zxid of the last reply.
    pub last_zxid: Zxid,
    /// Monotonic milliseconds of the last reply.
    pub last_response_ms: i64,
    /// Latency of the last request in milliseconds.
    pub last_latency_ms: i64,
    /// Least latency in milliseconds.
    pub min_latency_ms: i64,
    /// Average latency in whole milliseconds.
    pub average_latency_ms: i64,
    /// Greatest latency in milliseconds.
    pub max_latency_ms: i64,
}

/// A learner of this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnerView {
    /// Its id.
    pub server: ServerId,
    /// Whether it is up to date.
    pub synced: bool,
    /// The last transaction that it has acknowledged.
    pub acked: Zxid,
    /// Its connection; `None` if it has just ended.
    pub connection: Option<LearnerConnectionView>,
}

/// The state of the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreView {
    /// The leader; this server itself if it leads.
    pub leader: Option<ServerId>,
    /// The learners of a leader, or the observers of a follower.
    pub learners: Vec<LearnerView>,
    /// Monotonic milliseconds, and the sessions that expire then. Only a primary has global ones.
    pub expiry_buckets: Vec<(i64, Vec<SessionId>)>,
}

/// Counts of the watches on data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchSummaryView {
    /// Connections with a watch.
    pub connections: u64,
    /// Watched paths.
    pub paths: u64,
    /// Watches.
    pub watches: u64,
}

/// Names and values of the process and its machine, in ZooKeeper's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentView(pub Vec<(&'static str, String)>);

impl ServerViews {
    /// The values of `server_stats`.
    pub fn server_stats(&self) -> ServerStatsView {
        let shared = &self.shared;
        let server = collect::collect_server(shared);
        let sizes = collect::directory_sizes(&shared.config);
        let proposals = collect_member::collect_proposal_sizes(shared);
        let SummaryReport { min, max, .. } = server.latency;
        ServerStatsView {
            packets_sent: server.sent,
            packets_received: server.received,
            response_bytes: shared.stats.response_bytes(),
            proposal_bytes: proposals.map(|sizes| (sizes.last, sizes.min, sizes.max)),
            data_dir_bytes: sizes.data,
            log_dir_bytes: sizes.log,
            last_zxid: server.zxid,
            outstanding_requests: server.outstanding,
            average_latency_ms: server.latency.average(),
            min_latency_ms: min,
            max_latency_ms: max,
            connections: server.connections,
            plain_connections: server
                .connections
                .saturating_sub(shared.tls_use.connections.load(Acquire) as u64),
            uptime_ms: shared.clock.monotonic_ms(),
            slow_fsyncs: shared.metrics.slow_fsyncs.since_reset(),
            auth_failed: shared.stats.auth_failures(),
            node_count: server.node_count,
        }
    }

    /// Bytes of the snapshot directory and of the log directory.
    pub fn directory_bytes(&self) -> (u64, u64) {
        let sizes = collect::directory_sizes(&self.shared.config);
        (sizes.data, sizes.log)
    }

    /// All connections, oldest first.
    pub fn connections(&self) -> Vec<ConnectionView> {
        let entries = self.shared.connections.all();
        let views = entries.iter().map(|entry| {
            let report = collect::connection_report(entry);
            let session = report.session.map(|session| SessionView {
                id: session.id,
                last_operation: session.last_operation.map_or("NA", |op: OpCode| op_mnemonic(op)),
                established_ms: session.established_ms,
                timeout_ms: session.timeout_ms,
                last_xid: session.last_xid,
                last_zxid: session.last_zxid,
                last_response_ms: session.last_response_ms,
                last_latency_ms: session.last_latency_ms,
                min_latency_ms: session.min_latency_ms,
                average_latency_ms: session.average_latency_ms,
                max_latency_ms: session.max_latency_ms,
            });
            ConnectionView {
                remote: java_address(report.remote),
                is_secure: entry.port == ClientPortKind::Secure,
                is_serving: report.is_serving,
                interest_ops: i64::from(report.interest.bits()),
                outstanding: report.queued,
                received: report.received,
                sent: report.sent,
                session,
            }
        });
        views.collect()
    }

    /// Counts of the watches on data.
    pub fn watch_summary(&self) -> WatchSummaryView {
        let summary = collect::watch_summary(&self.shared);
        WatchSummaryView { connections: summary.connections, paths: summary.paths, watches: summary.watches }
    }

    /// Asks the core for its state; `None` if it has ended.
    pub async fn core(&self) -> Option<CoreView> {
        let status = collect::query_core_status(&self.shared).await?;
        let learner = |learner: zebu_zab::LearnerStatus| LearnerView {
            server: learner.server,
            synced: learner.synced,
            acked: learner.acked,
            connection: self.shared.learner_links.view(learner.link),
        };
        Some(CoreView {
            leader: status.leader,
            learners: status.learners.into_iter().map(learner).collect(),
            expiry_buckets: status.global_sessions.buckets,
        })
    }

    /// The values of all metrics; `None` if the server is ending.
    pub async fn metrics(&self) -> Option<MetricsView> {
        MetricsSource::new(self.shared.clone()).view().await
    }
}

impl EnvironmentView {
    /// Reads the values.
    pub fn collect() -> EnvironmentView {
        let report = collect::collect_environment();
        let text = |value: Option<String>| value.unwrap_or_else(|| "<NA>".to_owned());
        let megabytes = |value: Option<u64>| value.map_or_else(|| "<NA>".to_owned(), |mb| format!("{mb}MB"));
        let not_java = || "<NA>".to_owned();
        EnvironmentView(vec![
            ("zookeeper.version", crate::four_letter::version::full_version()),
            ("host.name", text(report.host_name)),
            ("java.version", not_java()),
            ("java.vendor", not_java()),
            ("java.home", not_java()),
            ("java.class.path", not_java()),
            ("java.library.path", not_java()),
            ("java.io.tmpdir", text(report.temporary_directory)),
            ("java.compiler", not_java()),
            ("os.name", text(report.os_name)),
            ("os.arch", text(report.os_arch)),
            ("os.version", text(report.os_version)),
            ("user.name", text(report.user_name)),
            ("user.home", text(report.user_home)),
            ("user.dir", text(report.working_directory)),
            ("os.memory.free", megabytes(report.memory_free_mb)),
            ("os.memory.max", megabytes(report.memory_max_mb)),
            ("os.memory.total", megabytes(report.memory_total_mb)),
        ])
    }
}

/// `InetSocketAddress` as Java writes it, without the slash before the address.
pub(super) fn java_address(address: SocketAddr) -> String {
    java_text::socket_address(address).trim_start_matches('/').to_owned()
}
