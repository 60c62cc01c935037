//! The table of routes, and the checks before each of them: origin, method, state of the server, identity.

use std::sync::{Arc, Mutex};

use axum::extract::{Extension, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use tracing::debug;
use zebu_proto::ErrorCode;
use zebu_server::config::admin::ApiAccess;
use zebu_server::views::ServerViews;

use super::arguments::Arguments;
use super::call::{ApiCall, ApiState};
use super::identity::{CallerIds, identify};
use super::problem::Problem;
use super::{acl_routes, digests_route, feed_route, history_route, listing_route, multi_route};
use super::{operate_routes, read_routes, reconfig_routes, scan_route, server_routes};
use super::{session_routes, stats_route, write_routes};
use crate::admin_state::AdminState;
use crate::authorization::Caller;
use crate::request_origin::{HostRule, check_origin};

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    ReadTree,
    PutNode,
    PostNode,
    DeleteNode,
    ReadListing,
    ScanTree,
    ReadAcl,
    PutAcl,
    Multi,
    ListSessions,
    ShowSession,
    CloseSession,
    ListWatches,
    StreamFeed,
    ShowTop,
    ShowStats,
    ShowRoles,
    ShowEnsemble,
    ShowDigest,
    CompareDigests,
    ReadHistory,
    PreviewReconfig,
    PostReconfig,
    TakeSnapshot,
    HandOver,
    Drain,
    ShowFeatures,
    ShowCaller,
    ShowOpenapi,
}

/// Whether a route needs a server that serves clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServingNeed {
    Serving,
    Any,
}

/// Whether a route changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RouteEffect {
    Read,
    Write,
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    /// The path below `/v1`; `{path}` is the rest of the URL with its slashes, `{id}` one part.
    pub(crate) template: &'static str,
    endpoint: Endpoint,
    need: ServingNeed,
    effect: RouteEffect,
}

const fn read(template: &'static str, endpoint: Endpoint, need: ServingNeed) -> Route {
    Route { method: "GET", template, endpoint, need, effect: RouteEffect::Read }
}

const fn write(method: &'static str, template: &'static str, endpoint: Endpoint) -> Route {
    Route { method, template, endpoint, need: ServingNeed::Serving, effect: RouteEffect::Write }
}

use ServingNeed::{Any, Serving};

/// All routes. `openapi.json` describes the same ones; a test compares them.
pub(crate) const ROUTES: &[Route] = &[
    read("/tree/{path}", Endpoint::ReadTree, Serving),
    write("PUT", "/tree/{path}", Endpoint::PutNode),
    write("POST", "/tree/{path}", Endpoint::PostNode),
    write("DELETE", "/tree/{path}", Endpoint::DeleteNode),
    read("/listing/{path}", Endpoint::ReadListing, Serving),
    read("/scan/{path}", Endpoint::ScanTree, Serving),
    read("/acl/{path}", Endpoint::ReadAcl, Serving),
    write("PUT", "/acl/{path}", Endpoint::PutAcl),
    write("POST", "/multi", Endpoint::Multi),
    read("/sessions", Endpoint::ListSessions, Serving),
    read("/sessions/{id}", Endpoint::ShowSession, Serving),
    write("DELETE", "/sessions/{id}", Endpoint::CloseSession),
    read("/watches", Endpoint::ListWatches, Serving),
    read("/feed", Endpoint::StreamFeed, Serving),
    read("/top", Endpoint::ShowTop, Serving),
    read("/stats", Endpoint::ShowStats, Any),
    read("/roles", Endpoint::ShowRoles, Any),
    read("/ensemble", Endpoint::ShowEnsemble, Any),
    read("/digest", Endpoint::ShowDigest, Serving),
    read("/digests", Endpoint::CompareDigests, Serving),
    read("/history/{path}", Endpoint::ReadHistory, Serving),
    read("/reconfig", Endpoint::PreviewReconfig, Serving),
    write("POST", "/reconfig", Endpoint::PostReconfig),
    write("POST", "/snapshot", Endpoint::TakeSnapshot),
    write("POST", "/hand-over", Endpoint::HandOver),
    Route { need: Any, ..write("POST", "/drain", Endpoint::Drain) },
    read("/features", Endpoint::ShowFeatures, Any),
    read("/whoami", Endpoint::ShowCaller, Any),
    read("/openapi.json", Endpoint::ShowOpenapi, Any),
];

impl Route {
    /// The rest of the URL if the template fits.
    fn rest_of<'a>(&self, path: &'a str) -> Option<&'a str> {
        if let Some(prefix) = self.template.strip_suffix("/{path}") {
            return path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        }
        if let Some(prefix) = self.template.strip_suffix("{id}") {
            return path.strip_prefix(prefix).filter(|rest| !rest.is_empty() && !rest.contains('/'));
        }
        (path == self.template).then_some("")
    }
}

/// Finds the route of a method and of a path below `/v1`, with the rest of the path.
fn find_route<'a>(method: &Method, path: &'a str) -> Result<(&'static Route, &'a str), Problem> {
    let fitting: Vec<(&Route, &str)> =
        ROUTES.iter().filter_map(|route| Some((route, route.rest_of(path)?))).collect();
    let name = if *method == Method::HEAD { "GET" } else { method.as_str() };
    match fitting.iter().find(|(route, _)| route.method == name) {
        Some(found) => Ok(*found),
        None if fitting.is_empty() => {
            let detail = "there is no such route; /v1/openapi.json lists all of them";
            Err(Problem::new(StatusCode::NOT_FOUND, "UNIMPLEMENTED", detail))
        }
        None => {
            let has = |method| fitting.iter().any(|(route, _)| route.method == method);
            Err(Problem::method_not_allowed(match (has("GET"), has("PUT"), has("POST"), has("DELETE")) {
                (true, true, true, true) => "GET, HEAD, PUT, POST, DELETE",
                (true, true, _, _) => "GET, HEAD, PUT",
                (true, _, _, true) => "GET, HEAD, DELETE",
                (true, _, true, _) => "GET, HEAD, POST",
                (true, _, _, _) => "GET, HEAD",
                (false, _, _, _) => "POST",
            }))
        }
    }
}

/// A way to the API.
pub(crate) struct ApiDoor {
    pub(crate) access: ApiAccess,
    /// The identities that a login proved; `None` reads them from the request.
    pub(crate) ids: Option<CallerIds>,
}

/// Answers a request below `/v1` of the port.
pub(crate) async fn serve_api(
    State(state): State<Arc<ApiState>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let door = ApiDoor { access: state.admin.config.api, ids: None };
    serve_request(state, caller, door, request).await
}

/// Answers a request below `/v1`, however it came here.
pub(crate) async fn serve_request(
    state: Arc<ApiState>,
    caller: Caller,
    door: ApiDoor,
    request: Request,
) -> Response {
    let (method, address) = (request.method().clone(), caller.address);
    match answer(state, caller, door, request).await {
        Ok(response) => response,
        Err(problem) => {
            debug!(peer = %address, %method, status = problem.status.as_u16(), "API request refused");
            with_close(problem.response(), &method)
        }
    }
}

/// Closes the connection after a refused write, because its body may not have been read.
fn with_close(mut response: Response, method: &Method) -> Response {
    if *method != Method::GET && *method != Method::HEAD {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn answer(
    state: Arc<ApiState>,
    caller: Caller,
    door: ApiDoor,
    request: Request,
) -> Result<Response, Problem> {
    let access = door.access;
    if access == ApiAccess::Off {
        let detail = "the HTTP API is off; admin.api.enabled=true turns it on";
        return Err(Problem::new(StatusCode::NOT_FOUND, "UNIMPLEMENTED", detail));
    }
    check_origin(request.headers(), &host_rule(&state.admin, &caller))
        .map_err(|error| Problem::new(StatusCode::FORBIDDEN, "NOAUTH", error.to_string()))?;
    let path = request.uri().path().strip_prefix("/v1").unwrap_or_default();
    let (route, rest) = find_route(request.method(), path)?;
    let rest = rest.to_owned();
    if route.effect == RouteEffect::Write && access == ApiAccess::ReadOnly {
        let detail = "the HTTP API only reads: admin.api.readOnly=true";
        return Err(Problem::new(StatusCode::FORBIDDEN, "NOTREADONLY", detail));
    }
    let starting = || Problem::unavailable("NOTSERVING", "the server is starting");
    let views: ServerViews = state.admin.views.get().ok_or_else(starting)?.clone();
    if route.need == ServingNeed::Serving && views.serving_mode().is_none() {
        return Err(Problem::not_serving());
    }
    let arguments = Arguments::parse(request.uri().query())?;
    let (parts, body) = request.into_parts();
    let ids = match door.ids {
        Some(ids) => ids,
        None => identify(&views, &caller, &parts.headers)?,
    };
    if route.need == ServingNeed::Serving && !views.admits(&ids.credentials) {
        return Err(Problem::of_code(ErrorCode::SessionClosedRequireSaslAuth, None, ids.auth));
    }
    let body = Mutex::new(body);
    let call = ApiCall { state, access, views, caller, ids, headers: parts.headers, arguments, rest, body };
    run(route.endpoint, call).await
}

/// Which names the Host header may hold. A page of another site could reach a plain port by a name that its
/// own DNS server points here; behind TLS the certificate would not fit.
pub(crate) fn host_rule(state: &AdminState, caller: &Caller) -> HostRule {
    match caller.is_secure {
        true => state.host_rule.clone(),
        false => HostRule::Local(state.config.allowed_hosts.clone()),
    }
}

async fn run(endpoint: Endpoint, call: ApiCall) -> Result<Response, Problem> {
    match endpoint {
        Endpoint::ReadTree => read_routes::read_tree(call).await,
        Endpoint::PutNode => write_routes::put_node(call).await,
        Endpoint::PostNode => write_routes::post_node(call).await,
        Endpoint::DeleteNode => write_routes::delete_node(call).await,
        Endpoint::ReadListing => listing_route::read_listing(call).await,
        Endpoint::ScanTree => scan_route::scan_tree(call).await,
        Endpoint::ReadAcl => acl_routes::read_acl(call).await,
        Endpoint::PutAcl => acl_routes::put_acl(call).await,
        Endpoint::Multi => multi_route::run_multi(call).await,
        Endpoint::ListSessions => session_routes::list_sessions(call).await,
        Endpoint::ShowSession => session_routes::show_session(call).await,
        Endpoint::CloseSession => session_routes::close_session(call).await,
        Endpoint::ListWatches => session_routes::list_watches(call).await,
        Endpoint::StreamFeed => feed_route::stream_feed(call).await,
        Endpoint::ShowTop => server_routes::show_top(call).await,
        Endpoint::ShowStats => stats_route::show_stats(call).await,
        Endpoint::ShowRoles => stats_route::show_roles(call).await,
        Endpoint::ShowEnsemble => server_routes::show_ensemble(call).await,
        Endpoint::ShowDigest => server_routes::show_digest(call).await,
        Endpoint::CompareDigests => digests_route::compare_digests(call).await,
        Endpoint::ReadHistory => history_route::read_history(call).await,
        Endpoint::PreviewReconfig => reconfig_routes::preview_reconfig(call).await,
        Endpoint::PostReconfig => reconfig_routes::post_reconfig(call).await,
        Endpoint::TakeSnapshot => operate_routes::take_snapshot(call).await,
        Endpoint::HandOver => operate_routes::hand_over(call).await,
        Endpoint::Drain => operate_routes::drain(call).await,
        Endpoint::ShowFeatures => server_routes::show_features(call).await,
        Endpoint::ShowCaller => server_routes::show_caller(call).await,
        Endpoint::ShowOpenapi => server_routes::show_openapi(call).await,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn templates_fit_whole_parts() {
        let rest = |method, path| find_route(&method, path).map(|(route, rest)| (route.endpoint, rest)).ok();
        assert_eq!(rest(Method::GET, "/tree"), Some((Endpoint::ReadTree, "")));
        assert_eq!(rest(Method::HEAD, "/tree/a/b"), Some((Endpoint::ReadTree, "/a/b")));
        assert_eq!(rest(Method::GET, "/trees"), None);
        assert_eq!(rest(Method::DELETE, "/sessions/0x1"), Some((Endpoint::CloseSession, "0x1")));
        assert_eq!(rest(Method::GET, "/sessions/0x1/x"), None);
        assert_eq!(find_route(&Method::PATCH, "/tree/a").unwrap_err().status, 405);
        assert_eq!(find_route(&Method::GET, "/multi").unwrap_err().status, 405);
        assert_eq!(find_route(&Method::GET, "/other").unwrap_err().status, 404);
    }

    /// The document names exactly the routes of the table, and every reference in it resolves.
    #[test]
    fn the_document_and_the_routes_agree() {
        let document: Value = serde_json::from_str(server_routes::OPENAPI).unwrap();
        assert!(document["openapi"].as_str().unwrap().starts_with("3."));
        let methods = ["get", "put", "post", "delete", "patch", "head", "options"];
        let mut described = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in
                item.as_object().unwrap().iter().filter(|(key, _)| methods.contains(&key.as_str()))
            {
                described.insert((method.to_uppercase(), path.clone()));
                assert!(operation["operationId"].is_string(), "{method} {path}");
                assert!(
                    operation["responses"].as_object().is_some_and(|map| !map.is_empty()),
                    "{method} {path}"
                );
            }
        }
        let routed: BTreeSet<(String, String)> =
            ROUTES.iter().map(|route| (route.method.to_owned(), format!("/v1{}", route.template))).collect();
        assert_eq!(described, routed);
        check_references(&document, &document);
    }

    fn check_references(document: &Value, value: &Value) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                map.values().for_each(|value| check_references(document, value));
            }
            Value::Array(list) => list.iter().for_each(|value| check_references(document, value)),
            _ => {}
        }
    }
}
