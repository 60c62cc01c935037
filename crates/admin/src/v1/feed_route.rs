//! `GET /v1/feed`: committed transactions as server-sent events. The id of an event is its zxid, so that a
//! client that comes back with `Last-Event-ID` misses nothing. A feed that the log no longer has is answered
//! with 410.
//!
//! Each stream has a connection and a session of its own. A client that reads slowly costs its credit: the
//! server pushes no more than that.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use zebu_node::ServingMode;
use zebu_proto::client::{
    ChangeKind, ClientHello, CreatedOwner, FEATURE_FEED, FROM_NOW, FeedBatch, FeedChange, FeedCredit,
    FeedEnd, FeedOpen, FeedOpened, FeedOptions, FeedPush, FeedRecord,
};
use zebu_proto::{ErrorCode, Jute, OpCode, Reader};

use super::arguments::check_path;
use super::call::ApiCall;
use super::connection_pool::open_problem;
use super::problem::Problem;
use super::request_connection::{
    CallError, ConnectionSink, ReceivedPush, Reply, RequestConnection, SessionChoice,
};
use super::values;
use super::watch_route::{EventBody, TEXTS_WAITING, event_text};

/// Bytes that the server may push before the client of the stream has taken some.
const CREDIT_BYTES: i32 = 512 << 10;
/// How long the server may take to prove that it has all transactions.
const PROOF_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens the feed and streams its transactions.
pub(crate) async fn stream_feed(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&["prefix*", "after", "data", "sessions", "acl"])?;
    let open = FeedOpen {
        after: place(&call)?,
        prefixes: prefixes(&call)?,
        options: FeedOptions {
            data: call.arguments.flag("data")?,
            sessions: call.arguments.flag("sessions")?,
            acl_changes: call.arguments.flag("acl")?,
        },
        credit: CREDIT_BYTES,
    };
    let path = open.prefixes.first().map_or("/", |prefix| prefix).to_owned();
    if call.views.serving_mode() == Some(ServingMode::ReadOnly) {
        return Err(Problem::of_code(ErrorCode::NotReadOnly, Some(&path), call.ids.auth));
    }
    let Ok(permit) = call.state.streams.clone().try_acquire_owned() else {
        return Err(Problem::unavailable("THROTTLEDOP", "too many event streams are open"));
    };
    // The credit bounds what waits here.
    let (pushes, mut received) = mpsc::unbounded_channel();
    let sink = ConnectionSink::Feed(pushes);
    let connection =
        RequestConnection::open(&call.views, call.local_caller(), SessionChoice::New, Some(sink));
    let connection = connection.await.map_err(|error| open_problem(&error))?;
    let send = async |op, body| {
        let reply: Reply = connection.call(op, body).await.map_err(|_: CallError| Problem::not_serving())?;
        call.check(&reply, &path)?;
        Ok::<Reply, Problem>(reply)
    };
    send(OpCode::Hello, encoded(&ClientHello { features: FEATURE_FEED })).await?;
    let mut body = Vec::new();
    open.encode(&mut body);
    let reply = send(OpCode::Feed, body).await?;
    let opened = FeedOpened::decode(&mut Reader::new(&reply.body));
    let opened = opened.map_err(|_| call.problem(ErrorCode::DataInconsistency, &path))?;
    let first = tokio::time::timeout(PROOF_TIMEOUT, received.recv()).await;
    let first = match first.ok().flatten() {
        Some(ReceivedPush { push: FeedPush::End(end), .. }) => return Err(purged(end)),
        Some(first) => first,
        None => return Err(Problem::not_serving()),
    };
    let (texts, waiting) = mpsc::channel(TEXTS_WAITING);
    let stream = FeedStream { feed: opened.feed, connection, received, texts };
    tokio::spawn(stream.run(first));
    let mut response = Response::new(Body::new(EventBody::new(waiting, permit)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The place behind which the feed begins. A client that comes back says it in a header.
fn place(call: &ApiCall) -> Result<i64, Problem> {
    let parse = |text: &str| {
        let digits = text.strip_prefix("0x").map(|digits| i64::from_str_radix(digits, 16));
        digits.unwrap_or_else(|| text.parse()).ok().filter(|zxid| *zxid >= 0)
    };
    let refused = || Problem::bad_request("a place is a zxid such as 0x500000012");
    match (last_event_id(&call.headers), call.arguments.value("after")) {
        (Some(id), _) => parse(id).ok_or_else(refused),
        (None, Some(after)) => parse(after).ok_or_else(refused),
        (None, None) => Ok(FROM_NOW),
    }
}

fn last_event_id(headers: &HeaderMap) -> Option<&str> {
    headers.get("last-event-id")?.to_str().ok().filter(|id| !id.is_empty())
}

fn prefixes(call: &ApiCall) -> Result<Vec<Box<str>>, Problem> {
    let prefixes: Vec<Box<str>> = call.arguments.values("prefix").map(Box::from).collect();
    if prefixes.len() > zebu_proto::client::feed::PREFIXES_MAX {
        return Err(Problem::bad_request("a feed has up to 16 prefixes"));
    }
    prefixes.iter().try_for_each(|prefix| check_path(prefix))?;
    Ok(prefixes)
}

fn purged(end: FeedEnd) -> Problem {
    let detail =
        "the server no longer has all transactions; read the nodes again and begin behind what was read";
    Problem::new(StatusCode::GONE, "LOGPURGED", detail).with("oldest", values::hex(end.oldest))
}

fn encoded(record: &impl Jute) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    bytes
}

/// The task of one stream.
struct FeedStream {
    feed: i32,
    /// Its session ends when this is dropped.
    connection: RequestConnection,
    received: mpsc::UnboundedReceiver<ReceivedPush>,
    texts: mpsc::Sender<Bytes>,
}

impl FeedStream {
    async fn run(mut self, first: ReceivedPush) {
        let mut ready = vec![ready_text(&first.push)];
        let mut next = Some(first);
        loop {
            let received = match next.take() {
                Some(first) => Some(first),
                None => tokio::select! {
                    push = self.received.recv() => push,
                    () = self.texts.closed() => return,
                },
            };
            let texts = match &received {
                Some(ReceivedPush { push: FeedPush::Batch(batch), .. }) => texts_of(batch),
                Some(ReceivedPush { push: FeedPush::End(end), .. }) => {
                    let detail = "the server no longer has all transactions";
                    vec![end_text("LOGPURGED", detail, Some(end.oldest))]
                }
                None => vec![end_text("CONNECTIONLOSS", "the server stops, or its role has changed", None)],
            };
            for text in ready.drain(..).chain(texts) {
                if self.texts.send(text).await.is_err() {
                    return;
                }
            }
            match received {
                Some(ReceivedPush { push: FeedPush::Batch(_), bytes }) => self.grant(bytes).await,
                Some(ReceivedPush { push: FeedPush::End(_), .. }) | None => return,
            }
        }
    }

    /// Grants the bytes of a push again. A connection that has ended ends the stream with the next push.
    async fn grant(&self, bytes: usize) {
        let credit = i32::try_from(bytes).unwrap_or(CREDIT_BYTES);
        let body = encoded(&FeedCredit { feed: self.feed, credit });
        let _ = self.connection.call(OpCode::FeedCredit, body).await;
    }
}

/// The first event: where the feed begins.
fn ready_text(first: &FeedPush) -> Bytes {
    match first {
        FeedPush::Batch(batch) => {
            event_text("ready", Some(batch.from), &json!({ "zxid": values::hex(batch.from) }))
        }
        FeedPush::End(_) => Bytes::new(),
    }
}

/// The events of a batch. A comment with an id is a progress mark: it moves the place of a client that comes
/// back, and is no event.
fn texts_of(batch: &FeedBatch) -> Vec<Bytes> {
    let mut texts: Vec<Bytes> = batch.records.iter().map(text_of).collect();
    if batch.records.last().is_none_or(|last| last.zxid < batch.to) {
        texts.push(Bytes::from(format!(": progress\nid: {:#x}\n\n", batch.to)));
    }
    texts
}

fn text_of(record: &FeedRecord) -> Bytes {
    let data = json!({
        "zxid": values::hex(record.zxid),
        "time": record.time_ms,
        "session": values::hex(record.session),
        "changes": record.changes.iter().map(change).collect::<Vec<_>>(),
    });
    event_text("change", Some(record.zxid), &data)
}

fn change(change: &FeedChange) -> Value {
    let mut object = Map::new();
    let mut set = |name: &str, value: Value| object.insert(name.to_owned(), value);
    let (name, is_node) = match change.kind {
        ChangeKind::Created => ("created", true),
        ChangeKind::Deleted => ("deleted", true),
        ChangeKind::DataChanged => ("data", true),
        ChangeKind::AclChanged => ("acl", true),
        ChangeKind::SessionOpened => ("sessionOpened", false),
        ChangeKind::SessionEnded => ("sessionEnded", false),
    };
    set("type", json!(name));
    if is_node {
        set("path", json!(change.path));
    }
    if is_node && change.kind != ChangeKind::Deleted {
        set("version", json!(change.version));
    }
    if change.kind == ChangeKind::Created {
        let lifetime = match change.owner {
            CreatedOwner::Plain => "persistent",
            CreatedOwner::Ephemeral => "ephemeral",
            CreatedOwner::Container => "container",
            CreatedOwner::Ttl => "ttl",
        };
        set("lifetime", json!(lifetime));
    }
    match change.data.as_deref().map(|data| (data, std::str::from_utf8(data))) {
        Some((_, Ok(text))) => set("data", json!(text)),
        Some((data, Err(_))) => set("base64", values::base64_data(Some(data))),
        None => None,
    };
    Value::Object(object)
}

fn end_text(code: &str, detail: &str, oldest: Option<i64>) -> Bytes {
    let mut reason = json!({ "code": code, "detail": detail });
    if let (Some(object), Some(oldest)) = (reason.as_object_mut(), oldest) {
        object.insert("oldest".to_owned(), values::hex(oldest));
    }
    event_text("end", None, &reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(zxid: i64, data: &[u8]) -> FeedRecord {
        let change = FeedChange {
            kind: ChangeKind::Created,
            path: "/a".into(),
            version: 0,
            data: Some(data.into()),
            owner: CreatedOwner::Ttl,
        };
        FeedRecord { zxid, time_ms: 7, session: 9, changes: vec![change] }
    }

    #[test]
    fn a_transaction_is_an_event_and_progress_is_none() {
        let text = String::from_utf8(text_of(&record(0x10, b"x")).to_vec()).unwrap();
        let data = r#"{"changes":[{"data":"x","lifetime":"ttl","path":"/a","type":"created","version":0}],"#;
        let rest = r#""session":"0x9","time":7,"zxid":"0x10"}"#;
        assert_eq!(text, format!("event: change\nid: 0x10\ndata: {data}{rest}\n\n"));
        let binary = String::from_utf8(text_of(&record(0x10, &[255])).to_vec()).unwrap();
        assert!(binary.contains(r#""base64":"/w==""#), "{binary}");
        let batch = |to, records| FeedBatch { feed: 1, from: 0, to, records };
        assert_eq!(texts_of(&batch(0x10, vec![record(0x10, b"")])).len(), 1);
        let texts = texts_of(&batch(0x20, vec![record(0x10, b"")]));
        assert_eq!(texts[1], Bytes::from_static(b": progress\nid: 0x20\n\n"));
    }
}
