//! `restore`: takes a snapshot and puts it in the place of the state of a standalone server.
//!
//! The body goes to a file while it comes; memory holds a few chunks of it. One restore runs at a time, and
//! one call passes per interval. A call whose body was read uses it up, as in ZooKeeper.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use http_body::Body as _;
use tokio::sync::mpsc;
use tracing::warn;
use zebu_node::AuditResult;
use zebu_server::views::{RestoreRefusal, RestoredSummary, ServerViews, StateUpload};

use crate::admin_state::AdminState;
use crate::authorization::Caller;
use crate::command_audit::CommandAudit;
use crate::commands_route::{json, refusal};
use crate::json::Json;

const NAME: &str = "restore";

/// Chunks that wait for the disk.
const CHUNKS_WAITING: usize = 2;

/// How long a client may send nothing.
const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// What to do in an ensemble.
const ENSEMBLE_ADVICE: &str = "Stop all servers. On each of them, move the files snapshot.*, log.* and zebu.durable \
                               out of version-2 in dataDir and dataLogDir, and leave the other files. Put the same \
                               snapshot into dataDir/version-2 of each server as snapshot.<zxid in hexadecimal>. \
                               Start the servers, and open one new session, for example with zebu shell: clients of the \
                               old state are served from then on";

/// A call whose caller may replace the state.
pub(crate) struct RestoreCall<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) parts: Parts,
    pub(crate) body: Body,
    /// Stays with the work, which goes on when the caller is gone.
    pub(crate) audit: Option<CommandAudit>,
}

/// Receives the body and replaces the state.
pub(crate) async fn restore_state(
    state: &Arc<AdminState>,
    views: &ServerViews,
    call: RestoreCall<'_>,
) -> Response {
    let RestoreCall { caller, parts, body, audit } = call;
    if !state.config.restore_enabled {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, NAME, "admin.restore.enabled is false");
    }
    if views.ensemble_config().is_some() {
        return refuse(&RestoreRefusal::Ensemble);
    }
    let Ok(permit) = state.restores.clone().try_acquire_owned() else {
        return refuse(&RestoreRefusal::Busy);
    };
    let length =
        parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let limit = state.config.restore_bytes_max;
    if length.is_some_and(|length| length > limit) {
        return refuse(&RestoreRefusal::TooLong { limit });
    }
    let counters = views.admin_counters();
    if let Err(wait) = state.restore_limiter.try_pass(Instant::now()) {
        counters.restores_rate_limited.increment();
        return rate_limited(state, wait);
    }
    warn!(peer = %caller.address, length, "restore: a snapshot is being received");
    let begun = Instant::now();
    let upload = receive(views, body, length, limit).await;
    let views = views.clone();
    let restored = match upload {
        Err(refusal) => Err(refusal),
        // The permit stays with the work, which goes on when the caller is gone.
        Ok(upload) => tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let restored = views.restore(upload);
            if let Some(audit) = audit {
                audit.finish(audit_result(&restored));
            }
            restored
        })
        .await
        .unwrap_or_else(|error| Err(RestoreRefusal::NotWritten(error.to_string()))),
    };
    match restored {
        Ok(summary) => {
            counters.restore_ms.record(begun.elapsed().as_millis() as u64);
            success(summary)
        }
        Err(refusal) => {
            counters.restore_errors.increment();
            warn!(peer = %caller.address, reason = %refusal, "restore: refused");
            refuse(&refusal)
        }
    }
}

fn audit_result(restored: &Result<RestoredSummary, RestoreRefusal>) -> AuditResult {
    match restored {
        Ok(_) => AuditResult::Success,
        // The next start has the old state or the new one.
        Err(RestoreRefusal::Stopping) => AuditResult::Invoked,
        Err(_) => AuditResult::Failure,
    }
}

/// Writes the body to a file on a thread for blocking work.
async fn receive(
    views: &ServerViews,
    body: Body,
    length: Option<u64>,
    limit: u64,
) -> Result<StateUpload, RestoreRefusal> {
    let (chunks, mut received) = mpsc::channel::<Bytes>(CHUNKS_WAITING);
    let views = views.clone();
    let writer = tokio::task::spawn_blocking(move || {
        let mut upload = views.begin_restore(length, limit)?;
        while let Some(chunk) = received.blocking_recv() {
            upload.write(&chunk)?;
        }
        Ok(upload)
    });
    let sent = send_chunks(body, chunks).await;
    // The writer's refusal is the cause if both have failed.
    let upload = writer.await.unwrap_or_else(|error| Err(RestoreRefusal::NotWritten(error.to_string())))?;
    sent.map(|()| upload)
}

/// Passes the body on until its end; a writer that has failed takes no more.
async fn send_chunks(mut body: Body, chunks: mpsc::Sender<Bytes>) -> Result<(), RestoreRefusal> {
    let cut = |reason: String| RestoreRefusal::BadSnapshot(format!("the body was not received: {reason}"));
    loop {
        let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        let frame = match tokio::time::timeout(BODY_IDLE_TIMEOUT, frame).await {
            Err(_) => return Err(cut("nothing came for 30 s".to_owned())),
            Ok(None) => return Ok(()),
            Ok(Some(Err(error))) => return Err(cut(error.to_string())),
            Ok(Some(Ok(frame))) => frame,
        };
        if let Ok(chunk) = frame.into_data()
            && chunks.send(chunk).await.is_err()
        {
            return Ok(());
        }
    }
}

fn rate_limited(state: &AdminState, wait: Duration) -> Response {
    let seconds = wait.as_secs() + 1;
    let text = format!(
        "one restore per {} ms (admin.rateLimiterIntervalInMS); try again in {seconds} s",
        state.config.rate_limiter_interval.as_millis()
    );
    let mut response = refusal(StatusCode::TOO_MANY_REQUESTS, NAME, &text);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

fn success(summary: RestoredSummary) -> Response {
    let entries =
        [("last_zxid", Json::count(summary.zxid.0)), ("command", Json::text(NAME)), ("error", Json::Null)];
    json(StatusCode::OK, &Json::object(entries))
}

fn refuse(reason: &RestoreRefusal) -> Response {
    let status = match reason {
        RestoreRefusal::Ensemble => {
            let text = format!("{reason}. {ENSEMBLE_ADVICE}");
            return refusal(StatusCode::CONFLICT, NAME, &text);
        }
        RestoreRefusal::Busy | RestoreRefusal::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        RestoreRefusal::NoRoom { .. } => StatusCode::INSUFFICIENT_STORAGE,
        RestoreRefusal::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        RestoreRefusal::BadSnapshot(_) => StatusCode::BAD_REQUEST,
        RestoreRefusal::NotWritten(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let text = match reason {
        RestoreRefusal::Stopping => format!("{reason}; the next start has the old state or the new one"),
        _ => format!("{reason}; the state is unchanged"),
    };
    refusal(status, NAME, &text)
}
