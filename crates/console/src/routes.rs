//! The routes below `/console/`: the page, its files, logins, and the way to the backend.
//!
//! A request that changes something must come from a page of this origin and show a token that only such a
//! page can read. The backend checks Host and Origin of all requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;
use axum::routing::any;
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::debug;

use crate::assets::{Asset, VERSION, page};
use crate::backend::{Backend, ConsoleAccess, LoginRefusal, Visitor};
use crate::logins::{AGE_MAX, Login, Logins, is_same_token};
use crate::security_headers::protect;

/// Bytes of a login request.
const LOGIN_BYTES_MAX: usize = 4096;
/// How long a login request may take to come.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(10);
/// The header with the token of a request that changes something.
const CSRF_HEADER: &str = "x-zebu-csrf";

/// What all requests share.
struct ConsoleState<B: Backend> {
    backend: B,
    logins: Logins<B::Identity>,
}

/// The routes of the console, from `/console` on.
///
/// # Errors
/// The system gives no random bytes.
pub fn console_router<B: Backend>(backend: B) -> std::io::Result<Router> {
    let state = Arc::new(ConsoleState { backend, logins: Logins::new()? });
    Ok(Router::new()
        .route("/console", any(serve::<B>))
        .route("/console/", any(serve::<B>))
        .route("/console/{*rest}", any(serve::<B>))
        .with_state(state))
}

async fn serve<B: Backend>(State(state): State<Arc<ConsoleState<B>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let mut response = match state.backend.visitor(&parts) {
        Ok(visitor) => state.route(&visitor, parts, body).await,
        Err(why) => {
            debug!(why, "request of the console refused");
            problem(StatusCode::MISDIRECTED_REQUEST, "ORIGIN", &why)
        }
    };
    protect(response.headers_mut());
    response
}

impl<B: Backend> ConsoleState<B> {
    async fn route(&self, visitor: &Visitor, parts: Parts, body: Body) -> Response {
        let path = parts.uri.path().to_owned();
        let Some(rest) = path.strip_prefix("/console/") else { return redirect() };
        if let Some(api) = rest.strip_prefix("api/") {
            return self.answer_api(visitor, api, parts, body).await;
        }
        if parts.method != Method::GET && parts.method != Method::HEAD {
            return problem(StatusCode::METHOD_NOT_ALLOWED, "METHOD", "this address answers GET");
        }
        if let Some(asset) = rest.strip_prefix("a/") {
            // A page of another build asks for other files than these, and loads anew.
            let name = asset.split_once('/').filter(|(version, _)| *version == VERSION).map(|(_, name)| name);
            return match name.and_then(Asset::find) {
                Some(asset) => asset.response(&parts.headers),
                None => problem(StatusCode::NOT_FOUND, "NOASSET", "there is no such file in this build"),
            };
        }
        page()
    }

    async fn answer_api(&self, visitor: &Visitor, api: &str, mut parts: Parts, body: Body) -> Response {
        let token = cookie(&parts.headers, &cookie_name(&parts.headers));
        let login = token.as_ref().and_then(|token| self.logins.find(token, Instant::now()));
        let is_read = parts.method == Method::GET || parts.method == Method::HEAD;
        if !is_read && !self.shows_token(&parts.headers, login.as_ref()) {
            let why = "the request does not show the token of a page of the console; load the page anew";
            return problem(StatusCode::FORBIDDEN, "CSRF", why);
        }
        match (api, &parts.method) {
            ("self", &Method::GET) => self.describe(login.as_ref()),
            ("login", &Method::POST) => self.log_in(visitor, &parts, body).await,
            ("logout", &Method::POST) => {
                token.iter().for_each(|token| self.logins.end(token));
                with_cookie(json_answer(&json!({})), &parts.headers, visitor, "", 0)
            }
            _ if api.starts_with("v1/") => {
                if !is_read && self.backend.access() == ConsoleAccess::ReadOnly {
                    let why = "the console only reads: admin.console.readOnly=true";
                    return problem(StatusCode::FORBIDDEN, "NOTREADONLY", why);
                }
                let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
                let Ok(uri) = format!("/{api}{query}").parse::<Uri>() else {
                    return problem(StatusCode::BAD_REQUEST, "BADARGUMENTS", "the address cannot be read");
                };
                parts.uri = uri;
                // The login decides who asks; a password that the browser remembers for this port does not.
                parts.headers.remove(header::AUTHORIZATION);
                parts.headers.remove(header::COOKIE);
                let identity = login.map(|login| login.identity);
                let mut response = self.backend.answer(Request::from_parts(parts, body), identity).await;
                // Otherwise the browser asks for a password of its own.
                response.headers_mut().remove(header::WWW_AUTHENTICATE);
                response
            }
            _ => problem(StatusCode::NOT_FOUND, "UNIMPLEMENTED", "there is no such route"),
        }
    }

    fn shows_token(&self, headers: &HeaderMap, login: Option<&Login<B::Identity>>) -> bool {
        let expected = login.map_or(self.logins.visitor_csrf.as_str(), |login| login.csrf.as_str());
        let shown = headers.get(CSRF_HEADER).and_then(|value| value.to_str().ok());
        let site = headers.get("sec-fetch-site").map(|value| value.to_str().unwrap_or("?"));
        let is_own = site.is_none_or(|site| site == "same-origin");
        is_own && shown.is_some_and(|shown| is_same_token(shown, expected))
    }

    fn describe(&self, login: Option<&Login<B::Identity>>) -> Response {
        let csrf = login.map_or(&self.logins.visitor_csrf, |login| &login.csrf);
        json_answer(&json!({
            "build": VERSION,
            "user": login.map(|login| login.user.as_str()),
            "csrf": csrf,
            "mayWrite": self.backend.access() == ConsoleAccess::ReadWrite,
            "system": self.backend.describe(),
        }))
    }

    async fn log_in(&self, visitor: &Visitor, parts: &Parts, body: Body) -> Response {
        if !self.logins.may_try(visitor.address, Instant::now()) {
            let why = "too many tries from this address; wait a minute";
            return problem(StatusCode::TOO_MANY_REQUESTS, "THROTTLEDOP", why);
        }
        let value: Option<Value> = match timeout(LOGIN_TIME_MAX, to_bytes(body, LOGIN_BYTES_MAX)).await {
            Ok(Ok(bytes)) => serde_json::from_slice(&bytes).ok(),
            Ok(Err(_)) => None,
            Err(_) => {
                let why = format!("the login did not come within {} seconds", LOGIN_TIME_MAX.as_secs());
                return problem(StatusCode::REQUEST_TIMEOUT, "BADARGUMENTS", &why);
            }
        };
        let text = |name: &str| value.as_ref().and_then(|value| value[name].as_str());
        let (Some(user), Some(password)) = (text("user").filter(|user| is_user(user)), text("password"))
        else {
            let why = "a login has a user without colons, and a password";
            return problem(StatusCode::BAD_REQUEST, "BADARGUMENTS", why);
        };
        match self.backend.log_in(visitor, user, password) {
            Ok(identity) => match self.logins.begin(identity, user, Instant::now()) {
                Ok(token) => {
                    let seconds = AGE_MAX.as_secs();
                    with_cookie(json_answer(&json!({})), &parts.headers, visitor, &token, seconds)
                }
                Err(error) => problem(StatusCode::SERVICE_UNAVAILABLE, "SYSTEMERROR", &error.to_string()),
            },
            Err(LoginRefusal::NotProven) => {
                problem(StatusCode::UNAUTHORIZED, "AUTHFAILED", "user and password prove no identity")
            }
            Err(LoginRefusal::Unavailable) => {
                problem(StatusCode::SERVICE_UNAVAILABLE, "NOTSERVING", "the server is starting")
            }
        }
    }
}

/// A colon would end the user's name for the scheme digest.
fn is_user(user: &str) -> bool {
    !user.is_empty() && !user.contains(':')
}

/// Browsers share cookies between the ports of a host, so the name has the port.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    match !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()) {
        true => format!("zebu-console-{port}"),
        false => "zebu-console".to_owned(),
    }
}

fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
}

fn with_cookie(
    mut response: Response,
    request: &HeaderMap,
    visitor: &Visitor,
    token: &str,
    seconds: u64,
) -> Response {
    let secure = if visitor.is_secure { "; Secure" } else { "" };
    let name = cookie_name(request);
    let text =
        format!("{name}={token}; Path=/console/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

fn redirect() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/console/"));
    response
}

fn json_answer(value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn problem(status: StatusCode, code: &str, detail: &str) -> Response {
    let mut response = json_answer(&json!({ "status": status.as_u16(), "code": code, "detail": detail }));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
