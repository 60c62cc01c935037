//! The token of a console that acts with an identity of its own: the printed address has it, the browser
//! keeps it as a cookie. Without it, every account of this machine would act with that identity.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;

use crate::protection::Protection;

const TOKEN_BYTES: usize = 24;
const REFUSAL: &str = "Open the address that the command printed: it has a token.\n";

/// What a browser must show.
#[derive(Clone, Debug)]
pub(super) struct Door {
    token: Arc<str>,
    cookie: Arc<str>,
}

impl Door {
    /// A door, if the command shows a certificate or a user to the servers.
    pub(super) fn of(protection: &Protection, address: SocketAddr) -> io::Result<Option<Door>> {
        let has_certificate = protection.tls.as_ref().is_some_and(|tls| tls.has_certificate());
        if protection.sasl.is_none() && !has_certificate {
            return Ok(None);
        }
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        // Browsers share cookies between the ports of a host, so the name has the port.
        let cookie = format!("zebu-console-door-{}", address.port());
        Ok(Some(Door { token: token.into(), cookie: cookie.into() }))
    }

    /// The part of the address behind the path.
    pub(super) fn query(&self) -> String {
        format!("?token={}", self.token)
    }

    /// Lets requests with the token pass.
    pub(super) fn protect(self, router: Router) -> Router {
        router.layer(from_fn_with_state(self, check))
    }

    fn is_token(&self, shown: &str) -> bool {
        zebu_security::secret::is_same_secret(shown, &self.token)
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| *name == *self.cookie && self.is_token(value))
    }

    fn has_token(&self, request: &Request) -> bool {
        let mut pairs = request.uri().query().unwrap_or_default().split('&');
        pairs.any(|pair| pair.strip_prefix("token=").is_some_and(|token| self.is_token(token)))
    }
}

async fn check(State(door): State<Door>, request: Request, next: Next) -> Response {
    if door.has_cookie(request.headers()) {
        return next.run(request).await;
    }
    let answer = Response::builder().header(header::CACHE_CONTROL, "no-store");
    let answer = match door.has_token(&request) {
        // The address without the token stays in the history of the browser.
        true => answer.status(StatusCode::SEE_OTHER).header(header::LOCATION, request.uri().path()).header(
            header::SET_COOKIE,
            format!("{}={}; HttpOnly; SameSite=Strict; Path=/console/", door.cookie, door.token),
        ),
        false => answer.status(StatusCode::UNAUTHORIZED).header(header::CONTENT_TYPE, "text/plain"),
    };
    let body = if door.has_token(&request) { Body::empty() } else { Body::from(REFUSAL) };
    answer.body(body).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use axum::routing::any;
    use tower_service::Service;

    use super::*;

    fn door() -> Door {
        Door { token: "secret".into(), cookie: "zebu-console-door-1".into() }
    }

    async fn ask(path: &str, cookie: &str) -> Response {
        let mut router = door().protect(Router::new().route("/console/{*rest}", any(|| async { "in" })));
        let request = Request::builder().uri(path).header("cookie", cookie).body(Body::empty()).unwrap();
        router.call(request).await.unwrap()
    }

    #[tokio::test]
    async fn only_the_token_opens() {
        for (path, cookie) in [
            ("/console/x", ""),
            ("/console/x?token=other", ""),
            ("/console/x", "zebu-console-door-1=other"),
            ("/console/x", "zebu-console-door-2=secret"),
        ] {
            assert_eq!(ask(path, cookie).await.status(), StatusCode::UNAUTHORIZED, "{path} {cookie}");
        }
        let opened = ask("/console/x?token=secret", "").await;
        assert_eq!(
            (opened.status(), &opened.headers()["location"]),
            (StatusCode::SEE_OTHER, &"/console/x".parse().unwrap())
        );
        let cookie = opened.headers()["set-cookie"].to_str().unwrap();
        assert!(cookie.starts_with("zebu-console-door-1=secret; HttpOnly; SameSite=Strict"), "{cookie}");
        let inside = ask("/console/x", "other=1; zebu-console-door-1=secret").await;
        assert_eq!(inside.status(), StatusCode::OK);
    }
}
