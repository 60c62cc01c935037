//! The backend of the console over the client protocol: logins, and the table of its routes.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use zebu_admin::console_visitor;
use zebu_admin::parts::{Arguments, CallerAuth, Problem};
use zebu_client::{Client, Error};
use zebu_console::{Answering, Backend, ConsoleAccess, LoginRefusal, Visitor};

use super::client_error::{not_remote, problem};
use super::remote::{Remote, RemoteLogin};
use super::{events, listings, nodes, walks, words};

/// Bytes of a body.
const BODY_BYTES_MAX: usize = 8 << 20;
/// How long a request may take. Deletions of subtrees take their time.
const TIME_MAX: Duration = Duration::from_secs(30);

/// The backend.
pub(super) struct RemoteBackend {
    remote: Arc<Remote>,
}

impl RemoteBackend {
    pub(super) fn new(remote: Arc<Remote>) -> RemoteBackend {
        RemoteBackend { remote }
    }
}

impl Backend for RemoteBackend {
    type Identity = RemoteLogin;

    fn visitor(&self, parts: &Parts) -> Result<Visitor, String> {
        console_visitor(parts)
    }

    fn log_in(&self, _: &Visitor, user: &str, password: &str) -> Result<RemoteLogin, LoginRefusal> {
        // Servers take every user and password of this scheme; ACLs decide what they are good for.
        self.remote.log_in(user, password).map_err(|_| LoginRefusal::Unavailable)
    }

    fn access(&self) -> ConsoleAccess {
        self.remote.access
    }

    fn describe(&self) -> Value {
        json!({
            "product": "remote",
            "version": env!("CARGO_PKG_VERSION"),
            "servers": self.remote.name,
            "features": ["tree", "scan", "sessions", "watches", "ensemble", "stats"],
        })
    }

    fn answer(&self, request: Request, identity: Option<RemoteLogin>) -> Answering {
        let remote = self.remote.clone();
        Box::pin(async move {
            match answer(remote, request, identity).await {
                Ok(response) => response,
                Err(problem) => problem.response(),
            }
        })
    }
}

/// A request and the client that answers it.
pub(super) struct RemoteCall {
    pub(super) remote: Arc<Remote>,
    pub(super) login: RemoteLogin,
    pub(super) auth: CallerAuth,
    pub(super) headers: HeaderMap,
    pub(super) arguments: Arguments,
    /// The part of the URL behind the route, as it was sent.
    pub(super) rest: String,
    pub(super) body: Vec<u8>,
}

impl RemoteCall {
    pub(super) fn client(&self) -> &Client {
        &self.login.client
    }

    /// The answer for a failed call of the client.
    pub(super) fn problem(&self, error: &Error) -> Problem {
        problem(error, self.auth)
    }
}

async fn answer(
    remote: Arc<Remote>,
    request: Request,
    identity: Option<RemoteLogin>,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let arguments = Arguments::parse(parts.uri.query())?;
    let path = parts.uri.path().strip_prefix("/v1/").unwrap_or_default();
    let (name, rest) =
        path.split_once('/').map_or((path, String::new()), |(name, rest)| (name, format!("/{rest}")));
    let name = name.to_owned();
    let auth = if identity.is_some() { CallerAuth::Shown } else { CallerAuth::Missing };
    let login = identity.unwrap_or_else(|| remote.visitor.clone());
    let body = tokio::time::timeout(TIME_MAX, to_bytes(body, BODY_BYTES_MAX)).await;
    let body = body.map_err(|_| {
        let detail = format!("the body did not come within {} seconds", TIME_MAX.as_secs());
        Problem::new(StatusCode::REQUEST_TIMEOUT, "BADARGUMENTS", detail)
    })?;
    let body = body.map_err(|_| {
        Problem::too_large(format!("the body is longer than {BODY_BYTES_MAX} bytes, or did not come whole"))
    })?;
    let headers = parts.headers;
    let call = RemoteCall { remote, login, auth, headers, arguments, rest, body: body.to_vec() };
    let is_tree_delete = parts.method == Method::DELETE && name == "tree";
    match is_tree_delete {
        true => nodes::delete_node(call).await,
        false => match tokio::time::timeout(TIME_MAX, run(&parts.method, &name, call)).await {
            Ok(answered) => answered,
            Err(_) => Err(Problem::unknown_outcome("OPERATIONTIMEOUT", "the servers did not answer in time")),
        },
    }
}

async fn run(method: &Method, name: &str, call: RemoteCall) -> Result<Response, Problem> {
    match (method.as_str(), name) {
        ("GET" | "HEAD", "tree") if call.arguments.value("watch").is_some() => events::stream(call).await,
        ("GET" | "HEAD", "tree") => nodes::read_node(call).await,
        ("PUT", "tree") => nodes::put_node(call).await,
        ("POST", "tree") => nodes::post_node(call).await,
        ("GET", "listing") => listings::read_listing(call).await,
        ("GET", "scan") => walks::scan_tree(call).await,
        ("GET", "acl") => nodes::read_acl(call).await,
        ("PUT", "acl") => nodes::put_acl(call).await,
        ("POST", "multi") => nodes::run_multi(call).await,
        ("GET", "whoami") => nodes::show_caller(call).await,
        ("GET", "stats") => words::show_stats(call).await,
        ("GET", "ensemble") => words::show_ensemble(call).await,
        ("GET", "sessions") if call.rest.is_empty() => words::list_sessions(call).await,
        ("GET", "sessions") => words::show_session(call).await,
        ("GET", "watches") => words::list_watches(call).await,
        ("GET", "digest") => words::show_digest(call).await,
        _ => Err(not_remote()),
    }
}

/// An answer in JSON.
pub(super) fn json_answer(status: StatusCode, value: &Value) -> Response {
    with_type(status, "application/json", format!("{value}\n").into_bytes())
}

pub(super) fn with_type(status: StatusCode, content_type: &'static str, bytes: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
