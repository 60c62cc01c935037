//! A client of the own server: sends the requests of one identity on a connection within the process.
//!
//! Writes need the ordinary path of a client's request: its order, ACLs, quotas, audit and commits in every
//! role. So the API speaks the client protocol with the server, on a pipe instead of a socket, and has no
//! second way into the node. `zebu-client` is not used: it reconnects, repeats and moves between servers,
//! while the API must say of each request whether it was executed.
//!
//! One task drives a connection. It pings, and ends its session when it was idle or is dropped.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use zebu_proto::client::connect::{ReadOnlyField, empty_password};
use zebu_proto::client::{
    ConnectRequest, ConnectResponse, EventType, FeedPush, ReplyHeader, RequestHeader, WatcherEvent,
};
use zebu_proto::frame::{self, Framed, LENGTH_SIZE};
use zebu_proto::password::session_password;
use zebu_proto::{ErrorCode, Jute, OpCode, Reader, SessionId, Xid};
use zebu_server::views::{LocalCaller, LocalConnectionRefusal, ServerViews};

/// How long the server may take to open a session.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The session timeout that is asked for. The server may shorten or prolong it.
const SESSION_TIMEOUT_MS: i32 = 30_000;
/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// A connection without requests for this long ends its session.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the end of a session may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Requests of one connection that have no reply.
const PENDING_MAX: usize = 64;
/// Requests that wait for their turn.
const COMMANDS_WAITING: usize = 64;
/// Unsent bytes above which no further request is taken.
const UNSENT_MAX: usize = 256 << 10;
/// Bytes of the longest reply.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// Bytes of the paths of events that wait for their client.
const EVENT_BYTES_MAX: usize = 2 << 20;

/// Why a connection is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("{0}")]
    Refused(#[from] LocalConnectionRefusal),
    #[error("the server opened no session")]
    NotServing,
    #[error("there is no such session")]
    NoSession,
}

/// Why a request has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    #[error("the request was not sent")]
    NotSent,
    #[error("the connection ended before the reply; the write may have been executed")]
    Lost,
    #[error("there was no reply in time; the write may have been executed")]
    Timeout,
}

/// The reply to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) zxid: i64,
    pub(crate) error: Option<ErrorCode>,
    /// The bytes behind the header.
    pub(crate) body: Bytes,
}

/// A watch event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedEvent {
    pub(crate) kind: EventType,
    pub(crate) path: String,
    pub(crate) zxid: i64,
}

/// Where watch events go.
#[derive(Clone, Debug)]
pub(crate) struct EventSink {
    pub(crate) events: mpsc::Sender<ReceivedEvent>,
    pub(crate) backlog: Arc<EventBacklog>,
}

/// A push of a feed.
#[derive(Debug)]
pub(crate) struct ReceivedPush {
    pub(crate) push: FeedPush,
    /// Its bytes of the credit.
    pub(crate) bytes: usize,
}

/// Where the server's own messages go.
#[derive(Clone, Debug)]
pub(crate) enum ConnectionSink {
    Events(EventSink),
    /// The credit of the feed bounds it.
    Feed(mpsc::UnboundedSender<ReceivedPush>),
}

/// The events that wait for their client.
#[derive(Debug, Default)]
pub(crate) struct EventBacklog {
    /// Bytes of their paths.
    pub(crate) bytes: AtomicUsize,
    /// Set when an event found no room. The connection ends then.
    pub(crate) is_overrun: AtomicBool,
}

struct QueuedCall {
    op: OpCode,
    body: Vec<u8>,
    reply: oneshot::Sender<Result<Reply, CallError>>,
}

/// The handle of an open connection.
#[derive(Clone, Debug)]
pub(crate) struct RequestConnection {
    commands: mpsc::Sender<QueuedCall>,
}

/// Which session a connection gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionChoice {
    New,
    /// Takes over a session, as a client that reconnects does.
    Existing(SessionId),
}

impl RequestConnection {
    /// Opens a connection with a session.
    pub(crate) async fn open(
        views: &ServerViews,
        caller: LocalCaller,
        session: SessionChoice,
        sink: Option<ConnectionSink>,
    ) -> Result<RequestConnection, OpenError> {
        let mut stream = views.open_connection(caller)?;
        let handshake = timeout(CONNECT_TIMEOUT, connect(&mut stream, session)).await;
        let response = handshake.map_err(|_| OpenError::NotServing)?.map_err(|_| OpenError::NotServing)?;
        if response.session_id == 0 {
            return Err(OpenError::NoSession);
        }
        let (commands, receiver) = mpsc::channel(COMMANDS_WAITING);
        let (reader, writer) = tokio::io::split(stream);
        let ping_interval = Duration::from_millis(u64::from(response.timeout_ms.unsigned_abs()).max(300) / 3);
        let driver = ConnectionDriver {
            reader,
            writer,
            commands: receiver,
            sink,
            ping_interval,
            pending: VecDeque::new(),
            output: BytesMut::new(),
            input: BytesMut::new(),
            next_xid: 1,
            last_use: Instant::now(),
        };
        tokio::spawn(driver.run());
        Ok(RequestConnection { commands })
    }

    /// Whether the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.commands.is_closed()
    }

    /// Resolves when the connection has ended.
    pub(crate) async fn closed(&self) {
        self.commands.closed().await;
    }

    /// Sends a request and waits for its reply.
    pub(crate) async fn call(&self, op: OpCode, body: Vec<u8>) -> Result<Reply, CallError> {
        let (reply, replied) = oneshot::channel();
        let command = QueuedCall { op, body, reply };
        let deadline = Instant::now() + REQUEST_TIMEOUT;
        match tokio::time::timeout_at(deadline, self.commands.send(command)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Err(CallError::NotSent),
        }
        match tokio::time::timeout_at(deadline, replied).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(CallError::Lost),
            Err(_) => Err(CallError::Timeout),
        }
    }
}

async fn connect(stream: &mut DuplexStream, session: SessionChoice) -> io::Result<ConnectResponse> {
    let (session_id, password) = match session {
        SessionChoice::New => (0, empty_password()),
        SessionChoice::Existing(id) => (id.0, Some(Arc::from(session_password(id)))),
    };
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: SESSION_TIMEOUT_MS,
        session_id,
        password,
        read_only: ReadOnlyField::Present(false),
    };
    let mut bytes = Vec::new();
    frame::write_frame(&mut bytes, |out| request.encode(out));
    stream.write_all(&bytes).await?;
    let mut input = BytesMut::new();
    loop {
        if let Some(payload) = take_frame(&mut input)? {
            return ConnectResponse::decode(&mut Reader::new(&payload)).map_err(io::Error::other);
        }
        if stream.read_buf(&mut input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Takes a complete frame from the received bytes.
fn take_frame(input: &mut BytesMut) -> io::Result<Option<Bytes>> {
    match frame::peek(input, REPLY_BYTES_MAX) {
        Framed::Partial => Ok(None),
        Framed::Refused { .. } => Err(io::ErrorKind::InvalidData.into()),
        Framed::Complete { length } => {
            input.advance(LENGTH_SIZE);
            Ok(Some(input.split_to(length).freeze()))
        }
    }
}

struct PendingCall {
    xid: i32,
    reply: oneshot::Sender<Result<Reply, CallError>>,
}

/// The task of a connection.
struct ConnectionDriver {
    reader: ReadHalf<DuplexStream>,
    writer: WriteHalf<DuplexStream>,
    commands: mpsc::Receiver<QueuedCall>,
    sink: Option<ConnectionSink>,
    ping_interval: Duration,
    /// Requests without a reply, in the order of their replies.
    pending: VecDeque<PendingCall>,
    output: BytesMut,
    input: BytesMut,
    next_xid: i32,
    last_use: Instant,
}

/// Why the task stops to take requests.
enum DriverEnd {
    /// The connection failed or was closed by the server.
    Failed,
    /// The session is to be ended.
    Finished,
}

impl ConnectionDriver {
    async fn run(mut self) {
        let end = self.serve().await;
        // Requests that come from now on are not sent, and their callers may use another connection.
        self.commands.close();
        while let Some(command) = self.commands.recv().await {
            let _ = command.reply.send(Err(CallError::NotSent));
        }
        if matches!(end, DriverEnd::Finished) {
            let _ = timeout(CLOSE_TIMEOUT, self.close_session()).await;
        }
    }

    async fn serve(&mut self) -> DriverEnd {
        let mut ping = tokio::time::interval_at(Instant::now() + self.ping_interval, self.ping_interval);
        loop {
            let may_take = self.pending.len() < PENDING_MAX && self.output.len() < UNSENT_MAX;
            tokio::select! {
                command = self.commands.recv(), if may_take => match command {
                    Some(command) => self.send(command),
                    None => return DriverEnd::Finished,
                },
                written = self.writer.write_buf(&mut self.output), if !self.output.is_empty() => {
                    if !matches!(written, Ok(count) if count > 0) {
                        return DriverEnd::Failed;
                    }
                }
                read = self.reader.read_buf(&mut self.input) => {
                    if !matches!(read, Ok(count) if count > 0) {
                        return DriverEnd::Failed;
                    }
                    if self.receive().is_err() {
                        return if self.is_overrun() { DriverEnd::Finished } else { DriverEnd::Failed };
                    }
                }
                _ = ping.tick() => {
                    let is_idle = self.pending.is_empty() && self.last_use.elapsed() >= IDLE_TIMEOUT;
                    if is_idle && self.sink.is_none() {
                        return DriverEnd::Finished;
                    }
                    self.append(Xid::PING.0, OpCode::Ping, &[]);
                }
            }
        }
    }

    /// Whether an event found no room. The connection is in order then, so that its session can be ended.
    fn is_overrun(&self) -> bool {
        match &self.sink {
            Some(ConnectionSink::Events(sink)) => sink.backlog.is_overrun.load(Ordering::Acquire),
            Some(ConnectionSink::Feed(_)) | None => false,
        }
    }

    fn send(&mut self, command: QueuedCall) {
        let QueuedCall { op, body, reply } = command;
        let xid = self.next_xid;
        self.next_xid = self.next_xid.checked_add(1).unwrap_or(1);
        self.last_use = Instant::now();
        self.append(xid, op, &body);
        self.pending.push_back(PendingCall { xid, reply });
    }

    fn append(&mut self, xid: i32, op: OpCode, body: &[u8]) {
        let mut bytes = Vec::with_capacity(body.len() + 12);
        frame::write_frame(&mut bytes, |out| {
            RequestHeader { xid, op: op.wire() }.encode(out);
            out.extend_from_slice(body);
        });
        self.output.extend_from_slice(&bytes);
    }

    /// Processes all complete frames.
    fn receive(&mut self) -> io::Result<()> {
        while let Some(payload) = take_frame(&mut self.input)? {
            let mut reader = Reader::new(&payload);
            let header = ReplyHeader::decode(&mut reader).map_err(io::Error::other)?;
            if header.xid == Xid::PING.0 {
                continue;
            }
            if header.xid == Xid::NOTIFICATION.0 {
                let event = WatcherEvent::decode(&mut reader).map_err(io::Error::other)?;
                self.pass_event(&event, header.zxid)?;
                continue;
            }
            if header.xid == Xid::PUSH.0 {
                self.pass_push(&payload[reader.position()..])?;
                continue;
            }
            let call = self.pending.pop_front().filter(|call| call.xid == header.xid);
            let call = call.ok_or(io::ErrorKind::InvalidData)?;
            self.last_use = Instant::now();
            let error = match header.err {
                0 => None,
                code => Some(ErrorCode::from_wire(code).unwrap_or(ErrorCode::MarshallingError)),
            };
            let body = payload.slice(reader.position()..);
            let _ = call.reply.send(Ok(Reply { zxid: header.zxid, error, body }));
        }
        Ok(())
    }

    fn pass_push(&self, body: &[u8]) -> io::Result<()> {
        let push = FeedPush::decode(&mut Reader::new(body)).map_err(io::Error::other)?;
        if let (Some(push), Some(ConnectionSink::Feed(pushes))) = (push, &self.sink) {
            let received = ReceivedPush { push, bytes: body.len() };
            // The stream may be gone; its end ends the session.
            let _ = pushes.send(received);
        }
        Ok(())
    }

    fn pass_event(&self, event: &WatcherEvent, zxid: i64) -> io::Result<()> {
        let (Some(ConnectionSink::Events(sink)), Some(kind), Some(path)) =
            (&self.sink, EventType::from_wire(event.kind), event.path.as_deref())
        else {
            return Ok(());
        };
        let waiting = sink.backlog.bytes.fetch_add(path.len(), Ordering::AcqRel) + path.len();
        let passed = match waiting > EVENT_BYTES_MAX {
            true => false,
            false => sink.events.try_send(ReceivedEvent { kind, path: path.to_owned(), zxid }).is_ok(),
        };
        if passed {
            return Ok(());
        }
        sink.backlog.is_overrun.store(true, Ordering::Release);
        Err(io::ErrorKind::BrokenPipe.into())
    }

    /// Ends the session and waits for the end of the connection.
    async fn close_session(&mut self) {
        let xid = self.next_xid;
        self.append(xid, OpCode::CloseSession, &[]);
        while !self.output.is_empty() {
            if self.writer.write_buf(&mut self.output).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let mut rest = BytesMut::new();
        while self.reader.read_buf(&mut rest).await.unwrap_or(0) > 0 {
            rest.clear();
        }
    }
}
