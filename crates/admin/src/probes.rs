//! `/live`, `/ready` and `/version`: probes that say what a server does, unlike `ruok`, which answers always.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use zebu_node::ServingMode;
use zebu_server::four_letter::version;
use zebu_server::views::ServerViews;

use crate::admin_state::AdminState;
use crate::commands_route::with_type;
use crate::json::Json;

/// How long the core may take to answer before the server counts as stuck.
const CORE_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProbeResult {
    is_good: bool,
    status: &'static str,
    role: Option<String>,
    reason: Option<&'static str>,
}

impl ProbeResult {
    fn good(status: &'static str) -> ProbeResult {
        ProbeResult { is_good: true, status, role: None, reason: None }
    }

    fn bad(status: &'static str, reason: &'static str) -> ProbeResult {
        ProbeResult { is_good: false, status, role: None, reason: Some(reason) }
    }

    fn response(self) -> Response {
        let status = if self.is_good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let text = |text: Option<String>| text.map_or(Json::Null, Json::Text);
        let body = Json::object([
            ("status", Json::text(self.status)),
            ("role", text(self.role)),
            ("reason", text(self.reason.map(str::to_owned))),
        ]);
        with_type(status, "application/json", Body::from(body.compact() + "\n"))
    }
}

/// 200 while the process works: it recovers, it stops, or its core answers.
pub(crate) async fn live(State(state): State<Arc<AdminState>>) -> Response {
    let Some(views) = state.views.get() else { return ProbeResult::good("starting").response() };
    if views.is_stopping() {
        return ProbeResult::good("draining").response();
    }
    match tokio::time::timeout(CORE_TIMEOUT, views.core()).await {
        Ok(Some(_)) => ProbeResult::good("live"),
        Ok(None) => ProbeResult::bad("stuck", "the core has ended"),
        Err(_) => ProbeResult::bad("stuck", "the core did not answer within 2 seconds"),
    }
    .response()
}

/// 200 in a role that serves clients.
pub(crate) async fn ready(State(state): State<Arc<AdminState>>) -> Response {
    let result = match state.views.get() {
        None => ProbeResult::bad("starting", "the data directory is being recovered"),
        Some(views) => readiness(views).await,
    };
    result.response()
}

async fn readiness(views: &ServerViews) -> ProbeResult {
    if views.is_stopping() {
        return ProbeResult::bad("draining", "the server stops");
    }
    match views.serving_mode() {
        Some(ServingMode::Leader) if !views.config().membership.leader_serves => {
            let result = ProbeResult::bad("ready", "leaderServes=no: a leader accepts no clients");
            ProbeResult { role: Some(ServingMode::Leader.to_string()), ..result }
        }
        Some(mode) => ProbeResult { role: Some(mode.to_string()), ..ProbeResult::good("ready") },
        None => match tokio::time::timeout(CORE_TIMEOUT, views.core()).await {
            Ok(Some(core)) if core.leader.is_some() => {
                ProbeResult::bad("syncing", "the server joins its leader")
            }
            Ok(_) | Err(_) => {
                ProbeResult::bad("looking", "the ensemble has no leader that this server knows")
            }
        },
    }
}

/// Versions and build of the server.
pub(crate) async fn show_version() -> Response {
    let commit = version::build_commit().map_or(Json::Null, Json::text);
    let body = Json::object([
        ("version", Json::text(version::ZEBU_VERSION)),
        ("zookeeper", Json::text(version::COMPATIBLE_RELEASE)),
        ("built", Json::text(version::build_date())),
        ("commit", commit),
    ]);
    with_type(StatusCode::OK, "application/json", Body::from(body.compact() + "\n"))
}
