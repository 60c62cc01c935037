//! What all requests of the admin port share: the server's views, limiters and memory for answers.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zebu_server::config::admin::{AdminConfig, ConsoleSetting};
use zebu_server::views::ServerViews;

use crate::rate_limiter::RateLimiter;
use crate::request_origin::HostRule;
use crate::role_timeline::RoleTimeline;

/// KiB of answers that wait for their clients. Shorter answers than [`UNCHARGED_BYTES`] are not counted.
const ANSWER_KIB_TOTAL: usize = 128 << 10;

/// Answers up to this length are bounded by the number of connections.
const UNCHARGED_BYTES: usize = 64 << 10;

/// Snapshots that are sent at once.
const SNAPSHOT_STREAMS_MAX: usize = 2;

/// The views of the server, once it has recovered.
pub(crate) type AttachedViews = Arc<OnceLock<ServerViews>>;

/// The shared state.
pub(crate) struct AdminState {
    pub(crate) config: AdminConfig,
    pub(crate) views: AttachedViews,
    pub(crate) host_rule: HostRule,
    pub(crate) snapshot_limiter: RateLimiter,
    pub(crate) restore_limiter: RateLimiter,
    /// One restore runs at a time.
    pub(crate) restores: Arc<Semaphore>,
    /// One long answer is built at a time.
    pub(crate) long_answers: Semaphore,
    pub(crate) snapshot_streams: Arc<Semaphore>,
    /// The roles of the server, for the console.
    pub(crate) roles: Option<Arc<RoleTimeline>>,
    answer_memory: Arc<Semaphore>,
}

impl AdminState {
    pub(crate) fn new(config: AdminConfig, views: AttachedViews) -> AdminState {
        let host_rule = match config.address.ip().is_loopback() {
            true => HostRule::Local(config.allowed_hosts.clone()),
            false => HostRule::Any,
        };
        let has_console = config.console != ConsoleSetting::Off;
        AdminState {
            snapshot_limiter: RateLimiter::new(config.rate_limiter_interval),
            restore_limiter: RateLimiter::new(config.rate_limiter_interval),
            restores: Arc::new(Semaphore::new(1)),
            config,
            views,
            host_rule,
            long_answers: Semaphore::new(1),
            snapshot_streams: Arc::new(Semaphore::new(SNAPSHOT_STREAMS_MAX)),
            roles: has_console.then(Arc::default),
            answer_memory: Arc::new(Semaphore::new(ANSWER_KIB_TOTAL)),
        }
    }

    /// The body of an answer; `None` if too many bytes wait for their clients already.
    pub(crate) fn body(&self, bytes: impl Into<Bytes>) -> Option<Body> {
        let bytes = bytes.into();
        if bytes.len() <= UNCHARGED_BYTES {
            return Some(Body::from(bytes));
        }
        let kib = u32::try_from(bytes.len().div_ceil(1024)).ok()?;
        let permit = self.answer_memory.clone().try_acquire_many_owned(kib).ok()?;
        Some(Body::new(ChargedBody { bytes: Some(bytes), _permit: permit }))
    }
}

/// Bytes that are charged until the client has taken them.
struct ChargedBody {
    bytes: Option<Bytes>,
    _permit: OwnedSemaphorePermit,
}

impl http_body::Body for ChargedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
