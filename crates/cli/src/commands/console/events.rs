//! Changes below a node as server-sent events, by a persistent recursive watch.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use http_body::Frame;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use zebu_admin::parts::{Problem, hex, znode_path};
use zebu_client::{Client, EventKind, WatchEvent, WatchMode, WatchStream};

use super::backend::RemoteCall;

/// Texts that wait for the socket.
const TEXTS_WAITING: usize = 64;
/// A comment is sent after this time without an event, so that a lost browser is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Opens a stream.
pub(super) async fn stream(call: RemoteCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    call.arguments.allow_only(&["watch"])?;
    let mode = match call.arguments.value("watch") {
        Some("recursive") => WatchMode::Tree,
        Some("" | "node") => WatchMode::Node,
        _ => return Err(Problem::bad_request("watch takes the values node and recursive")),
    };
    let permit = call.remote.streams.clone().try_acquire_owned();
    let permit = permit.map_err(|_| Problem::unavailable("THROTTLEDOP", "too many streams are open"))?;
    let events = call.client().watch(&path, mode).await.map_err(|error| call.problem(&error))?;
    let (texts, waiting) = mpsc::channel(TEXTS_WAITING);
    let ready = event_text("ready", None, &json!({ "path": path }));
    // The client lives as long as its stream.
    tokio::spawn(run(events, texts, ready, call.client().clone()));
    let mut response = Response::new(Body::new(EventBody { waiting, _permit: permit }));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

async fn run(mut events: WatchStream, texts: mpsc::Sender<Bytes>, ready: Bytes, _client: Client) {
    if texts.send(ready).await.is_err() {
        return;
    }
    loop {
        let text = tokio::select! {
            event = events.next() => match event {
                Some(event) => match text_of(&event) {
                    Some(text) => text,
                    None => break,
                },
                None => break,
            },
            () = tokio::time::sleep(KEEP_ALIVE) => Bytes::from_static(b": keep-alive\n\n"),
            () = texts.closed() => return,
        };
        if texts.send(text).await.is_err() {
            return;
        }
    }
    let why = json!({ "code": "CONNECTIONLOSS", "detail": "the connection ended, or events were lost" });
    let _ = texts.send(event_text("end", None, &why)).await;
}

/// The text of an event; `None` when changes may be missing.
fn text_of(event: &WatchEvent) -> Option<Bytes> {
    let name = match event.kind {
        EventKind::NodeCreated => "NodeCreated",
        EventKind::NodeDeleted => "NodeDeleted",
        EventKind::NodeDataChanged => "NodeDataChanged",
        EventKind::NodeChildrenChanged => "NodeChildrenChanged",
        EventKind::Resynced | EventKind::WatchLost => return None,
    };
    let data = json!({ "type": name, "path": &*event.path, "zxid": event.zxid.map(hex) });
    Some(event_text(name, event.zxid, &data))
}

/// One event. JSON has no line ends, so one line of data is enough.
fn event_text(name: &str, zxid: Option<i64>, data: &Value) -> Bytes {
    let id = zxid.map(|zxid| format!("id: {zxid:#x}\n")).unwrap_or_default();
    Bytes::from(format!("event: {name}\n{id}data: {data}\n\n"))
}

/// The texts of a stream as the body of an answer.
struct EventBody {
    waiting: mpsc::Receiver<Bytes>,
    _permit: OwnedSemaphorePermit,
}

impl http_body::Body for EventBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.waiting.poll_recv(context).map(|text| text.map(|text| Ok(Frame::data(text))))
    }
}
