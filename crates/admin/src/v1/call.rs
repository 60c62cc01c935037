//! One request of the API: its parts, the identity of its caller, and the means to answer it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use http_body::Body as _;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zebu_node::ServingMode;
use zebu_proto::{ErrorCode, OpCode};
use zebu_server::config::admin::ApiAccess;
use zebu_server::views::{LocalCaller, ServerViews};

use super::arguments::Arguments;
use super::connection_pool::ConnectionPool;
use super::identity::CallerIds;
use super::listing_route::KeptLists;
use super::problem::{CallerAuth, Problem};
use super::request_connection::Reply;
use crate::admin_state::AdminState;
use crate::authorization::Caller;

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// KiB of all bodies at once. Shorter bodies than [`UNCHARGED_BODY_BYTES`] are not counted.
const BODY_KIB_TOTAL: usize = 64 << 10;
/// Bodies up to this length are bounded by the number of connections.
const UNCHARGED_BODY_BYTES: usize = 16 << 10;
/// Writes and syncs that wait for their replies.
const WRITES_MAX: usize = 128;
/// Event streams at once.
pub(crate) const STREAMS_MAX: usize = 64;
/// Bytes of xid and operation in front of a request.
const REQUEST_HEADER_BYTES: usize = 8;

/// What all requests of the API share.
pub(crate) struct ApiState {
    pub(crate) admin: Arc<AdminState>,
    pool: ConnectionPool,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) lists: KeptLists,
    /// Reads of files for the history of a node.
    pub(crate) history_reads: Semaphore,
    writes: Semaphore,
    body_memory: Arc<Semaphore>,
}

impl ApiState {
    pub(crate) fn new(admin: Arc<AdminState>) -> ApiState {
        ApiState {
            admin,
            pool: ConnectionPool::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            lists: KeptLists::default(),
            history_reads: Semaphore::new(1),
            writes: Semaphore::new(WRITES_MAX),
            body_memory: Arc::new(Semaphore::new(BODY_KIB_TOTAL)),
        }
    }
}

/// A request whose caller is known.
pub(crate) struct ApiCall {
    pub(crate) state: Arc<ApiState>,
    /// What this way to the API allows.
    pub(crate) access: ApiAccess,
    pub(crate) views: ServerViews,
    pub(crate) caller: Caller,
    pub(crate) ids: CallerIds,
    pub(crate) headers: HeaderMap,
    pub(crate) arguments: Arguments,
    /// The part of the URL behind the route, as it was sent.
    pub(crate) rest: String,
    /// Taken by [`ApiCall::receive_body`]. The lock makes the call shareable; no other task uses it.
    pub(crate) body: Mutex<Body>,
}

/// A body that takes its share of the memory until it is dropped.
pub(crate) struct ReceivedBody {
    pub(crate) bytes: Vec<u8>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl ApiCall {
    /// The error of a code about a node.
    pub(crate) fn problem(&self, code: ErrorCode, path: &str) -> Problem {
        Problem::of_code(code, Some(path), self.ids.auth)
    }

    /// The caller as the server's connections know it.
    pub(crate) fn local_caller(&self) -> LocalCaller {
        LocalCaller {
            address: self.caller.address,
            credentials: self.ids.credentials.clone(),
            is_secure: self.caller.is_secure,
        }
    }

    /// Refuses a caller that is not the super user.
    pub(crate) fn require_super(&self) -> Result<(), Problem> {
        match (self.ids.credentials.is_super(), self.ids.auth) {
            (true, _) => Ok(()),
            (false, CallerAuth::Shown) => {
                Err(Problem::new(StatusCode::FORBIDDEN, "NOAUTH", "only the super user may do this"))
            }
            (false, CallerAuth::Missing) => {
                Err(Problem::new(StatusCode::UNAUTHORIZED, "NOAUTH", "only the super user may do this"))
            }
        }
    }

    /// Sends a request by the path of all clients. An error code in the reply is no error here.
    pub(crate) async fn send(&self, op: OpCode, body: Vec<u8>) -> Result<Reply, Problem> {
        let max = self.body_bytes_max();
        if body.len() + REQUEST_HEADER_BYTES > max {
            let detail = format!("the request is longer than jute.maxbuffer, {max} bytes");
            return Err(Problem::too_large(detail));
        }
        if self.views.serving_mode() == Some(ServingMode::ReadOnly) {
            return Err(Problem::of_code(ErrorCode::NotReadOnly, None, self.ids.auth));
        }
        let Ok(_permit) = self.state.writes.try_acquire() else {
            return Err(Problem::unavailable("THROTTLEDOP", "too many writes wait for their replies"));
        };
        self.state.pool.call(&self.views, &self.local_caller(), op, body).await
    }

    /// `jute.maxbuffer`.
    pub(crate) fn body_bytes_max(&self) -> usize {
        self.views.config().limits.jute_max_buffer as usize
    }

    /// Reads the body.
    pub(crate) async fn receive_body(&self) -> Result<ReceivedBody, Problem> {
        let max = self.body_bytes_max();
        let too_large = || Problem::too_large(format!("the body is longer than jute.maxbuffer, {max} bytes"));
        let length = self.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let length = length.and_then(|text| text.parse::<usize>().ok());
        if length.is_some_and(|length| length > max) {
            return Err(too_large());
        }
        let body = std::mem::take(&mut *self.body.lock().unwrap_or_else(PoisonError::into_inner));
        // A body without a length may become as long as allowed.
        let expected = length.unwrap_or(if body.is_end_stream() { 0 } else { max });
        let permit = match expected > UNCHARGED_BODY_BYTES {
            false => None,
            true => {
                let kib = u32::try_from(expected.div_ceil(1024)).unwrap_or(u32::MAX);
                let permit = self.state.body_memory.clone().try_acquire_many_owned(kib);
                Some(permit.map_err(|_| {
                    Problem::unavailable("THROTTLEDOP", "too many long bodies are being received")
                })?)
            }
        };
        match tokio::time::timeout(BODY_TIMEOUT, collect(body, max)).await {
            Ok(Ok(Some(bytes))) => Ok(ReceivedBody { bytes, _permit: permit }),
            Ok(Ok(None)) => Err(too_large()),
            Ok(Err(error)) => Err(Problem::bad_request(format!("the body cannot be read: {error}"))),
            Err(_) => {
                let detail = "the body was not received in time";
                Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "BADARGUMENTS", detail))
            }
        }
    }

    /// An answer in JSON.
    pub(crate) fn json(&self, status: StatusCode, value: &Value) -> Result<Response, Problem> {
        self.answer(status, "application/json", format!("{value}\n").into())
    }

    /// An answer whose bytes are charged while its client reads them.
    pub(crate) fn answer(
        &self,
        status: StatusCode,
        content_type: &'static str,
        bytes: Bytes,
    ) -> Result<Response, Problem> {
        let body = self.state.admin.body(bytes).ok_or_else(|| {
            Problem::unavailable("THROTTLEDOP", "too many long answers wait for their clients")
        })?;
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        // A browser must ask again: only the entity tag says whether an answer is still true.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        Ok(response)
    }
}

/// All bytes of a body; `None` if there are more than `max`.
async fn collect(mut body: Body, max: usize) -> Result<Option<Vec<u8>>, axum::Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame?.into_data() else { continue };
        if bytes.len() + data.len() > max {
            return Ok(None);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Some(bytes))
}
