//! `/v1/stats` and `/v1/roles`: the numbers of this server now, and the roles that it had.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};
use zebu_metrics::{MetricValue, monitor_values};

use super::call::ApiCall;
use super::problem::Problem;
use super::values::hex;
use crate::role_timeline::SAMPLE_INTERVAL;

/// The numbers of the server, with all values of `mntr`.
pub(crate) async fn show_stats(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    let views = &call.views;
    let stats = views.server_stats();
    let metrics = views.metrics().await.ok_or_else(Problem::not_serving)?;
    let values: Map<String, Value> = monitor_values(&metrics)
        .into_iter()
        .map(|(name, value)| {
            let value = match value {
                MetricValue::Integer(value) => json!(value),
                MetricValue::Decimal(value) => json!(value),
                MetricValue::Text(value) => json!(value),
            };
            (name.into_owned(), value)
        })
        .collect();
    let snapshot = views.last_snapshot();
    let object = json!({
        "id": views.server_id().map(|id| id.0),
        "role": views.serving_mode().map(|mode| mode.to_string()),
        "epoch": views.serving_epoch(),
        "zxid": hex(stats.last_zxid.0),
        "uptimeMs": stats.uptime_ms,
        "connections": stats.connections,
        "outstanding": stats.outstanding_requests,
        "packetsReceived": stats.packets_received,
        "packetsSent": stats.packets_sent,
        "nodes": stats.node_count,
        "dataDirBytes": stats.data_dir_bytes,
        "logDirBytes": stats.log_dir_bytes,
        "averageLatencyMs": stats.average_latency_ms,
        "maxLatencyMs": stats.max_latency_ms,
        "lastSnapshot": snapshot.map(|snapshot| {
            json!({ "zxid": hex(snapshot.zxid.0), "writtenMs": snapshot.written_seconds * 1000 })
        }),
        "values": values,
    });
    call.json(StatusCode::OK, &object)
}

/// The roles that the admin server has seen, oldest first.
pub(crate) async fn show_roles(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    let Some(timeline) = &call.state.admin.roles else {
        return call.json(StatusCode::OK, &json!({ "sampleMs": null, "changes": [] }));
    };
    let changes: Vec<Value> = timeline
        .changes()
        .iter()
        .map(|change| {
            let (role, leader) = (change.role.map(|role| role.to_string()), change.leader.map(|id| id.0));
            json!({ "atMs": change.at_ms, "role": role, "epoch": change.epoch, "leader": leader })
        })
        .collect();
    let sample_ms = u64::try_from(SAMPLE_INTERVAL.as_millis()).unwrap_or(u64::MAX);
    call.json(StatusCode::OK, &json!({ "sampleMs": sample_ms, "changes": changes }))
}
