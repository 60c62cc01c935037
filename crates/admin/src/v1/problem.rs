//! Errors of the API as `application/problem+json` with ZooKeeper's code name.
//!
//! `outcome` says what became of a write: 503 and all 4xx mean that it was not executed. Only 504 leaves it
//! open, because the connection to the core ended before the reply.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Map, Value, json};
use zebu_proto::ErrorCode;

/// Seconds after which a client should try again while there is no leader.
const RETRY_SECONDS: u64 = 1;

/// An error answer.
#[derive(Debug)]
pub struct Problem {
    /// The status of the answer.
    pub status: StatusCode,
    code: String,
    detail: String,
    retry: bool,
    allow: Option<&'static str>,
    extra: Map<String, Value>,
}

/// Whether the caller showed an identity with its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerAuth {
    /// It did.
    Shown,
    /// It did not.
    Missing,
}

impl Problem {
    /// An error with its code and a sentence.
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Problem {
        let (code, detail) = (code.to_owned(), detail.into());
        Problem { status, code, detail, retry: false, allow: None, extra: Map::new() }
    }

    /// A request that has no meaning.
    pub fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "BADARGUMENTS", detail)
    }

    /// The server cannot do it now. The request was not executed.
    pub fn unavailable(code: &str, detail: impl Into<String>) -> Problem {
        Problem { retry: true, ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail) }
    }

    /// The server has no leader, or does not serve for another reason.
    pub fn not_serving() -> Problem {
        Problem::unavailable("NOTSERVING", "the server serves no clients: it has no leader, or it stops")
    }

    /// The write may or may not have been executed.
    pub fn unknown_outcome(code: &str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::GATEWAY_TIMEOUT, code, detail).with("outcome", json!("unknown"))
    }

    /// More bytes than allowed.
    pub fn too_large(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "BADARGUMENTS", detail)
    }

    /// The route has other methods.
    pub fn method_not_allowed(allow: &'static str) -> Problem {
        let detail = format!("this route answers {allow}");
        let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "UNIMPLEMENTED", detail);
        Problem { allow: Some(allow), ..problem }
    }

    /// An error of ZooKeeper.
    pub fn of_code(code: ErrorCode, path: Option<&str>, auth: CallerAuth) -> Problem {
        let status = status_of(code, auth);
        let problem = Problem::new(status, &code_name(code), detail_of(code));
        let retry = matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS);
        let problem = Problem { retry, ..problem };
        match path {
            Some(path) => problem.with("path", json!(path)),
            None => problem,
        }
    }

    /// Whether the answer has this code.
    pub fn has_code(&self, code: &str) -> bool {
        self.code == code
    }

    /// Adds a member to the answer.
    pub fn with(mut self, name: &str, value: Value) -> Problem {
        self.extra.insert(name.to_owned(), value);
        self
    }

    /// The answer.
    pub fn response(self) -> Response {
        let Problem { status, code, detail, retry, allow, extra } = self;
        let mut object = extra;
        object.insert("type".to_owned(), json!("about:blank"));
        object.insert("title".to_owned(), json!(status.canonical_reason().unwrap_or("Error")));
        object.insert("status".to_owned(), json!(status.as_u16()));
        object.insert("code".to_owned(), json!(code));
        object.insert("detail".to_owned(), json!(detail));
        let mut response = Response::new(Body::from(format!("{}\n", Value::Object(object))));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let mut set = |name: HeaderName, value: HeaderValue| headers.insert(name, value);
        set(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        set(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if retry {
            set(header::RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
        }
        if status == StatusCode::UNAUTHORIZED {
            set(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Basic realm=\"zebu\", charset=\"UTF-8\""),
            );
        }
        if let Some(allow) = allow {
            set(header::ALLOW, HeaderValue::from_static(allow));
        }
        response
    }
}

/// The name of a code in ZooKeeper's `KeeperException.Code`.
pub(crate) fn code_name(code: ErrorCode) -> String {
    match code {
        ErrorCode::SessionClosedRequireSaslAuth => "SESSIONCLOSEDREQUIRESASLAUTH".to_owned(),
        _ => code.name().to_ascii_uppercase(),
    }
}

fn status_of(code: ErrorCode, auth: CallerAuth) -> StatusCode {
    match code {
        ErrorCode::NoNode => StatusCode::NOT_FOUND,
        ErrorCode::NodeExists | ErrorCode::NotEmpty | ErrorCode::NoChildrenForEphemerals => {
            StatusCode::CONFLICT
        }
        ErrorCode::BadVersion => StatusCode::PRECONDITION_FAILED,
        ErrorCode::NoAuth if auth == CallerAuth::Shown => StatusCode::FORBIDDEN,
        ErrorCode::NoAuth | ErrorCode::AuthFailed | ErrorCode::SessionClosedRequireSaslAuth => {
            StatusCode::UNAUTHORIZED
        }
        ErrorCode::BadArguments
        | ErrorCode::InvalidAcl
        | ErrorCode::MarshallingError
        | ErrorCode::EphemeralOnLocalSession => StatusCode::BAD_REQUEST,
        ErrorCode::Unimplemented | ErrorCode::ReconfigDisabled => StatusCode::NOT_IMPLEMENTED,
        ErrorCode::QuotaExceeded | ErrorCode::SystemError => StatusCode::INSUFFICIENT_STORAGE,
        ErrorCode::ThrottledOp | ErrorCode::TooManyFeeds => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::LogPurged => StatusCode::GONE,
        ErrorCode::NotReadOnly
        | ErrorCode::SessionExpired
        | ErrorCode::SessionMoved
        | ErrorCode::UnknownSession
        | ErrorCode::NewConfigNoQuorum
        | ErrorCode::ReconfigInProgress => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::ConnectionLoss | ErrorCode::OperationTimeout | ErrorCode::RequestTimeout => {
            StatusCode::GATEWAY_TIMEOUT
        }
        ErrorCode::RuntimeInconsistency
        | ErrorCode::DataInconsistency
        | ErrorCode::InvalidCallback
        | ErrorCode::NoWatcher => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn detail_of(code: ErrorCode) -> String {
    match code {
        ErrorCode::NoNode => "the node does not exist".to_owned(),
        ErrorCode::NodeExists => "the node exists already".to_owned(),
        ErrorCode::NotEmpty => "the node has children".to_owned(),
        ErrorCode::BadVersion => "the node has another version".to_owned(),
        ErrorCode::NoAuth => "the ACL does not permit this to the caller".to_owned(),
        ErrorCode::NotReadOnly => "the server serves reads only, because it has no leader".to_owned(),
        ErrorCode::QuotaExceeded => "a hard quota would be exceeded".to_owned(),
        ErrorCode::SystemError => {
            "no quorum of servers has room on its disks; what needs no room is accepted".to_owned()
        }
        ErrorCode::NewConfigNoQuorum => {
            "no quorum of the new config is synchronized with the leader; start its servers and wait"
                .to_owned()
        }
        ErrorCode::ReconfigInProgress => "another change of the config is in progress".to_owned(),
        ErrorCode::ReconfigDisabled => "reconfig is off; reconfigEnabled=true turns it on".to_owned(),
        ErrorCode::InvalidAcl => "the ACL is empty, or names an unknown scheme or a bad id".to_owned(),
        ErrorCode::BadArguments => "the path, or another argument, is not valid".to_owned(),
        ErrorCode::NoChildrenForEphemerals => "an ephemeral node has no children".to_owned(),
        ErrorCode::SessionClosedRequireSaslAuth => {
            "the server requires an authentication scheme that the caller did not show".to_owned()
        }
        _ => format!("ZooKeeper's error {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_status_of_an_error() {
        for &code in ErrorCode::ALL {
            let problem = Problem::of_code(code, Some("/a"), CallerAuth::Shown);
            assert!(problem.status.is_client_error() || problem.status.is_server_error(), "{code}");
            assert!(code_name(code).chars().all(|c| c.is_ascii_uppercase()), "{code}");
        }
        assert_eq!(status_of(ErrorCode::NoAuth, CallerAuth::Missing), StatusCode::UNAUTHORIZED);
        assert_eq!(status_of(ErrorCode::NoAuth, CallerAuth::Shown), StatusCode::FORBIDDEN);
    }
}
