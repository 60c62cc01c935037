//! `admin.commandURL`: which command a request names, whether it may run, and its answer as JSON.
//!
//! ZooKeeper's order of refusals holds: unknown name, not serving, credentials, method.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use tracing::{info, warn};
use zebu_node::AuditResult;
use zebu_server::views::ServerViews;
use zebu_tree::Credentials;

use crate::admin_state::AdminState;
use crate::answers::{self, AnswerError, Entries};
use crate::authorization::{AccessError, Caller, CheckedCaller, check_access};
use crate::command::{AdminCommand, CommandEntry, CommandMethod, find_command, list_page};
use crate::command_audit::CommandAudit;
use crate::json::Json;
use crate::query;
use crate::request_origin::check_origin;
use crate::restore_route::{self, RestoreCall};
use crate::snapshot_route;

const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";
const METHODS: &str = "GET, HEAD, POST, TRACE, OPTIONS";

/// Time for the answer of a drain to leave.
const DRAIN_DELAY: Duration = Duration::from_millis(200);

/// Longest body of a command.
const BODY_BYTES_MAX: usize = 4 << 10;
/// How long a client may take to send it.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers a request below the command URL.
pub(crate) async fn serve_command(
    State(state): State<Arc<AdminState>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    if let Err(error) = check_origin(request.headers(), &state.host_rule) {
        return plain(StatusCode::FORBIDDEN, &format!("{error}\n"));
    }
    let method = match *request.method() {
        Method::GET | Method::HEAD => CommandMethod::Get,
        Method::POST => CommandMethod::Post,
        Method::OPTIONS => return with_allow(empty(StatusCode::OK), METHODS),
        Method::TRACE => return empty(StatusCode::FORBIDDEN),
        _ => return with_allow(empty(StatusCode::METHOD_NOT_ALLOWED), METHODS),
    };
    let path = request.uri().path().strip_prefix(state.config.command_url.as_str()).unwrap_or_default();
    let name = query::decode(path.strip_prefix('/').unwrap_or_default());
    if name.is_empty() {
        return match method {
            CommandMethod::Get => Response::new(Body::from(list_page(&state.config.command_url))),
            CommandMethod::Post => with_allow(empty(StatusCode::METHOD_NOT_ALLOWED), "GET, HEAD"),
        };
    }
    let Some(entry) = find_command(&name) else {
        return refusal(StatusCode::OK, &name, &format!("Unknown command: {name}"));
    };
    let (parts, body) = request.into_parts();
    run_command(&state, &caller, entry, CommandRequest { name, method, parts, body }).await
}

/// A request that names a command.
struct CommandRequest {
    /// The name as typed.
    name: String,
    method: CommandMethod,
    parts: Parts,
    body: Body,
}

async fn run_command(
    state: &Arc<AdminState>,
    caller: &Caller,
    entry: &'static CommandEntry,
    received: CommandRequest,
) -> Response {
    let CommandRequest { name, method, parts, body } = received;
    let views = state.views.get();
    let serving = views.filter(|views| views.serving_mode().is_some());
    if entry.server == crate::command::ServerNeed::Serving && serving.is_none() {
        return refusal(StatusCode::OK, &name, NOT_SERVING);
    }
    let checked = check(views, caller, &parts, entry);
    // Dropped with a refusal, it writes a failure.
    let audit = views.and_then(|views| CommandAudit::begin(views, entry.command, checked.credentials));
    if let Err(error) = checked.access {
        info!(peer = %caller.address, command = entry.name, reason = error.text(), "admin command refused");
        return refusal(error.status(), &name, error.text());
    }
    if method != entry.method {
        let allow = if entry.method == CommandMethod::Get { "GET, HEAD" } else { "POST" };
        let text = format!("{} is a command for {allow}", entry.name);
        return with_allow(refusal(StatusCode::METHOD_NOT_ALLOWED, &name, &text), allow);
    }
    match (entry.command, views) {
        (AdminCommand::Snapshot, Some(views)) => {
            let response = snapshot_route::take_snapshot(state, views, &parts).await;
            if let Some(audit) = audit.filter(|_| response.status().is_success()) {
                audit.finish(AuditResult::Success);
            }
            response
        }
        (AdminCommand::ShedConnections, Some(views)) => {
            warn!(peer = %caller.address, command = entry.name, "admin command");
            shed_connections(views, body).await
        }
        (AdminCommand::Drain, Some(views)) => {
            warn!(peer = %caller.address, command = entry.name, "admin command");
            let views = views.clone();
            tokio::spawn(async move {
                // A server without clients ends at once, and the answer must leave before.
                tokio::time::sleep(DRAIN_DELAY).await;
                views.request_drain();
            });
            success(state, entry.name, Vec::new())
        }
        (AdminCommand::Restore, Some(views)) => {
            let request = RestoreCall { caller, parts, body, audit };
            restore_route::restore_state(state, views, request).await
        }
        (command, views) => {
            let _permit = match answers::is_long(command) {
                true => state.long_answers.acquire().await.ok(),
                false => None,
            };
            match answers::answer(command, views, parts.uri.query()).await {
                Ok(entries) => success(state, entry.name, entries),
                Err(error) => failure(entry, &name, &error),
            }
        }
    }
}

fn check(views: Option<&ServerViews>, caller: &Caller, parts: &Parts, entry: &CommandEntry) -> CheckedCaller {
    let Some(views) = views else {
        let is_open = entry.access == crate::command::AccessNeed::Open;
        let access = if is_open { Ok(()) } else { Err(AccessError::NotAuthenticated) };
        return CheckedCaller { credentials: Credentials::of_peer(caller.address), access };
    };
    check_access(views, caller, &parts.headers, entry.access)
}

async fn shed_connections(views: &ServerViews, body: Body) -> Response {
    let name = "shed_connections";
    let read = tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(body, BODY_BYTES_MAX)).await;
    let bad = |text: String| refusal(StatusCode::BAD_REQUEST, name, &text);
    let invalid = |why: String| bad(format!("Invalid JSON or failed to read request body: {why}"));
    let bytes = match read {
        Ok(Ok(bytes)) if bytes.is_empty() => return bad("Request body is required".to_owned()),
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => return invalid(error.to_string()),
        Err(_) => return invalid("it was not received in time".to_owned()),
    };
    let value: serde_json::Value = match serde_json::from_slice(&bytes) {
        Ok(value) => value,
        Err(error) => return invalid(error.to_string()),
    };
    let Some(percentage) = value.get("percentage") else {
        return bad("Missing required field: percentage".to_owned());
    };
    match usize::try_from(jackson_int(percentage)).ok().filter(|percentage| *percentage <= 100) {
        None => bad("Percentage must be between 0 and 100".to_owned()),
        Some(percentage) => {
            let closed = views.shed_connections(percentage);
            let entries = [
                ("connections_shed", Json::count(closed)),
                ("percentage_requested", Json::count(percentage)),
                ("command", Json::text(name)),
                ("error", Json::Null),
            ];
            json(StatusCode::OK, &Json::object(entries))
        }
    }
}

/// Jackson's `asInt`: a fraction is cut, a text is parsed, anything else is 0.
fn jackson_int(value: &serde_json::Value) -> i64 {
    match value {
        serde_json::Value::Number(number) => {
            number.as_i64().or_else(|| number.as_f64().map(|number| number as i64)).unwrap_or(0)
        }
        serde_json::Value::String(text) => text.trim().parse().unwrap_or(0),
        serde_json::Value::Bool(value) => i64::from(*value),
        serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) => 0,
    }
}

/// The values, then the primary name and no error.
fn success(state: &AdminState, name: &str, mut entries: Entries) -> Response {
    entries.push(("command".to_owned(), Json::text(name)));
    entries.push(("error".to_owned(), Json::Null));
    match state.body(Json::Object(entries).pretty()) {
        Some(body) => json_body(StatusCode::OK, body),
        None => {
            let text = "too many long answers wait for their clients; try again later";
            refusal(StatusCode::SERVICE_UNAVAILABLE, name, text)
        }
    }
}

fn failure(entry: &CommandEntry, typed: &str, error: &AnswerError) -> Response {
    match error {
        AnswerError::Reported(text) => {
            let object = Json::object([("error", Json::text(text)), ("command", Json::text(entry.name))]);
            json(StatusCode::OK, &object)
        }
        AnswerError::Unavailable(text) => refusal(StatusCode::SERVICE_UNAVAILABLE, entry.name, text),
        AnswerError::NotServing if entry.server == crate::command::ServerNeed::Serving => {
            refusal(StatusCode::OK, typed, NOT_SERVING)
        }
        AnswerError::NotServing => refusal(StatusCode::SERVICE_UNAVAILABLE, typed, NOT_SERVING),
    }
}

/// An answer without values.
pub(crate) fn refusal(status: StatusCode, name: &str, error: &str) -> Response {
    json(status, &Json::object([("command", Json::text(name)), ("error", Json::text(error))]))
}

pub(crate) fn json(status: StatusCode, value: &Json) -> Response {
    json_body(status, Body::from(value.pretty()))
}

pub(crate) fn json_body(status: StatusCode, body: Body) -> Response {
    with_type(status, "application/json", body)
}

pub(crate) fn with_type(status: StatusCode, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub(crate) fn plain(status: StatusCode, text: &str) -> Response {
    with_type(status, "text/plain; charset=utf-8", Body::from(text.to_owned()))
}

pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

pub(crate) fn with_allow(mut response: Response, methods: &'static str) -> Response {
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_read_as_jackson_reads_it() {
        for (text, number) in
            [("5", 5), ("5.9", 5), ("\"7\"", 7), ("\"x\"", 0), ("null", 0), ("true", 1), ("[]", 0)]
        {
            assert_eq!(jackson_int(&serde_json::from_str(text).unwrap()), number, "{text}");
        }
    }
}
