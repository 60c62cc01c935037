//! The routes with a backend that remembers what it was asked.

use std::net::IpAddr;
use std::sync::Mutex;

use tower_service::Service;

use super::*;
use crate::backend::Answering;

/// Answers with method, address and identity.
struct FakeBackend(ConsoleAccess, Arc<Mutex<Vec<String>>>);

impl Backend for FakeBackend {
    type Identity = String;

    fn visitor(&self, parts: &Parts) -> Result<Visitor, String> {
        if parts.headers.get(header::HOST).is_some_and(|host| host == "evil.example") {
            return Err("another host".to_owned());
        }
        Ok(Visitor { address: IpAddr::from([127, 0, 0, 1]), is_secure: false })
    }

    fn log_in(&self, _visitor: &Visitor, user: &str, password: &str) -> Result<String, LoginRefusal> {
        if password == "secret" { Ok(format!("digest:{user}")) } else { Err(LoginRefusal::NotProven) }
    }

    fn access(&self) -> ConsoleAccess {
        self.0
    }

    fn describe(&self) -> Value {
        json!({ "features": [] })
    }

    fn answer(&self, request: Request, identity: Option<String>) -> Answering {
        let line = format!("{} {} {:?}", request.method(), request.uri(), identity);
        self.1.lock().unwrap().push(line);
        let shows = request.headers().contains_key(header::AUTHORIZATION);
        Box::pin(async move {
            let mut response = json_answer(&json!({ "authorization": shows }));
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
            response
        })
    }
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

struct Console {
    router: Router,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Console {
    fn new(access: ConsoleAccess) -> Console {
        let asked = Arc::new(Mutex::new(Vec::new()));
        Console { router: console_router(FakeBackend(access, asked.clone())).unwrap(), asked }
    }

    async fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost:8080");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = Service::<Request>::call(&mut self.router, request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 1 << 20).await.unwrap().to_vec();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    async fn csrf(&mut self, cookie: &str) -> String {
        let answer = self.ask("GET", "/console/api/self", &[("cookie", cookie)], "").await;
        answer.json()["csrf"].as_str().unwrap().to_owned()
    }

    /// Logs in; returns the cookie.
    async fn log_in(&mut self) -> String {
        let csrf = self.csrf("").await;
        let body = r#"{"user":"bob","password":"secret"}"#;
        let answer = self.ask("POST", "/console/api/login", &[("x-zebu-csrf", &csrf)], body).await;
        assert_eq!(answer.status, 200);
        let cookie = answer.headers["set-cookie"].to_str().unwrap();
        assert!(
            cookie.contains("HttpOnly; SameSite=Strict") && cookie.contains("Path=/console/"),
            "{cookie}"
        );
        cookie.split(';').next().unwrap().to_owned()
    }
}

#[tokio::test]
async fn every_answer_has_the_security_headers() {
    let mut console = Console::new(ConsoleAccess::ReadWrite);
    let paths =
        ["/console/", "/console/tree?path=/a", "/console/api/self", "/console/a/x/y", "/console/api/no"];
    for path in paths {
        let answer = console.ask("GET", path, &[], "").await;
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}");
        assert_eq!(answer.headers["x-frame-options"], "DENY", "{path}");
        assert_eq!(answer.headers["referrer-policy"], "no-referrer", "{path}");
    }
    let answer = console.ask("GET", "/console", &[], "").await;
    assert_eq!((answer.status, answer.headers["location"].to_str().unwrap()), (308, "/console/"));
}

#[tokio::test]
async fn files_are_kept_by_the_browser_and_the_page_is_not() {
    let mut console = Console::new(ConsoleAccess::ReadWrite);
    let page = console.ask("GET", "/console/sessions", &[], "").await;
    let text = String::from_utf8(page.body).unwrap();
    assert_eq!(page.headers["cache-control"], "no-cache");
    let name = format!("a/{VERSION}/js/app.js");
    assert!(text.contains(&name), "{text}");
    let path = format!("/console/{name}");
    let plain = console.ask("GET", &path, &[], "").await;
    let packed = console.ask("GET", &path, &[("accept-encoding", "br, gzip;q=0.9")], "").await;
    assert!(plain.headers["cache-control"].to_str().unwrap().contains("immutable"));
    assert_eq!(packed.headers["content-encoding"], "gzip");
    assert!(packed.body.len() < plain.body.len());
    assert_eq!(console.ask("GET", "/console/a/000000000000/js/app.js", &[], "").await.status, 404);
    assert_eq!(console.ask("POST", &path, &[], "").await.status, 405);
}

#[tokio::test]
async fn a_write_needs_the_token_of_its_login() {
    let mut console = Console::new(ConsoleAccess::ReadWrite);
    let cookie = console.log_in().await;
    let (csrf, visitors) = (console.csrf(&cookie).await, console.csrf("").await);
    assert_ne!(csrf, visitors);
    let path = "/console/api/v1/tree/a";
    let own: &[(&str, &str)] =
        &[("cookie", &cookie), ("x-zebu-csrf", &csrf), ("sec-fetch-site", "same-origin")];
    assert_eq!(console.ask("PUT", path, own, "x").await.status, 200);
    let refused: [&[(&str, &str)]; 4] = [
        &[("cookie", &cookie)],
        &[("cookie", &cookie), ("x-zebu-csrf", &visitors)],
        &[("x-zebu-csrf", &csrf)],
        &[("cookie", &cookie), ("x-zebu-csrf", &csrf), ("sec-fetch-site", "cross-site")],
    ];
    for headers in refused {
        let answer = console.ask("PUT", path, headers, "x").await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (403, Some("CSRF")), "{headers:?}");
    }
    assert_eq!(*console.asked.lock().unwrap(), ["PUT /v1/tree/a Some(\"digest:bob\")"]);
}

#[tokio::test]
async fn the_login_decides_who_asks() {
    let mut console = Console::new(ConsoleAccess::ReadWrite);
    let cookie = console.log_in().await;
    let headers: &[(&str, &str)] = &[("cookie", &cookie), ("authorization", "Basic c3VwZXI6c2VjcmV0")];
    let answer = console.ask("GET", "/console/api/v1/tree/a%20b?stat", headers, "").await;
    assert_eq!(answer.json()["authorization"], false);
    assert!(!answer.headers.contains_key("www-authenticate"));
    assert_eq!(console.asked.lock().unwrap()[0], "GET /v1/tree/a%20b?stat Some(\"digest:bob\")");
    let csrf = console.csrf(&cookie).await;
    let headers: &[(&str, &str)] = &[("cookie", &cookie), ("x-zebu-csrf", &csrf)];
    assert_eq!(console.ask("POST", "/console/api/logout", headers, "").await.status, 200);
    let answer = console.ask("GET", "/console/api/self", &[("cookie", &cookie)], "").await;
    assert_eq!(answer.json()["user"], Value::Null);
}

#[tokio::test]
async fn a_console_that_reads_refuses_writes() {
    let mut console = Console::new(ConsoleAccess::ReadOnly);
    let csrf = console.csrf("").await;
    let answer = console.ask("DELETE", "/console/api/v1/tree/a", &[("x-zebu-csrf", &csrf)], "").await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (403, Some("NOTREADONLY")));
    assert!(console.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn bad_logins_are_refused_and_counted() {
    let mut console = Console::new(ConsoleAccess::ReadWrite);
    let csrf = console.csrf("").await;
    let mut statuses = Vec::new();
    for body in ["", "{}", r#"{"user":"a:b","password":"secret"}"#, r#"{"user":"a","password":"wrong"}"#] {
        statuses
            .push(console.ask("POST", "/console/api/login", &[("x-zebu-csrf", &csrf)], body).await.status);
    }
    assert_eq!(statuses, [400, 400, 400, 401]);
    let body = r#"{"user":"a","password":"wrong"}"#;
    for _ in 0..10 {
        statuses
            .push(console.ask("POST", "/console/api/login", &[("x-zebu-csrf", &csrf)], body).await.status);
    }
    assert_eq!(statuses.last(), Some(&429));
    let long = format!(r#"{{"user":"a","password":"{}"}}"#, "x".repeat(LOGIN_BYTES_MAX));
    let mut other = Console::new(ConsoleAccess::ReadWrite);
    let csrf = other.csrf("").await;
    assert_eq!(other.ask("POST", "/console/api/login", &[("x-zebu-csrf", &csrf)], &long).await.status, 400);
}

#[tokio::test]
async fn other_hosts_are_refused() {
    let console = Console::new(ConsoleAccess::ReadWrite);
    let request = Request::builder().uri("/console/").header("host", "evil.example").body(Body::empty());
    let mut router = console.router;
    let response = Service::<Request>::call(&mut router, request.unwrap()).await.unwrap();
    assert_eq!(response.status(), 421);
}

/// Its connection would keep its place on the port for ever, and the place of a probe with it.
#[tokio::test(start_paused = true)]
async fn a_login_that_does_not_come_ends() {
    let mut console = Console::new(ConsoleAccess::ReadWrite);
    let csrf = console.csrf("").await;
    let body = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let request =
        Request::builder().method("POST").uri("/console/api/login").header("host", "localhost:8080");
    let request = request.header("x-zebu-csrf", &csrf).body(Body::from_stream(body)).unwrap();
    let answered = timeout(LOGIN_TIME_MAX * 2, Service::<Request>::call(&mut console.router, request));
    assert_eq!(answered.await.expect("it ends").unwrap().status(), StatusCode::REQUEST_TIMEOUT);
}
