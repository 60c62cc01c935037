//! `configuration`, `connections`, `dirs`, `hash`, `is_read_only`, `last_snapshot` and `server_stats`.

use std::path::Path;

use zebu_node::ServingMode;
use zebu_proto::txn::DIGEST_VERSION;
use zebu_server::four_letter::version;
use zebu_server::views::{ConnectionView, ServerViews};

use super::{Entries, entry};
use crate::json::Json;

/// How much of a connection is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Brief,
    Full,
}

pub(super) fn configuration(views: &ServerViews) -> Entries {
    let config = views.config();
    let absolute = |path: &Path| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Json::text(path.display().to_string())
    };
    let millis = |time: std::time::Duration| Json::count(time.as_millis());
    vec![
        entry("client_port", Json::Integer(views.client_port().map_or(-1, i64::from))),
        entry("data_dir", absolute(&config.storage.snapshot_dir())),
        entry("data_log_dir", absolute(&config.storage.log_dir())),
        entry("tick_time", millis(config.sessions.tick_time)),
        entry("max_client_cnxns", Json::count(config.listen.max_connections_per_address.unwrap_or(0))),
        entry("min_session_timeout", millis(config.sessions.min_timeout)),
        entry("max_session_timeout", millis(config.sessions.max_timeout)),
        entry("server_id", Json::Integer(views.server_id().map_or(0, |id| id.0))),
        entry("client_port_listen_backlog", Json::Integer(config.listen.backlog.map_or(-1, i64::from))),
    ]
}

pub(super) fn connections(views: &ServerViews, detail: Detail) -> Entries {
    let (mut plain, mut secure) = (Vec::new(), Vec::new());
    for connection in views.connections() {
        let list = if connection.is_secure { &mut secure } else { &mut plain };
        list.push(connection_object(&connection, detail));
    }
    vec![entry("connections", Json::Array(plain)), entry("secure_connections", Json::Array(secure))]
}

fn connection_object(connection: &ConnectionView, detail: Detail) -> Json {
    let mut entries = vec![
        entry("remote_socket_address", Json::text(&connection.remote)),
        entry("interest_ops", Json::Integer(connection.interest_ops)),
        entry("outstanding_requests", Json::count(connection.outstanding)),
        entry("packets_received", Json::count(connection.received)),
        entry("packets_sent", Json::count(connection.sent)),
    ];
    if let (Some(session), Detail::Full) = (&connection.session, detail) {
        entries.extend([
            entry("session_id", Json::Integer(session.id.0)),
            entry("last_operation", Json::text(session.last_operation)),
            entry("established", Json::Integer(session.established_ms)),
            entry("session_timeout", Json::Integer(i64::from(session.timeout_ms))),
            entry("last_cxid", Json::Integer(session.last_xid)),
            entry("last_zxid", Json::Integer(session.last_zxid.0)),
            entry("last_response_time", Json::Integer(session.last_response_ms)),
            entry("last_latency", Json::Integer(session.last_latency_ms)),
            entry("min_latency", Json::Integer(session.min_latency_ms)),
            entry("avg_latency", Json::Integer(session.average_latency_ms)),
            entry("max_latency", Json::Integer(session.max_latency_ms)),
        ]);
    }
    Json::Object(entries)
}

pub(super) fn dirs(views: &ServerViews) -> Entries {
    let (data, log) = views.directory_bytes();
    vec![entry("datadir_size", Json::count(data)), entry("logdir_size", Json::count(log))]
}

pub(super) fn hash(views: &ServerViews) -> Entries {
    let digests = views.digests().into_iter().map(|(zxid, digest)| {
        Json::object([
            ("zxid", Json::Integer(zxid.0)),
            ("digest_version", Json::Integer(i64::from(DIGEST_VERSION))),
            ("digest", Json::Integer(digest)),
        ])
    });
    vec![entry("digests", Json::Array(digests.collect()))]
}

pub(super) fn is_read_only(views: &ServerViews) -> Entries {
    vec![entry("read_only", Json::Bool(views.serving_mode() == Some(ServingMode::ReadOnly)))]
}

pub(super) fn last_snapshot(views: &ServerViews) -> Entries {
    let (zxid, timestamp) = match views.last_snapshot() {
        Some(snapshot) => (snapshot.zxid.0, Json::count(snapshot.written_seconds)),
        None => (-1, Json::Integer(-1)),
    };
    vec![entry("zxid", Json::text(format!("{zxid:x}"))), entry("timestamp", timestamp)]
}

/// The order inside `server_stats` is that of one recorded server; ZooKeeper does not promise any.
pub(super) fn server_stats(views: &ServerViews) -> Entries {
    let stats = views.server_stats();
    let sizes = |(last, min, max): (i64, i64, i64)| {
        Json::object([
            ("last_buffer_size", Json::Integer(last)),
            ("min_buffer_size", Json::Integer(min)),
            ("max_buffer_size", Json::Integer(max)),
        ])
    };
    let mode = views.serving_mode();
    let server_stats = Json::object([
        ("packets_sent", Json::count(stats.packets_sent)),
        ("packets_received", Json::count(stats.packets_received)),
        ("fsync_threshold_exceed_count", Json::count(stats.slow_fsyncs)),
        ("client_response_stats", sizes(stats.response_bytes)),
        ("provider_null", Json::Bool(false)),
        ("data_dir_size", Json::count(stats.data_dir_bytes)),
        ("log_dir_size", Json::count(stats.log_dir_bytes)),
        ("last_processed_zxid", Json::Integer(stats.last_zxid.0)),
        ("outstanding_requests", Json::count(stats.outstanding_requests)),
        ("server_state", Json::text(mode.map_or_else(String::new, |mode| mode.to_string()))),
        ("avg_latency", Json::Decimal(stats.average_latency_ms)),
        ("max_latency", Json::Integer(stats.max_latency_ms)),
        ("min_latency", Json::Integer(stats.min_latency_ms)),
        ("num_alive_client_connections", Json::count(stats.connections)),
        ("uptime", Json::Integer(stats.uptime_ms)),
        ("auth_failed_count", Json::count(stats.auth_failed)),
        ("non_mtlsremote_conn_count", Json::count(stats.plain_connections)),
        ("non_mtlslocal_conn_count", Json::Integer(0)),
    ]);
    let mut entries = vec![
        entry("version", Json::text(version::full_version())),
        entry("read_only", Json::Bool(mode == Some(ServingMode::ReadOnly))),
        entry("server_stats", server_stats),
        entry("client_response", sizes(stats.response_bytes)),
    ];
    entries.extend(stats.proposal_bytes.map(|proposals| entry("proposal_stats", sizes(proposals))));
    entries.push(entry("node_count", Json::count(stats.node_count)));
    entries
}
