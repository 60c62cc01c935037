//! A listener for HTTP/1.1: accepts connections, plain or with TLS, within limits of number, time and bytes.
//!
//! A slow client costs nothing but its own connection. When the limit is reached, a new connection takes the
//! place of the oldest one that has no request in progress. A panic ends one connection only.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tower_service::Service;
use tracing::{debug, warn};
use zebu_security::x509_id::x509_id;
use zebu_server::tls::AdminTls;

use crate::admin_state::AttachedViews;
use crate::authorization::Caller;
use crate::forwarded::TrustedProxies;
use crate::timed_stream::TimedStream;

/// Connections of one port.
const CONNECTIONS_MAX: usize = 256;
/// Bytes of the request line and all headers.
const HEADER_BYTES_MAX: usize = 16 << 10;
/// Headers of a request.
const HEADERS_MAX: usize = 64;
/// From accept to the end of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take no byte of its answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after a failed accept, for example without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The first byte of a TLS connection.
const HANDSHAKE_RECORD: u8 = 0x16;
/// ZooKeeper's header behind TLS.
const STRICT_TRANSPORT: HeaderValue = HeaderValue::from_static("max-age=86400; includeSubDomains");

/// The protocols that a port takes.
#[derive(Clone, Debug)]
pub(crate) enum HttpProtection {
    Plain,
    PlainOrTls(AdminTls),
    Tls(AdminTls),
}

/// A bound port and the routes behind it.
pub(crate) struct HttpListener {
    pub(crate) listener: TcpListener,
    pub(crate) router: Router,
    pub(crate) protection: HttpProtection,
    /// The server whose metrics count plain connections beside TLS; `None` for the exporter.
    pub(crate) counted_by: Option<AttachedViews>,
    /// A connection without a request is closed after this time.
    pub(crate) idle_timeout: Duration,
    pub(crate) proxies: TrustedProxies,
}

/// A connection in the list of open ones.
struct OpenConnection {
    number: u64,
    task: AbortHandle,
    requests: Arc<AtomicUsize>,
}

/// All open connections, oldest first.
#[derive(Default)]
struct OpenConnections(Mutex<VecDeque<OpenConnection>>);

impl OpenConnections {
    /// Makes room for one connection. Returns whether there is any.
    fn make_room(&self) -> bool {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|connection| !connection.task.is_finished());
        if open.len() < CONNECTIONS_MAX {
            return true;
        }
        let idle = open.iter().position(|connection| connection.requests.load(Ordering::Acquire) == 0);
        match idle.and_then(|index| open.remove(index)) {
            Some(connection) => {
                debug!(connection = connection.number, "HTTP connection closed: a newer one takes its place");
                connection.task.abort();
                true
            }
            None => false,
        }
    }

    fn add(&self, connection: OpenConnection) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(connection);
    }
}

impl HttpListener {
    /// Accepts connections until the task is dropped.
    pub(crate) async fn serve(self) {
        let open = OpenConnections::default();
        let mut number = 0;
        loop {
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "an HTTP connection cannot be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if !open.make_room() {
                debug!(%peer, "HTTP connection refused: all connections have requests in progress");
                continue;
            }
            number += 1;
            let requests = Arc::new(AtomicUsize::new(0));
            let connection = HttpConnection {
                peer,
                router: self.router.clone(),
                idle_timeout: self.idle_timeout,
                proxies: self.proxies.clone(),
                requests: requests.clone(),
            };
            let (protection, counted_by) = (self.protection.clone(), self.counted_by.clone());
            let task = tokio::spawn(async move {
                if let Err(error) = connection.begin(stream, protection, counted_by).await {
                    debug!(%peer, %error, "HTTP connection ended");
                }
            });
            open.add(OpenConnection { number, task: task.abort_handle(), requests });
        }
    }
}

/// One connection before and during its requests.
struct HttpConnection {
    peer: SocketAddr,
    router: Router,
    idle_timeout: Duration,
    proxies: TrustedProxies,
    /// Requests in progress: 0 or 1.
    requests: Arc<AtomicUsize>,
}

impl HttpConnection {
    async fn begin(
        self,
        stream: TcpStream,
        protection: HttpProtection,
        counted_by: Option<AttachedViews>,
    ) -> io::Result<()> {
        let tls = match protection {
            HttpProtection::Plain => None,
            HttpProtection::Tls(tls) => Some(tls),
            HttpProtection::PlainOrTls(tls) => {
                let mut first = [0];
                let peeked = tokio::time::timeout(self.idle_timeout, stream.peek(&mut first)).await;
                let count = peeked.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
                let is_tls = count == 1 && first[0] == HANDSHAKE_RECORD;
                if count == 1
                    && !is_tls
                    && let Some(views) = counted_by.as_ref().and_then(|views| views.get())
                {
                    views.admin_counters().insecure_connections.increment();
                }
                is_tls.then_some(tls)
            }
        };
        let address = self.peer.ip().to_canonical();
        match tls {
            None => {
                let caller = Caller { address, certificate: None, is_secure: false };
                self.serve(stream, caller).await
            }
            Some(tls) => {
                let handshake = TlsAcceptor::from(tls.acceptor()).accept(stream);
                let accepted = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await;
                let stream = accepted.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
                let leaf = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                let certificate = leaf.and_then(|leaf| x509_id(leaf).ok());
                let caller = Caller { address, certificate, is_secure: true };
                self.serve(stream, caller).await
            }
        }
    }

    async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        caller: Caller,
    ) -> io::Result<()> {
        let HttpConnection { router, requests, idle_timeout, proxies, .. } = self;
        let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let progress = RequestProgress::begin(requests.clone());
            let mut router = router.clone();
            // A length beside the chunks is dropped before it is seen here. Bytes behind such a request could
            // be part of it for a proxy, so they are no next request.
            let is_last = request.headers().contains_key(header::TRANSFER_ENCODING);
            let reply = ReplyForm { is_secure: caller.is_secure, is_last };
            let mut request = request.map(Body::new);
            let address = proxies.client_address(caller.address, request.headers());
            request.extensions_mut().insert(Caller { address, ..caller.clone() });
            async move {
                let response: Result<Response, Infallible> = router.call(request).await;
                Ok::<_, Infallible>(
                    response?.map(|body| Body::new(TrackedBody { body, _progress: progress })),
                )
                .map(|response| finish(response, reply))
            }
        });
        let stream = TokioIo::new(TimedStream::new(stream, WRITE_TIMEOUT));
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(idle_timeout)
            .max_buf_size(HEADER_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(stream, service)
            .await
            .map_err(io::Error::other)
    }
}

/// The connection of an answer.
#[derive(Clone, Copy)]
struct ReplyForm {
    is_secure: bool,
    /// The connection is closed behind it.
    is_last: bool,
}

/// Adds the headers of every answer.
fn finish(mut response: Response, form: ReplyForm) -> Response {
    let headers = response.headers_mut();
    if form.is_last {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    headers.insert(header::SERVER, HeaderValue::from_static("Zebu"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if form.is_secure {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, STRICT_TRANSPORT);
    }
    response
}

/// Counts a request until its answer is sent.
struct RequestProgress(Arc<AtomicUsize>);

impl RequestProgress {
    fn begin(requests: Arc<AtomicUsize>) -> RequestProgress {
        requests.fetch_add(1, Ordering::AcqRel);
        RequestProgress(requests)
    }
}

impl Drop for RequestProgress {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The body of an answer, which keeps its request in progress.
struct TrackedBody {
    body: Body,
    _progress: RequestProgress,
}

impl http_body::Body for TrackedBody {
    type Data = axum::body::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        std::pin::Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer
    }

    fn plain(listener: TcpListener, router: Router, idle_timeout: Duration) -> HttpListener {
        let protection = HttpProtection::Plain;
        let proxies = TrustedProxies::none();
        HttpListener { listener, router, protection, counted_by: None, idle_timeout, proxies }
    }

    #[tokio::test]
    async fn a_panic_ends_one_connection_only() {
        async fn fail() -> &'static str {
            panic!("a mistake in a request")
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/fail", get(fail)).route("/good", get(async || "good"));
        let idle_timeout = Duration::from_secs(10);
        let served = plain(listener, router, idle_timeout);
        tokio::spawn(served.serve());
        assert_eq!(ask(address, "/fail").await, "");
        assert!(ask(address, "/good").await.ends_with("good"));
    }

    #[tokio::test]
    async fn headers_that_do_not_end_close_the_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/good", get(async || "good"));
        let idle_timeout = Duration::from_millis(100);
        let served = plain(listener, router, idle_timeout);
        tokio::spawn(served.serve());
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET /good HTTP/1.1\r\nHo").await.unwrap();
        let mut rest = Vec::new();
        let _ = slow.read_to_end(&mut rest).await;
        assert!(!rest.starts_with(b"HTTP/1.1 200"));
    }
}
