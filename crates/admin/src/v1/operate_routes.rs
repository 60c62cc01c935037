//! `POST /v1/snapshot`, `/v1/hand-over` and `/v1/drain`: work of an operator on this server. Only for the
//! super user.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use tracing::warn;
use zebu_node::AuditResult;
use zebu_server::views::HandOverRefusal;

use super::call::ApiCall;
use super::problem::Problem;
use super::values::hex;
use crate::command::AdminCommand;
use crate::command_audit::CommandAudit;
use crate::snapshot_route::{SnapshotDenied, write_snapshot};

/// Time for the answer of a drain to leave.
const DRAIN_DELAY: Duration = Duration::from_millis(200);

/// Writes a snapshot file, which stays in `dataDir`.
pub(crate) async fn take_snapshot(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    let credentials = call.ids.credentials.clone();
    let audit = CommandAudit::begin(&call.views, AdminCommand::Snapshot, credentials);
    // Dropped with a refusal, the audit writes a failure.
    call.require_super()?;
    let (snapshot, _stream) =
        write_snapshot(&call.state.admin, &call.views).await.map_err(snapshot_problem)?;
    if let Some(audit) = audit {
        audit.finish(AuditResult::Success);
    }
    let bytes = std::fs::metadata(&snapshot.path).map(|metadata| metadata.len()).ok();
    let name = snapshot.path.file_name().map(|name| name.to_string_lossy().into_owned());
    call.json(StatusCode::OK, &json!({ "zxid": hex(snapshot.zxid.0), "file": name, "bytes": bytes }))
}

fn snapshot_problem(denied: SnapshotDenied) -> Problem {
    match denied {
        SnapshotDenied::Off(text) => Problem::new(StatusCode::NOT_IMPLEMENTED, "UNIMPLEMENTED", text),
        SnapshotDenied::TooSoon { text, .. } => Problem::unavailable("THROTTLEDOP", text),
        SnapshotDenied::Busy(text) => Problem::unavailable("THROTTLEDOP", text),
        SnapshotDenied::NoRoom(text) => Problem::new(StatusCode::INSUFFICIENT_STORAGE, "SYSTEMERROR", text),
        SnapshotDenied::Failed(text) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "SYSTEMERROR", text),
    }
}

/// Lets another server lead.
pub(crate) async fn hand_over(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    call.require_super()?;
    warn!(peer = %call.caller.address, "an operator asks for a hand-over of the leadership");
    call.views.hand_over().await.map_err(|refusal| {
        let detail = match refusal {
            HandOverRefusal::NotLeader => "this server does not lead; ask the leader",
            HandOverRefusal::NotReady => "this server begins to lead, hands over already, or stops",
            HandOverRefusal::NoSuccessor => "no other voter is synchronized and has room on its disk",
        };
        Problem::new(StatusCode::CONFLICT, "BADARGUMENTS", detail)
    })?;
    call.json(StatusCode::ACCEPTED, &json!({ "handingOver": true }))
}

/// Lets the server send its clients to the others, and stop.
pub(crate) async fn drain(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    call.require_super()?;
    warn!(peer = %call.caller.address, "an operator asks for a drain of this server");
    let views = call.views.clone();
    tokio::spawn(async move {
        // A server without clients ends at once, and the answer must leave before.
        tokio::time::sleep(DRAIN_DELAY).await;
        views.request_drain();
    });
    let drain_ms = u64::try_from(call.views.config().sessions.drain_time.as_millis()).unwrap_or(u64::MAX);
    call.json(StatusCode::ACCEPTED, &json!({ "draining": true, "drainTimeMs": drain_ms }))
}
