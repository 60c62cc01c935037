//! `/v1/sessions` and `/v1/watches`: sessions with their connections, ephemeral nodes and watches.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};
use zebu_proto::{OpCode, SessionId};
use zebu_server::views::{ConnectionView, SessionRow, ViewTooLong};

use super::call::ApiCall;
use super::connection_pool::open_problem;
use super::problem::Problem;
use super::request_connection::{CallError, OpenError, RequestConnection, SessionChoice};
use super::session_search::{SessionOrder, find_sessions};
use super::values::hex;

/// Sessions of a page, and most of them.
const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 1000;
/// Paths of a session that are shown.
const PATHS_MAX: usize = 1000;
/// Bytes of all paths and ids of a list of watches.
const WATCHES_BYTES_MAX: usize = 8 << 20;

/// A page of sessions, or the first ones of an order.
pub(crate) async fn list_sessions(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&["after", "limit", "match", "order"])?;
    let limit = call.arguments.number("limit", PAGE_MAX)?.unwrap_or(PAGE_DEFAULT);
    let after = call.arguments.value("after").map(session_id).transpose()?;
    let order = SessionOrder::of_name(call.arguments.value("order"))?;
    let text = call.arguments.value("match").unwrap_or_default().to_lowercase();
    if !text.is_empty() || order != SessionOrder::Id {
        if after.is_some() {
            return Err(Problem::bad_request("after goes with the order by id, and not with match"));
        }
        let _permit = call.state.admin.long_answers.acquire().await.ok();
        let found = find_sessions(&call.views, &text, order, limit).await;
        let sessions: Vec<Value> = found.sessions.iter().map(|row| Value::Object(row_of(row))).collect();
        let (matched, total) = (found.matched, found.total);
        let object = json!({ "sessions": sessions, "next": null, "matched": matched, "total": total });
        return call.json(StatusCode::OK, &object);
    }
    let page = call.views.session_page(after, limit);
    let next = page.sessions.last().filter(|_| page.has_more).map(|row| hex(row.id.0));
    let sessions: Vec<Value> = page.sessions.iter().map(|row| Value::Object(row_of(row))).collect();
    let object = json!({ "sessions": sessions, "next": next, "total": page.total });
    call.json(StatusCode::OK, &object)
}

/// One session.
pub(crate) async fn show_session(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    let id = session_id(&call.rest)?;
    let detail = call.views.session_detail(id, PATHS_MAX).ok_or_else(no_session)?;
    let mut object = row_of(&detail.row);
    object.insert("ephemeralPaths".to_owned(), json!(detail.ephemerals));
    object.insert("watchedPaths".to_owned(), json!(detail.data_watches));
    object.insert("isCut".to_owned(), json!(detail.is_cut));
    call.json(StatusCode::OK, &object.into())
}

/// Ends a session as its client would: takes it over, and sends closeSession.
pub(crate) async fn close_session(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    call.require_super()?;
    let id = session_id(&call.rest)?;
    call.views.session_detail(id, 1).ok_or_else(no_session)?;
    let choice = SessionChoice::Existing(id);
    let connection = match RequestConnection::open(&call.views, call.local_caller(), choice, None).await {
        Ok(connection) => connection,
        Err(OpenError::NoSession) => return Err(no_session()),
        Err(error) => return Err(open_problem(&error)),
    };
    let reply = connection.call(OpCode::CloseSession, Vec::new()).await.map_err(|error| match error {
        CallError::NotSent => Problem::not_serving(),
        CallError::Lost | CallError::Timeout => {
            Problem::unknown_outcome("CONNECTIONLOSS", "there was no reply; the session may be closed")
        }
    })?;
    call.check(&reply, "")?;
    call.json(StatusCode::OK, &json!({ "closed": hex(id.0) }))
}

/// Watches on data of the connections of this server: counts, by path or by session.
pub(crate) async fn list_watches(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&["by"])?;
    let summary = call.views.watch_summary();
    let mut object = Map::new();
    object.insert("connections".to_owned(), json!(summary.connections));
    object.insert("paths".to_owned(), json!(summary.paths));
    object.insert("watches".to_owned(), json!(summary.watches));
    let too_long = |error: ViewTooLong| {
        Problem::unavailable("OPERATIONTIMEOUT", format!("{error}; ask for single sessions"))
    };
    let _permit = call.state.admin.long_answers.acquire().await.ok();
    match call.arguments.value("by") {
        None => {}
        Some("path") => {
            let watches = call.views.watches_by_path(WATCHES_BYTES_MAX).map_err(too_long)?;
            let rows = watches.into_iter().map(|(path, sessions)| {
                let sessions: Vec<Value> = sessions.into_iter().map(|id| hex(id.0)).collect();
                json!({ "path": path, "sessions": sessions })
            });
            object.insert("byPath".to_owned(), rows.collect());
        }
        Some("session") => {
            let watches = call.views.watches(WATCHES_BYTES_MAX).map_err(too_long)?;
            let rows = watches.into_iter().map(|(id, paths)| json!({ "id": hex(id.0), "paths": paths }));
            object.insert("bySession".to_owned(), rows.collect());
        }
        Some(_) => return Err(Problem::bad_request("by takes the values path and session")),
    }
    call.json(StatusCode::OK, &object.into())
}

fn row_of(row: &SessionRow) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("id".to_owned(), hex(row.id.0));
    object.insert("timeoutMs".to_owned(), json!(row.timeout_ms));
    object.insert("ephemerals".to_owned(), json!(row.ephemerals));
    object.insert("isLocal".to_owned(), json!(row.is_local));
    object.insert("connection".to_owned(), row.connection.as_ref().map_or(Value::Null, connection_of));
    object
}

fn connection_of(connection: &ConnectionView) -> Value {
    let session = connection.session.as_ref();
    json!({
        "remote": connection.remote,
        "isSecure": connection.is_secure,
        "outstanding": connection.outstanding,
        "received": connection.received,
        "sent": connection.sent,
        "establishedMs": session.map(|session| session.established_ms),
        "lastOperation": session.map(|session| session.last_operation),
        "lastZxid": session.map(|session| hex(session.last_zxid.0)),
        "averageLatencyMs": session.map(|session| session.average_latency_ms),
        "maxLatencyMs": session.map(|session| session.max_latency_ms),
    })
}

fn no_session() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "UNKNOWNSESSION", "this server does not know the session")
}

/// A session id in hexadecimal.
fn session_id(text: &str) -> Result<SessionId, Problem> {
    let digits =
        text.strip_prefix("0x").filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let id = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let id = id.map(|id| SessionId(id.cast_signed()));
    id.ok_or_else(|| Problem::bad_request("a session id is written as 0x and hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_are_hexadecimal() {
        assert_eq!(session_id("0x10").unwrap(), SessionId(16));
        assert_eq!(session_id(hex(-2).as_str().unwrap()).unwrap(), SessionId(-2));
        for bad in ["", "10", "0x", "0x1g", "0x+1", "0x11111111111111111"] {
            assert!(session_id(bad).is_err(), "{bad}");
        }
    }
}
