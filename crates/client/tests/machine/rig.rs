//! The session machine with a hand on everything: the clock, the stream and the server's words.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use zebu_client::core::{
    CallOutcome, EventKind, FeedId, FeedSignal, LinkId, LogEvent, MechanismInput, ServerAddress, ServerList,
    SessionAction, SessionMachine, SessionRequest, SessionSettings, SessionState, WatchIntent,
    WatchRegistration, WatcherId,
};
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::client::{
    ConnectRequest, ConnectResponse, MovePush, ReplyHeader, RequestHeader, WatcherEvent,
};
use zebu_proto::frame::{Framed, LENGTH_SIZE, peek, write_frame};
use zebu_proto::{Jute, OpCode, Reader, SessionId};

pub(crate) const TIMEOUT: Duration = Duration::from_secs(12);
pub(crate) const SESSION: i64 = 0x1234;

/// A request that the client has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentRequest {
    pub(crate) xid: i32,
    pub(crate) op: i32,
    pub(crate) body: Vec<u8>,
}

/// See the module.
pub(crate) struct Rig {
    pub(crate) session: SessionMachine<u32>,
    pub(crate) now: Instant,
    pub(crate) opening: Option<(LinkId, ServerAddress)>,
    pub(crate) link: Option<LinkId>,
    /// The stream that is opened next to the open one.
    pub(crate) spare: Option<(LinkId, ServerAddress)>,
    spare_open: Option<LinkId>,
    /// The client has continued on the other stream, where its connect request waits for the answer.
    pub(crate) has_moved: bool,
    pub(crate) opened: Vec<ServerAddress>,
    pub(crate) written: Vec<u8>,
    pub(crate) ended: BTreeMap<u32, CallOutcome>,
    pub(crate) events: Vec<(u64, EventKind, String)>,
    /// What the feeds got.
    pub(crate) feed_signals: Vec<(FeedId, FeedSignal)>,
    pub(crate) states: Vec<SessionState>,
    /// The published state at the end of each call.
    pub(crate) states_at_end: BTreeMap<u32, Option<SessionState>>,
    pub(crate) probes: Vec<ServerAddress>,
    pub(crate) mechanism_inputs: Vec<(LinkId, ServerAddress, MechanismInput)>,
    pub(crate) log: Vec<LogEvent>,
    pub(crate) over: bool,
}

impl Rig {
    pub(crate) fn new(servers: &str, change: impl FnOnce(&mut SessionSettings)) -> Rig {
        let mut settings = SessionSettings { session_timeout: TIMEOUT, ..SessionSettings::default() };
        change(&mut settings);
        let list: ServerList = servers.parse().unwrap();
        let now = Instant::now();
        let mut rig = Rig {
            session: SessionMachine::new(settings, list.servers(), 7, now),
            now,
            opening: None,
            link: None,
            spare: None,
            spare_open: None,
            has_moved: false,
            opened: Vec::new(),
            written: Vec::new(),
            ended: BTreeMap::new(),
            events: Vec::new(),
            feed_signals: Vec::new(),
            states: Vec::new(),
            states_at_end: BTreeMap::new(),
            probes: Vec::new(),
            mechanism_inputs: Vec::new(),
            log: Vec::new(),
            over: false,
        };
        rig.pump();
        rig
    }

    /// A machine with a session.
    pub(crate) fn connected() -> Rig {
        let mut rig = Rig::new("a:1", |_| {});
        rig.accept();
        rig
    }

    /// Carries out what the machine asks for.
    pub(crate) fn pump(&mut self) {
        while let Some(action) = self.session.poll_action() {
            match action {
                SessionAction::Open { link, server, .. } => {
                    self.opened.push(server.clone());
                    let place = if self.link.is_some() { &mut self.spare } else { &mut self.opening };
                    *place = Some((link, server));
                }
                SessionAction::Drop { link } => {
                    self.opening.take_if(|(opening, _)| *opening == link);
                    self.spare.take_if(|(opening, _)| *opening == link);
                    self.spare_open.take_if(|open| *open == link);
                    if self.link.take_if(|open| *open == link).is_some() {
                        self.link = self.spare_open.take();
                        self.has_moved = self.link.is_some();
                    }
                }
                SessionAction::Authenticate { link, server, input } => {
                    self.mechanism_inputs.push((link, server, input));
                }
                SessionAction::Complete { token, outcome } => {
                    self.states_at_end.insert(token, self.states.last().copied());
                    assert!(self.ended.insert(token, outcome).is_none(), "call {token} ended twice");
                }
                SessionAction::Notify { watcher, event } => {
                    self.events.push((watcher.0, event.kind, event.path.to_string()));
                }
                SessionAction::Feed { feed, signal } => self.feed_signals.push((feed, signal)),
                SessionAction::Status(status) => self.states.push(status.state),
                SessionAction::Probe { server } => self.probes.push(server),
                SessionAction::Log(event) => self.log.push(event),
                SessionAction::End => self.over = true,
            }
        }
    }

    /// Takes what is written now.
    pub(crate) fn write(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.session.poll_write(self.now, &mut out);
        self.written.extend_from_slice(&out);
        out
    }

    /// The requests in what is written now.
    pub(crate) fn requests(&mut self) -> Vec<SentRequest> {
        let bytes = self.write();
        payloads(&bytes).into_iter().map(|payload| decode_request(&payload)).collect()
    }

    /// Opens the stream; returns the connect request.
    pub(crate) fn open(&mut self) -> ConnectRequest {
        for _ in 0..60 {
            if self.opening.is_none() {
                self.pass(Duration::from_millis(100));
            }
        }
        let (link, _) = self.opening.take().expect("the machine wants to connect");
        self.link = Some(link);
        self.session.opened(self.now, link);
        self.pump();
        let bytes = self.write();
        ConnectRequest::decode(&mut Reader::new(&payloads(&bytes)[0])).unwrap()
    }

    /// Opens the stream next to the open one.
    pub(crate) fn open_spare(&mut self) {
        let (link, _) = self.spare.take().expect("the machine dials another server");
        self.spare_open = Some(link);
        self.session.opened(self.now, link);
        self.pump();
    }

    /// The stream next to the open one cannot be opened.
    pub(crate) fn lose_spare(&mut self) {
        let (link, _) = self.spare.take().expect("the machine dials another server");
        self.session.lost(self.now, link, "refused by the test");
        self.pump();
    }

    /// Accepts the session on the connection to which the client has moved. Returns the connect request.
    pub(crate) fn greet(&mut self) -> ConnectRequest {
        assert!(std::mem::take(&mut self.has_moved), "the client has moved");
        let bytes = self.write();
        let request = ConnectRequest::decode(&mut Reader::new(&payloads(&bytes)[0])).unwrap();
        let timeout_ms = TIMEOUT.as_millis() as i32;
        let id = SessionId(request.session_id);
        self.respond(&ConnectResponse::accepted(id, timeout_ms, request.read_only));
        request
    }

    pub(crate) fn respond(&mut self, response: &ConnectResponse) {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, |out| response.encode(out));
        self.receive(&bytes);
    }

    /// Connects and accepts, with the session that was asked for or a new one.
    pub(crate) fn accept(&mut self) -> ConnectRequest {
        self.accept_as(SESSION, false)
    }

    pub(crate) fn accept_as(&mut self, new_session: i64, read_only: bool) -> ConnectRequest {
        let request = self.open();
        let id = if request.session_id == 0 { new_session } else { request.session_id };
        let mut response =
            ConnectResponse::accepted(SessionId(id), TIMEOUT.as_millis() as i32, request.read_only);
        response.read_only = ReadOnlyField::Present(read_only);
        self.respond(&response);
        request
    }

    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        if let Some(link) = self.link {
            self.session.received(self.now, link, bytes);
            self.pump();
        }
    }

    pub(crate) fn reply(&mut self, xid: i32, zxid: i64, err: i32, body: &[u8]) {
        self.receive(&reply(xid, zxid, err, body));
    }

    pub(crate) fn lose(&mut self) {
        let link = self.link.or(self.opening.as_ref().map(|(link, _)| *link)).expect("a link");
        self.session.lost(self.now, link, "cut by the test");
        self.pump();
    }

    /// Lets time pass, from deadline to deadline.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..100_000 {
            match self.session.deadline() {
                Some(deadline) if deadline <= end => {
                    self.now = self.now.max(deadline);
                    self.session.tick(self.now);
                    self.pump();
                    self.write();
                }
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("the machine is busy without end");
    }

    pub(crate) fn call(&mut self, token: u32, op: OpCode, body: &[u8]) {
        self.call_on(token, op, body, None);
    }

    /// A call that may leave on this connection only.
    pub(crate) fn call_on(&mut self, token: u32, op: OpCode, body: &[u8], connection: Option<u64>) {
        let (body, disconnects_seen) = (Bytes::copy_from_slice(body), self.session.disconnects());
        let request = SessionRequest { op, body, watch: None, disconnects_seen, connection };
        self.session.submit(self.now, request, token);
        self.pump();
    }

    /// Opens a feed, with an empty body in place of the request.
    pub(crate) fn open_feed(&mut self, token: u32, feed: FeedId) {
        let (disconnects_seen, connection) = (self.session.disconnects(), None);
        let (op, body) = (OpCode::Feed, Bytes::new());
        let request = SessionRequest { op, body, watch: None, disconnects_seen, connection };
        self.session.open_feed(self.now, request, feed, token);
        self.pump();
    }

    pub(crate) fn watch(&mut self, token: u32, intent: WatchIntent, path: &str) {
        let watch = WatchRegistration { watcher: WatcherId(token.into()), intent, path: path.into() };
        let op = match intent {
            WatchIntent::Data => OpCode::GetData,
            WatchIntent::Exists => OpCode::Exists,
            WatchIntent::Children => OpCode::GetChildren2,
            WatchIntent::Persistent | WatchIntent::Recursive => OpCode::AddWatch,
        };
        let (disconnects_seen, connection) = (self.session.disconnects(), None);
        let (body, watch) = (Bytes::new(), Some(watch));
        let request = SessionRequest { op, body, watch, disconnects_seen, connection };
        self.session.submit(self.now, request, token);
        self.pump();
    }

    pub(crate) fn state(&self) -> SessionState {
        self.session.status().state
    }
}

pub(crate) fn payloads(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Framed::Complete { length } = peek(bytes, usize::MAX) {
        all.push(bytes[LENGTH_SIZE..LENGTH_SIZE + length].to_vec());
        bytes = &bytes[LENGTH_SIZE + length..];
    }
    assert!(bytes.is_empty(), "only whole frames are written");
    all
}

pub(crate) fn decode_request(payload: &[u8]) -> SentRequest {
    let mut reader = Reader::new(payload);
    let header = RequestHeader::decode(&mut reader).unwrap();
    SentRequest { xid: header.xid, op: header.op, body: reader.rest().to_vec() }
}

pub(crate) fn reply(xid: i32, zxid: i64, err: i32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, |out| {
        ReplyHeader { xid, zxid, err }.encode(out);
        out.extend_from_slice(body);
    });
    bytes
}

/// A push of a server that stops.
pub(crate) fn push(kind: i32) -> Vec<u8> {
    let mut body = Vec::new();
    MovePush { kind, time_ms: 5000 }.encode(&mut body);
    reply(-23106, 9, 0, &body)
}

pub(crate) fn event(kind: i32, path: &str, zxid: i64) -> Vec<u8> {
    let mut body = Vec::new();
    WatcherEvent { kind, state: 3, path: Some(path.into()) }.encode(&mut body);
    reply(-1, zxid, 0, &body)
}
