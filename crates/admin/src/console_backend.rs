//! The console of this server: the pages ask the HTTP API `/v1`, with the identity of their login.
//!
//! A browser on loopback does not get the identity `ip:127.0.0.1`: every user of a tunnel or a
//! proxy would inherit it.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use zebu_console::{Answering, Backend, ConsoleAccess, LoginRefusal, Visitor};
use zebu_server::config::admin::{ApiAccess, ConsoleSetting};
use zebu_server::four_letter::version;
use zebu_server::views::CallerIdentity;
use zebu_tree::Credentials;

use crate::admin_state::AdminState;
use crate::authorization::Caller;
use crate::request_origin::check_origin;
use crate::v1::{ApiDoor, ApiState, CallerIds, host_rule, serve_request};

/// The API behind the pages.
pub(crate) struct ServerBackend {
    pub(crate) api: Arc<ApiState>,
    pub(crate) state: Arc<AdminState>,
}

/// The identities of a browser before any login.
fn visitor_credentials(address: IpAddr) -> Credentials {
    match address.is_loopback() {
        true => Credentials::none(),
        false => Credentials::of_peer(address),
    }
}

impl Backend for ServerBackend {
    type Identity = Credentials;

    fn visitor(&self, parts: &Parts) -> Result<Visitor, String> {
        let caller = parts.extensions.get::<Caller>().ok_or("the connection is not known")?;
        check_origin(&parts.headers, &host_rule(&self.state, caller)).map_err(|error| error.to_string())?;
        Ok(Visitor { address: caller.address, is_secure: caller.is_secure })
    }

    fn log_in(&self, visitor: &Visitor, user: &str, password: &str) -> Result<Credentials, LoginRefusal> {
        let views = self.state.views.get().ok_or(LoginRefusal::Unavailable)?;
        let data = format!("{user}:{password}");
        let identity = CallerIdentity {
            address: visitor.address,
            certificate: None,
            auth: Some(("digest", Some(&data))),
        };
        let proven = views.caller_credentials(&identity).ok_or(LoginRefusal::NotProven)?;
        let mut credentials = visitor_credentials(visitor.address);
        let is_address = |scheme: Option<&str>| scheme == Some("ip");
        for id in proven.iter().filter(|id| !is_address(id.scheme.as_deref())) {
            credentials.add(id.clone());
        }
        Ok(credentials)
    }

    fn access(&self) -> ConsoleAccess {
        match self.state.config.console {
            ConsoleSetting::ReadWrite => ConsoleAccess::ReadWrite,
            ConsoleSetting::ReadOnly | ConsoleSetting::Off => ConsoleAccess::ReadOnly,
        }
    }

    fn describe(&self) -> Value {
        json!({
            "product": "zebu",
            "version": version::ZEBU_VERSION,
            "features": [
                "tree", "scan", "sessions", "watches", "top", "ensemble", "roles", "stats", "operate", "digests",
                "reconfig", "history",
            ],
        })
    }

    fn answer(&self, request: Request, identity: Option<Credentials>) -> Answering {
        let Some(caller) = request.extensions().get::<Caller>().cloned() else {
            return Box::pin(async { StatusCode::BAD_REQUEST.into_response() });
        };
        let access = match self.access() {
            ConsoleAccess::ReadOnly => ApiAccess::ReadOnly,
            ConsoleAccess::ReadWrite => ApiAccess::ReadWrite,
        };
        let ids = match identity {
            Some(credentials) => CallerIds::shown(credentials),
            None => CallerIds::missing(visitor_credentials(caller.address)),
        };
        let door = ApiDoor { access, ids: Some(ids) };
        Box::pin(serve_request(self.api.clone(), caller, door, request))
    }
}
