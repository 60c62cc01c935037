//! `snapshot`: writes an exact snapshot file and sends it. One call passes per interval.
//! The file stays in `dataDir`.

use std::fs::File;
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use zebu_server::views::{OperatorSnapshot, ServerViews, SnapshotRefusal};

use crate::admin_state::AdminState;
use crate::commands_route::{json, refusal};
use crate::json::Json;
use crate::query;

const NAME: &str = "snapshot";
const NO_TRAILER: &str = "serializeLastProcessedZxid.enabled is false";

/// Bytes that are read from the file at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that wait for the client.
const CHUNKS_WAITING: usize = 2;

/// Why no snapshot is taken for a caller.
pub(crate) enum SnapshotDenied {
    /// A key of the configuration turns it off.
    Off(&'static str),
    /// One snapshot passes per interval.
    TooSoon { text: String, seconds: u64 },
    /// Other snapshots are being written or sent, or the state keeps changing.
    Busy(String),
    /// The disk has no room for the file.
    NoRoom(String),
    /// The file could not be written.
    Failed(String),
}

/// Takes a snapshot within the limits of all callers. The permit is for sending it.
pub(crate) async fn write_snapshot(
    state: &AdminState,
    views: &ServerViews,
) -> Result<(OperatorSnapshot, OwnedSemaphorePermit), SnapshotDenied> {
    if !state.config.snapshot_enabled {
        return Err(SnapshotDenied::Off("admin.snapshot.enabled is false"));
    }
    if !views.config().storage.snapshot_zxid_trailer {
        return Err(SnapshotDenied::Off(NO_TRAILER));
    }
    if let Err(wait) = state.snapshot_limiter.try_pass(Instant::now()) {
        views.admin_counters().snapshots_rate_limited.increment();
        let seconds = wait.as_secs() + 1;
        let text = format!(
            "one snapshot per {} ms (admin.rateLimiterIntervalInMS); try again in {seconds} s",
            state.config.rate_limiter_interval.as_millis()
        );
        return Err(SnapshotDenied::TooSoon { text, seconds });
    }
    let Ok(stream) = state.snapshot_streams.clone().try_acquire_owned() else {
        state.snapshot_limiter.give_back();
        return Err(SnapshotDenied::Busy("other snapshots are being sent; try again later".to_owned()));
    };
    match views.take_snapshot().await {
        Ok(snapshot) => Ok((snapshot, stream)),
        Err(refused) => {
            match refused {
                SnapshotRefusal::Busy | SnapshotRefusal::NoRoom => state.snapshot_limiter.give_back(),
                // Whole files were written for this call, so it counts.
                SnapshotRefusal::KeptChanging | SnapshotRefusal::Failed(_) => {}
            }
            let text = refused.to_string();
            Err(match refused {
                SnapshotRefusal::Busy | SnapshotRefusal::KeptChanging => SnapshotDenied::Busy(text),
                SnapshotRefusal::NoRoom => SnapshotDenied::NoRoom(text),
                SnapshotRefusal::Failed(_) => SnapshotDenied::Failed(text),
            })
        }
    }
}

/// Takes a snapshot and sends it, unless `streaming` is another word than `true`.
pub(crate) async fn take_snapshot(state: &Arc<AdminState>, views: &ServerViews, request: &Parts) -> Response {
    let streaming = query::first_value(request.uri.query(), "streaming");
    let is_streaming = streaming.is_none_or(|word| word.eq_ignore_ascii_case("true"));
    match write_snapshot(state, views).await {
        Ok((snapshot, stream)) => match send(&snapshot, stream, is_streaming) {
            Ok(response) => response,
            Err(error) => {
                state.snapshot_limiter.give_back();
                let text = format!("the snapshot cannot be read: {error}");
                refusal(StatusCode::INTERNAL_SERVER_ERROR, NAME, &text)
            }
        },
        Err(SnapshotDenied::Off(NO_TRAILER)) => refusal(StatusCode::INTERNAL_SERVER_ERROR, NAME, NO_TRAILER),
        Err(SnapshotDenied::Off(text)) => refusal(StatusCode::SERVICE_UNAVAILABLE, NAME, text),
        Err(SnapshotDenied::TooSoon { text, seconds }) => {
            let mut response = refusal(StatusCode::TOO_MANY_REQUESTS, NAME, &text);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            response
        }
        Err(SnapshotDenied::Busy(text)) => refusal(StatusCode::SERVICE_UNAVAILABLE, NAME, &text),
        Err(SnapshotDenied::NoRoom(text)) => refusal(StatusCode::INSUFFICIENT_STORAGE, NAME, &text),
        Err(SnapshotDenied::Failed(text)) => refusal(StatusCode::INTERNAL_SERVER_ERROR, NAME, &text),
    }
}

fn send(
    snapshot: &OperatorSnapshot,
    stream: OwnedSemaphorePermit,
    is_streaming: bool,
) -> io::Result<Response> {
    let file = File::open(&snapshot.path)?;
    let size = file.metadata()?.len();
    let mut response = if is_streaming {
        Response::new(Body::new(FileBody::start(file, size, stream)))
    } else {
        json(StatusCode::OK, &Json::object([("command", Json::text(NAME)), ("error", Json::Null)]))
    };
    let headers = response.headers_mut();
    let text = |text: String| HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("?"));
    headers.insert("last_zxid", text(format!("0x{:x}", snapshot.zxid.0)));
    headers.insert("snapshot_size", HeaderValue::from(size));
    if is_streaming {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        if let Some(name) = snapshot.path.file_name().and_then(|name| name.to_str()) {
            headers.insert(header::CONTENT_DISPOSITION, text(format!("attachment; filename={name}")));
        }
    }
    Ok(response)
}

/// A file that is read while it is sent.
struct FileBody {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    left: u64,
    _stream: OwnedSemaphorePermit,
}

impl FileBody {
    /// Reads on a thread for blocking work. It ends when the client is gone.
    fn start(mut file: File, size: u64, stream: OwnedSemaphorePermit) -> FileBody {
        let (sender, chunks) = mpsc::channel(CHUNKS_WAITING);
        tokio::task::spawn_blocking(move || {
            let mut left = size;
            while left > 0 {
                let mut chunk = vec![0; CHUNK_BYTES.min(usize::try_from(left).unwrap_or(CHUNK_BYTES))];
                let read = file.read_exact(&mut chunk);
                let is_error = read.is_err();
                left -= chunk.len() as u64;
                if sender.blocking_send(read.map(|()| Bytes::from(chunk))).is_err() || is_error {
                    return;
                }
            }
        });
        FileBody { chunks, left: size, _stream: stream }
    }
}

impl http_body::Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.chunks.poll_recv(context).map(|chunk| {
            let chunk = chunk?;
            if let Ok(bytes) = &chunk {
                self.left = self.left.saturating_sub(bytes.len() as u64);
            }
            Some(chunk.map(Frame::data))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
