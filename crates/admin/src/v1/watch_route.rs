//! `GET /v1/tree/…?watch`: the events of a persistent watch as server-sent events.
//!
//! Each stream has a connection and a session of its own, so that order and permissions of its events are
//! those of a client. A client that reads too slowly loses its stream, not the server its memory: the events
//! that wait are bounded in number and bytes. The last event says why a stream ended.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use http_body::Frame;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use zebu_node::ServingMode;
use zebu_proto::client::{AddWatchMode, EventType};
use zebu_proto::{ErrorCode, Jute, OpCode};

use super::call::ApiCall;
use super::connection_pool::open_problem;
use super::problem::Problem;
use super::request_connection::{
    CallError, ConnectionSink, EventBacklog, EventSink, ReceivedEvent, RequestConnection, SessionChoice,
};
use super::values;

/// Events that wait for their client.
const EVENTS_WAITING: usize = 256;
/// Texts that wait for the socket.
pub(super) const TEXTS_WAITING: usize = 4;
/// A comment is sent after this time without an event, so that a lost client is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The events that a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchScope {
    /// Data and children of the node.
    Node,
    /// Creation, change and deletion of the node.
    Data,
    /// Creation, deletion and the children of the node.
    Children,
    /// The node and all nodes below it.
    Recursive,
}

impl WatchScope {
    fn parse(text: &str) -> Result<WatchScope, Problem> {
        match text {
            "" | "node" => Ok(WatchScope::Node),
            "data" => Ok(WatchScope::Data),
            "children" => Ok(WatchScope::Children),
            "recursive" => Ok(WatchScope::Recursive),
            _ => Err(Problem::bad_request("watch takes the values node, data, children and recursive")),
        }
    }

    fn mode(self) -> AddWatchMode {
        match self {
            WatchScope::Node | WatchScope::Data | WatchScope::Children => AddWatchMode::Persistent,
            WatchScope::Recursive => AddWatchMode::PersistentRecursive,
        }
    }

    fn includes(self, kind: EventType) -> bool {
        match self {
            WatchScope::Node | WatchScope::Recursive => true,
            WatchScope::Data => kind != EventType::NodeChildrenChanged,
            WatchScope::Children => kind != EventType::NodeDataChanged,
        }
    }
}

/// Sets the watch and streams its events.
pub(crate) async fn stream_events(call: ApiCall, path: &str) -> Result<Response, Problem> {
    let scope = WatchScope::parse(call.arguments.value("watch").unwrap_or_default())?;
    if call.views.serving_mode() == Some(ServingMode::ReadOnly) {
        return Err(Problem::of_code(ErrorCode::NotReadOnly, Some(path), call.ids.auth));
    }
    let Ok(permit) = call.state.streams.clone().try_acquire_owned() else {
        return Err(Problem::unavailable("THROTTLEDOP", "too many event streams are open"));
    };
    let (events, received) = mpsc::channel(EVENTS_WAITING);
    let backlog = Arc::new(EventBacklog::default());
    let sink = ConnectionSink::Events(EventSink { events, backlog: backlog.clone() });
    let connection =
        RequestConnection::open(&call.views, call.local_caller(), SessionChoice::New, Some(sink));
    let connection = connection.await.map_err(|error| open_problem(&error))?;
    let mut body = Vec::new();
    Some::<Box<str>>(path.into()).encode(&mut body);
    scope.mode().wire().encode(&mut body);
    let reply =
        connection.call(OpCode::AddWatch, body).await.map_err(|_: CallError| Problem::not_serving())?;
    call.check(&reply, path)?;
    let (texts, waiting) = mpsc::channel(TEXTS_WAITING);
    let ready =
        event_text("ready", Some(reply.zxid), &json!({ "path": path, "zxid": values::hex(reply.zxid) }));
    let stream = EventStream { scope, connection, received, backlog, texts };
    tokio::spawn(stream.run(ready));
    let mut response = Response::new(Body::new(EventBody::new(waiting, permit)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The task of one stream.
struct EventStream {
    scope: WatchScope,
    /// Its session ends when this is dropped.
    connection: RequestConnection,
    received: mpsc::Receiver<ReceivedEvent>,
    backlog: Arc<EventBacklog>,
    texts: mpsc::Sender<Bytes>,
}

impl EventStream {
    async fn run(mut self, ready: Bytes) {
        if self.texts.send(ready).await.is_err() {
            return;
        }
        loop {
            let text = tokio::select! {
                event = self.received.recv() => match event {
                    Some(event) => {
                        self.backlog.bytes.fetch_sub(event.path.len(), Ordering::AcqRel);
                        if !self.scope.includes(event.kind) {
                            continue;
                        }
                        text_of(&event)
                    }
                    None => break,
                },
                () = tokio::time::sleep(KEEP_ALIVE) => Bytes::from_static(b": keep-alive\n\n"),
                () = self.texts.closed() => return,
            };
            if self.texts.send(text).await.is_err() {
                return;
            }
        }
        // The sink of events is gone with the connection.
        self.connection.closed().await;
        let reason = match self.backlog.is_overrun.load(Ordering::Acquire) {
            true => json!({ "code": "OVERRUN", "detail": "the client reads more slowly than events come" }),
            false => {
                json!({ "code": "CONNECTIONLOSS", "detail": "the server stops, or its role has changed" })
            }
        };
        let _ = self.texts.send(event_text("end", None, &reason)).await;
    }
}

fn text_of(event: &ReceivedEvent) -> Bytes {
    let name = match event.kind {
        EventType::NodeCreated => "NodeCreated",
        EventType::NodeDeleted => "NodeDeleted",
        EventType::NodeDataChanged => "NodeDataChanged",
        EventType::NodeChildrenChanged => "NodeChildrenChanged",
    };
    let data = json!({ "type": name, "path": event.path, "zxid": values::hex(event.zxid) });
    event_text(name, Some(event.zxid), &data)
}

/// One event. JSON has no line ends, so one line of data is enough.
pub(super) fn event_text(name: &str, zxid: Option<i64>, data: &Value) -> Bytes {
    let id = zxid.map(|zxid| format!("id: {zxid:#x}\n")).unwrap_or_default();
    Bytes::from(format!("event: {name}\n{id}data: {data}\n\n"))
}

/// The texts of a stream as the body of an answer.
pub(super) struct EventBody {
    waiting: mpsc::Receiver<Bytes>,
    _permit: OwnedSemaphorePermit,
}

impl EventBody {
    pub(super) fn new(waiting: mpsc::Receiver<Bytes>, permit: OwnedSemaphorePermit) -> EventBody {
        EventBody { waiting, _permit: permit }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_of_data_whatever_the_path() {
        let event =
            ReceivedEvent { kind: EventType::NodeCreated, path: "/a\u{85}\"b".to_owned(), zxid: 0x10 };
        let text = String::from_utf8(text_of(&event).to_vec()).unwrap();
        assert!(text.starts_with("event: NodeCreated\nid: 0x10\ndata: {") && text.ends_with("}\n\n"));
        assert_eq!(text.matches('\n').count(), 4);
    }

    #[test]
    fn scopes_choose_their_events() {
        let (data, children) = (EventType::NodeDataChanged, EventType::NodeChildrenChanged);
        for (text, has_data, has_children) in
            [("", true, true), ("data", true, false), ("children", false, true), ("recursive", true, true)]
        {
            let scope = WatchScope::parse(text).unwrap();
            assert_eq!((scope.includes(data), scope.includes(children)), (has_data, has_children), "{text}");
            assert!(scope.includes(EventType::NodeDeleted) && scope.includes(EventType::NodeCreated));
        }
        assert!(WatchScope::parse("all").is_err());
    }
}
