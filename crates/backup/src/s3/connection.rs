//! The HTTP client of a bucket: HTTP/1.1 by hyper, with the TLS stack that the servers have too. Every wait
//! for the store has a bound, so that a lost connection becomes an error that is tried again.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// How long a connection may take to be established.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Idle connections that are kept, and for how long. Stores close them after some seconds.
const IDLE_CONNECTIONS: usize = 4;
const IDLE_MAX: Duration = Duration::from_secs(5);

/// A sender that is slower than this, in bytes per second, counts as lost.
const SLOWEST_BYTES: u64 = 32 << 10;

type BucketClient = Client<HttpsConnector<TcpConnector>, HttpRequestBody>;

/// Makes the HTTP client of a bucket.
#[derive(Clone)]
pub(super) struct BucketConnector {
    client: BucketClient,
    patience: Duration,
}

impl fmt::Debug for BucketConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketConnector").field("patience", &self.patience).finish_non_exhaustive()
    }
}

impl BucketConnector {
    /// A client that trusts the authorities of the system, or only those of a PEM file.
    pub(super) fn new(ca: Option<&Path>, patience: Duration) -> io::Result<BucketConnector> {
        let mut tcp = TcpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_MAX.min(patience)));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots(ca)?)
            .with_no_client_auth();
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .build(https);
        Ok(BucketConnector { client, patience })
    }
}

fn roots(ca: Option<&Path>) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            let failed = |what: String| io::Error::other(format!("{}: {what}", path.display()));
            let certificates =
                CertificateDer::pem_file_iter(path).map_err(|error| failed(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| failed(error.to_string()))?;
                roots.add(certificate).map_err(|error| failed(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(failed("the file has no certificate in PEM".to_owned()));
            }
        }
        // Without any, https:// fails with the name of the reason; http:// needs none.
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

impl HttpConnector for BucketConnector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait::async_trait]
impl HttpService for BucketConnector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let bytes = request.body().content_length() as u64;
        let limit = self.patience + Duration::from_secs(bytes / SLOWEST_BYTES);
        let response = match timeout(limit, self.client.request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() => {
                return Err(HttpError::new(HttpErrorKind::Connect, error));
            }
            Ok(Err(error)) => return Err(failed(error)),
            Err(_) => return Err(HttpError::new(HttpErrorKind::Timeout, NoAnswer(limit))),
        };
        let (parts, body) = response.into_parts();
        let (patience, limit) = (self.patience, Box::pin(sleep(self.patience)));
        let body = HttpResponseBody::new(TimedBody { body, limit, patience });
        Ok(HttpResponse::from_parts(parts, body))
    }
}

/// Waited too long.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", .0.as_secs())]
struct NoAnswer(Duration);

/// The kind decides whether the request is sent again.
fn failed(error: impl Error + Send + Sync + 'static) -> HttpError {
    let mut kind = HttpErrorKind::Interrupted;
    let mut source: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(cause) = source {
        if cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut) {
            kind = HttpErrorKind::Timeout;
        }
        source = cause.source();
    }
    HttpError::new(kind, error)
}

/// The body of an answer, whose parts must come in time.
struct TimedBody {
    body: Incoming,
    limit: Pin<Box<Sleep>>,
    patience: Duration,
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let next = Instant::now() + self.patience;
            self.limit.as_mut().reset(next);
            return Poll::Ready(frame.map(|frame| frame.map_err(failed)));
        }
        ready!(self.limit.as_mut().poll(context));
        Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Timeout, NoAnswer(self.patience)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
