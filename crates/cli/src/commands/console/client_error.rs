//! Errors of the client as answers of the API.

use axum::http::StatusCode;
use serde_json::json;
use zebu_admin::parts::{CallerAuth, Problem};
use zebu_client::{Error, ErrorKind};

/// The answer for a failed call.
pub(super) fn problem(error: &Error, auth: CallerAuth) -> Problem {
    let path = Some(error.path()).filter(|path| !path.is_empty());
    if let ErrorKind::Transaction { index, code } = error.kind() {
        return Problem::of_code(*code, path, auth).with("failed", json!(index));
    }
    if let Some(code) = error.code() {
        return Problem::of_code(code, path, auth);
    }
    match error.kind() {
        ErrorKind::InvalidPath(_) | ErrorKind::InvalidOptions(_) => Problem::bad_request(error.to_string()),
        ErrorKind::TooLarge { .. } => Problem::too_large(error.to_string()),
        _ if error.is_ambiguous() => Problem::unknown_outcome("CONNECTIONLOSS", error.to_string()),
        _ if error.is_not_sent() => Problem::unavailable("NOTSERVING", error.to_string()),
        // Wildcard: answers that cannot be read, and codes that this client does not know.
        _ => Problem::new(StatusCode::BAD_GATEWAY, "SYSTEMERROR", error.to_string()),
    }
}

/// The answer for what the client protocol cannot tell.
pub(super) fn not_remote() -> Problem {
    let detail = "the client protocol does not tell this; the console of a Zebu server shows it";
    Problem::new(StatusCode::NOT_IMPLEMENTED, "NOTREMOTE", detail)
}
