//! Collects the values of all families from the parts of the server.

use std::sync::atomic::Ordering::Acquire;

use zebu_metrics::{Counter, Histogram, MetricsView, SeriesValue, ServerIdentity, Summary};
use zebu_node::{NodeMetrics, ServingMode};

use super::{collect_member, process};
use crate::core::context::ServerContext;
use crate::core::inbox::CoreStatus;
use crate::four_letter::collect::{collect_latency, connection_count, reported_node_count};
use crate::four_letter::version;

/// The roles of `zebu_role`.
const ROLES: [&str; 6] = ["standalone", "leader", "follower", "observer", "read-only", "looking"];

/// Transactions of one epoch.
const EPOCH_ZXIDS: i64 = u32::MAX as i64;

/// The values of all families.
pub(crate) fn collect_view(shared: &ServerContext, core: &CoreStatus) -> MetricsView {
    let mode = shared.serving_mode();
    let role = mode.map_or("looking".to_owned(), |mode| mode.to_string());
    let mut view = MetricsView::new(ServerIdentity {
        version: version::full_version(),
        server_state: role.clone(),
        peer_state: mode.and_then(peer_state).map(|state| format!("{state} - broadcast")),
    });
    add_gauges(&mut view, shared, core);
    add_tree(&mut view, shared);
    add_edge_counters(&mut view, shared, core);
    add_summaries(&mut view, shared);
    add_node(&mut view, &shared.read_replica().metrics().clone(), shared.clock.monotonic_ms());
    collect_member::add_member(&mut view, shared, core);
    let roles = ROLES.iter().map(|name| ((*name).to_owned(), f64::from(u8::from(*name == role))));
    view.set("zebu_role", SeriesValue::Labelled { label: "role", values: roles.collect() });
    let version = vec![(version::ZEBU_VERSION.to_owned(), 1.0)];
    view.set("zebu_build_info", SeriesValue::Labelled { label: "version", values: version });
    if shared.config.exporter.process_info {
        process::add_process(&mut view);
    }
    view
}

/// The peer state for `mntr`. A server that serves clients is in the broadcast phase.
fn peer_state(mode: ServingMode) -> Option<&'static str> {
    match mode {
        ServingMode::Leader => Some("leading"),
        ServingMode::Follower => Some("following"),
        ServingMode::Observer => Some("observing"),
        ServingMode::Standalone | ServingMode::ReadOnly => None,
    }
}

fn add_gauges(view: &mut MetricsView, shared: &ServerContext, core: &CoreStatus) {
    let latency = collect_latency(shared);
    let (received, sent) = shared.stats.packets();
    let (last, min, max) = shared.stats.response_bytes();
    let tls_use = &shared.tls_use;
    let connections = connection_count(shared);
    view.set("avg_latency", SeriesValue::Decimal(latency.average()));
    view.set("connection_drop_probability", SeriesValue::Decimal(core.drop_probability));
    for (name, value) in [
        ("min_latency", latency.min),
        ("max_latency", latency.max),
        ("packets_received", received as i64),
        ("packets_sent", sent as i64),
        ("num_alive_connections", connections as i64),
        ("outstanding_requests", shared.inbox.outstanding() as i64),
        ("uptime", shared.clock.monotonic_ms()),
        ("local_sessions", core.local_sessions.as_ref().map_or(0, |local| local.len() as i64)),
        ("open_file_descriptor_count", process::open_file_count()),
        ("max_file_descriptor_count", process::open_file_limit()),
        ("last_client_response_size", last),
        ("min_client_response_size", min),
        ("max_client_response_size", max),
        ("outstanding_tls_handshake", tls_use.handshakes.load(Acquire) as i64),
        ("auth_failed_count", shared.stats.auth_failures() as i64),
        ("non_mtls_local_conn_count", 0),
        ("non_mtls_remote_conn_count", connections.saturating_sub(tls_use.connections.load(Acquire)) as i64),
        ("zebu_disk_backlog_bytes", shared.disk_backlog.bytes() as i64),
        ("zebu_disk_state", i64::from(shared.disk_room.room().number())),
        ("zebu_disk_free_bytes", shared.disk_room.free_bytes().map_or(-1, |bytes| bytes as i64)),
        ("zebu_disk_reserve_bytes", shared.disk_room.report().reserve as i64),
    ] {
        view.gauge(name, value);
    }
}

fn add_tree(view: &mut MetricsView, shared: &ServerContext) {
    let replica = shared.read_replica();
    let tree = replica.tree();
    let auth = replica.ensemble_auth_counts();
    let watches = replica.watches().len();
    for (name, value) in [
        ("znode_count", reported_node_count(tree) as i64),
        ("watch_count", watches as i64),
        ("ephemerals_count", tree.ephemerals_count() as i64),
        ("approximate_data_size", tree.approximate_data_size() as i64),
        ("global_sessions", tree.sessions().len() as i64),
        ("zebu_last_zxid_counter", i64::from(tree.last_zxid().counter())),
        ("zebu_zxid_remaining", EPOCH_ZXIDS - i64::from(tree.last_zxid().counter())),
    ] {
        view.gauge(name, value);
    }
    for (name, value) in [
        ("ensemble_auth_success", auth.success),
        ("ensemble_auth_fail", auth.fail),
        ("ensemble_auth_skip", auth.skip),
    ] {
        view.count(name, value);
    }
    let entries = [
        ("nodes", tree.node_count()),
        ("sessions", tree.sessions().len()),
        ("watches", watches),
        ("acls", tree.acl_table().count()),
    ];
    let entries = entries.map(|(table, count)| (table.to_owned(), count as f64)).to_vec();
    view.set("zebu_table_entries", SeriesValue::Labelled { label: "table", values: entries });
    let quotas = tree.quota_usage();
    type QuotaValue = fn(&zebu_tree::QuotaUsage) -> i64;
    let sets: [(&str, QuotaValue); 4] = [
        ("quota_count_limit_per_namespace", |quota| quota.count_limit),
        ("quota_count_usage_per_namespace", |quota| quota.count),
        ("quota_bytes_limit_per_namespace", |quota| quota.bytes_limit),
        ("quota_bytes_usage_per_namespace", |quota| quota.bytes),
    ];
    for (name, value) in sets {
        let values = quotas.iter().take(zebu_metrics::KEYS_MAX);
        let values = values.map(|(namespace, quota)| (namespace.clone(), value(quota))).collect();
        view.set(name, SeriesValue::Gauges(values));
    }
}

fn add_edge_counters(view: &mut MetricsView, shared: &ServerContext, core: &CoreStatus) {
    let edge = &shared.metrics;
    let counters: [(&str, &Counter); 29] = [
        ("connection_request_count", &edge.connection_requests),
        ("connection_rejected", &edge.connections_rejected),
        ("connection_drop_count", &edge.connections_dropped),
        ("sessionless_connections_expired", &edge.sessionless_expired),
        ("bytes_received_count", &edge.bytes_received),
        ("response_bytes", &shared.stats.response_bytes),
        ("watch_bytes", &shared.stats.watch_bytes),
        ("large_requests_rejected", &edge.large_requests_rejected),
        ("request_throttle_wait_count", &edge.throttle_waits),
        ("unsuccessful_handshake", &edge.unsuccessful_handshakes),
        ("tls_handshake_exceeded", &edge.tls_handshakes_exceeded),
        ("cnxn_closed_without_zk_server_running", &edge.closed_while_not_serving),
        ("insecure_admin_count", &edge.admin.insecure_connections),
        ("commit_count", &edge.commits),
        ("snapshot_error_count", &edge.snapshot_errors),
        ("snapshot_rate_limited_count", &edge.admin.snapshots_rate_limited),
        ("restore_error_count", &edge.admin.restore_errors),
        ("restore_rate_limited_count", &edge.admin.restores_rate_limited),
        ("sync_processor_request_queued", &edge.disk_transactions),
        ("prep_processor_request_queued", &edge.client_events),
        ("looking_count", &edge.elections_started),
        ("learner_proposal_received_count", &edge.proposals_received),
        ("learner_commit_received_count", &edge.commits_received),
        ("revalidate_count", &edge.revalidations),
        ("snap_count", &edge.snapshots_sent),
        ("zebu_purge_errors", &edge.purge_errors),
        ("zebu_bad_frames", &edge.bad_frames),
        ("zebu_slow_requests", &shared.traffic.slow_requests),
        ("zebu_large_replies", &shared.traffic.large_replies),
    ];
    counters.iter().for_each(|(name, counter)| view.counter(name, counter));
    view.counter("fsync_threshold_exceed_count", &edge.slow_fsyncs);
    view.counter("zebu_slow_fsyncs", &edge.slow_fsyncs);
    // ZooKeeper counts both together: a truncated learner gets the rest as transactions, too.
    let (diffs, truncations) = (&edge.diffs_sent, &edge.truncations_sent);
    let total = diffs.total() + truncations.total();
    let since_reset = diffs.since_reset() + truncations.since_reset();
    view.set("diff_count", SeriesValue::Counter { total, since_reset });
    let proposals = edge.proposals.get();
    let (total, since_reset) = (proposals.total, proposals.count);
    view.set("proposal_count", SeriesValue::Counter { total, since_reset });
    // Mismatches in the files at the start, and in transactions committed since.
    let total = edge.digest_mismatches.total() + core.digest_mismatches;
    let since_reset = edge.digest_mismatches.since_reset() + core.digest_mismatches;
    view.set("digest_mismatches_count", SeriesValue::Counter { total, since_reset });
    shared.protection.add_to(view);
    if let Some(audit) = &shared.audit {
        view.counter("zebu_audit_lines_written", &audit.counters.written);
        view.counter("zebu_audit_lines_dropped", &audit.counters.dropped);
        view.counter("zebu_audit_lines_failed", &audit.counters.failed);
    }
}

fn add_summaries(view: &mut MetricsView, shared: &ServerContext) {
    let now_ms = shared.clock.monotonic_ms();
    let (edge, latencies) = (&shared.metrics, &shared.stats.latencies);
    let summaries: [(&str, &Summary); 31] = [
        ("readlatency", &latencies.reads),
        ("updatelatency", &latencies.updates),
        ("request_throttle_queue_time_ms", &edge.throttle_wait_ms),
        ("fsynctime", &edge.fsync_ms),
        ("snapshottime", &edge.snapshot_ms),
        ("restore_time", &edge.admin.restore_ms),
        ("dbinittime", &edge.load_ms),
        ("startup_snap_load_time", &edge.snapshot_load_ms),
        ("startup_txns_load_time", &edge.log_load_ms),
        ("startup_txns_loaded", &edge.replayed),
        ("sync_processor_queue_time_ms", &edge.disk_queue_ms),
        ("sync_processor_queue_flush_time_ms", &edge.disk_flush_ms),
        ("sync_processor_queue_and_flush_time_ms", &edge.disk_total_ms),
        ("sync_processor_queue_size", &edge.disk_queue_size),
        ("sync_process_time", &edge.disk_write_ms),
        ("sync_processor_batch_size", &edge.sync_batch),
        ("prep_processor_queue_size", &edge.inbox_size),
        ("prep_process_time", &edge.prepare_ms),
        ("write_final_proc_time_ms", &edge.apply_ms),
        ("pending_session_queue_size", &edge.in_flight),
        ("learner_request_processor_queue_size", &edge.forwarded),
        ("election_time", &edge.election_ms),
        ("unavailable_time", &edge.unavailable_ms),
        ("leader_unavailable_time", &edge.leader_unavailable_ms),
        ("follower_sync_time", &edge.follower_sync_ms),
        ("observer_sync_time", &edge.observer_sync_ms),
        ("proposal_latency", &edge.proposal_latency_ms),
        ("proposal_ack_creation_latency", &edge.ack_creation_ms),
        ("quorum_ack_latency", &edge.quorum_ack_ms),
        ("inflight_diff_count", &edge.syncing.diffs),
        ("inflight_snap_count", &edge.syncing.snapshots),
    ];
    for (name, summary) in summaries {
        view.set(name, SeriesValue::Summary(summary.snapshot(now_ms)));
    }
    view.set("ack_latency", SeriesValue::Summaries(edge.ack_latency.snapshot(now_ms)));
    let queued = edge.learner_queue_bytes.snapshot(now_ms);
    view.set("learner_handler_qp_size", SeriesValue::Summaries(queued));
    let histograms: [(&str, &Histogram); 13] = [
        ("zebu_fsync_duration_seconds", &edge.fsync_duration),
        ("zebu_disk_queue_duration_seconds", &edge.disk_duration),
        ("zebu_sync_batch_size", &edge.sync_batch_sizes),
        ("zebu_disk_queue_depth", &edge.disk_queue_depth),
        ("zebu_inbox_depth", &edge.inbox_depth),
        ("zebu_in_flight_depth", &edge.in_flight_depth),
        ("zebu_commit_duration_seconds", &edge.commit_duration),
        ("zebu_core_round_duration_seconds", &edge.round_duration),
        ("zebu_apply_duration_seconds", &edge.apply_duration),
        ("zebu_read_duration_seconds", &latencies.read_durations),
        ("zebu_write_duration_seconds", &latencies.update_durations),
        ("zebu_snapshot_duration_seconds", &edge.snapshot_duration),
        ("zebu_election_duration_seconds", &edge.election_duration),
    ];
    for (name, histogram) in histograms {
        view.set(name, SeriesValue::Histogram(histogram.snapshot()));
    }
}

fn add_node(view: &mut MetricsView, node: &NodeMetrics, now_ms: i64) {
    let summaries: [(&str, &Summary); 12] = [
        ("propagation_latency", &node.propagation_latency),
        ("commit_propagation_latency", &node.commit_propagation_latency),
        ("write_commitproc_time_ms", &node.write_commit_time),
        ("prep_processor_queue_time_ms", &node.prep_queue_time),
        ("read_commitproc_time_ms", &node.read_wait_time),
        ("requests_in_session_queue", &node.requests_in_queue),
        ("reads_after_write_in_session_queue", &node.reads_after_write),
        ("node_created_watch_count", &node.created_watches),
        ("node_deleted_watch_count", &node.deleted_watches),
        ("node_changed_watch_count", &node.changed_watches),
        ("node_children_watch_count", &node.children_watches),
        ("connection_token_deficit", &node.token_deficit),
    ];
    for (name, summary) in summaries {
        view.set(name, SeriesValue::Summary(summary.snapshot(now_ms)));
    }
    for (name, counter) in [
        ("connection_revalidate_count", &node.sessions_resumed),
        ("stale_sessions_expired", &node.sessions_expired),
        ("throttled_ops", &node.throttled_ops),
        ("zebu_fenced_reads", &node.fenced_reads),
        ("zebu_read_checks", &node.read_checks),
        ("zebu_listing_pages", &node.listing_pages),
        ("zebu_listing_slices", &node.listing_slices),
        ("zebu_tree_deletes", &node.tree_deletes),
        ("zebu_keeper_requests", &node.keeper_requests),
        ("stale_requests", &node.stale_requests),
        ("stale_requests_dropped", &node.stale_requests),
        ("zebu_connections_kept", &node.connections_kept),
        ("zebu_connections_continued", &node.connections_continued),
        ("zebu_client_hellos", &node.client_hellos),
        ("zebu_connections_drained", &node.connections_drained),
        ("zebu_clients_moved", &node.clients_moved),
        ("zebu_requests_repeated", &node.requests_repeated),
        ("zebu_watches_refused", &node.watches_refused),
        ("zebu_growth_refused", &node.growth_refused),
        ("zebu_feeds_opened", &node.feeds_opened),
        ("zebu_feed_records", &node.feed_records),
        ("zebu_feed_bytes", &node.feed_bytes),
        ("zebu_feed_log_reads", &node.feed_log_reads),
        ("zebu_feeds_purged", &node.feeds_purged),
        ("outstanding_changes_queued", &node.changes_queued),
        ("outstanding_changes_removed", &node.changes_removed),
    ] {
        view.counter(name, counter);
    }
    view.set("quota_exceeded_error_per_namespace", SeriesValue::Counters(node.quota_exceeded.snapshot()));
    let (reads, writes) = node.namespaces.snapshot(now_ms);
    view.set("read_per_namespace", SeriesValue::Summaries(reads));
    view.set("write_per_namespace", SeriesValue::Summaries(writes));
}
