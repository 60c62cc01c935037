//! A server in virtual time: the shipped tree and its watches behind a pipe, on one thread, with connections
//! that break, stall and lose answers and sessions that end, as often as it is told. It owns the only clock.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use zebu_client::{Connector, ServerAddress};
use zebu_proto::client::read::ReadRequest;
use zebu_proto::client::{
    ConnectRequest, ConnectResponse, ReplyHeader, Request, RequestHeader, WatcherEvent, WriteRequest,
};
use zebu_proto::frame::write_frame;
use zebu_proto::txn::TxnHeader;
use zebu_proto::{ErrorCode, Jute, OpCode, Reader, SessionId, Xid, Zxid};
use zebu_tree::watch::{WatchTable, WatcherId};
use zebu_tree::{
    Credentials, Overlay, Policy, PrepareContext, Reconfig, Tree, TreeOptions, TtlNodes, TxnOutcome,
};

use crate::answer;

/// The timeout of every session.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(12);

/// How often a learner tells its leader which sessions it has heard of: half a tick, if a session lasts two.
const REPORT: Duration = Duration::from_secs(3);

/// How often empty containers and TTL nodes whose time is up are removed.
const SWEEP: Duration = Duration::from_secs(1);

/// How much goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nothing.
    None,
    /// One request of so many, in these ways.
    OneIn(u64, Ways),
    /// Every second transaction stands still on its way for up to three seconds, and all behind it on its
    /// connection.
    SlowTransactions,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ways {
    /// Connections break and stall, sessions live.
    Cuts,
    /// Connections stall, or servers are cut off from their leader, for so long that sessions end too.
    Silence,
    /// Sessions also end before their time, of which no clock can know.
    Expiry,
}

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    CutBefore,
    CutAfter,
    /// Nothing of this connection is read for so long.
    Stall(Duration),
    /// The server of this connection does not reach its leader for so long. It answers what it can.
    CutOff(Duration),
    Expire,
}

struct Session {
    connection: u64,
    /// By its server.
    touched: Touched,
    /// By the leader, who decides about its end.
    heard: Instant,
}

/// What a server has to report of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Touched {
    Yes,
    No,
}

pub(crate) struct State {
    pub(crate) tree: Tree,
    overlay: Overlay,
    pub(crate) watches: WatchTable,
    connections: BTreeMap<u64, UnboundedSender<Vec<u8>>>,
    sessions: BTreeMap<i64, Session>,
    /// Sessions whose clients cannot reach the server, and until when.
    deaf: BTreeMap<i64, Instant>,
    /// Connections to servers that do not reach their leader.
    cut_off: BTreeMap<u64, Instant>,
    next: u64,
    zxid: i64,
    started: Instant,
    swept: Instant,
    reported: Instant,
    random: u64,
    trouble: Trouble,
    /// Faults that were made.
    pub(crate) faults: usize,
}

/// A handle of the server; it is also the way to connect to it.
#[derive(Clone)]
pub(crate) struct Server(Arc<Mutex<State>>);

impl Server {
    /// Must be called inside the runtime whose time it uses.
    pub(crate) fn new(seed: u64, trouble: Trouble) -> Server {
        let options = TreeOptions { ttl_nodes: TtlNodes::Enabled, ..TreeOptions::default() };
        let server = Server(Arc::new(Mutex::new(State {
            tree: Tree::new(options),
            overlay: Overlay::new(0),
            watches: WatchTable::new(0),
            connections: BTreeMap::new(),
            sessions: BTreeMap::new(),
            deaf: BTreeMap::new(),
            cut_off: BTreeMap::new(),
            next: 1,
            zxid: 0,
            started: Instant::now(),
            swept: Instant::now(),
            reported: Instant::now(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            trouble,
            faults: 0,
        })));
        let ticking = Arc::downgrade(&server.0);
        tokio::spawn(async move {
            while let Some(state) = ticking.upgrade() {
                {
                    let mut state = state.lock().expect("not poisoned");
                    state.report();
                    state.expire_silent();
                    state.sweep();
                }
                drop(state);
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        server
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("not poisoned")
    }

    pub(crate) fn trouble(&self, trouble: Trouble) {
        self.state().trouble = trouble;
    }

    pub(crate) fn calm(&self) {
        self.trouble(Trouble::None);
    }

    /// The names of a node's children; none if it is not there.
    pub(crate) fn children(&self, path: &str) -> Vec<String> {
        let state = self.state();
        state.tree.node(path).map_or_else(Vec::new, |node| node.children().map(Into::into).collect())
    }

    async fn serve(self, stream: DuplexStream) -> io::Result<()> {
        let (mut from, to) = tokio::io::split(stream);
        let first = frame(&mut from).await?;
        let request = ConnectRequest::decode(&mut Reader::new(&first)).expect("a connect request");
        let (outbox, out) = unbounded_channel();
        tokio::spawn(send(to, out));
        let Some((session, connection)) = self.state().attach(&request, outbox) else { return Ok(()) };
        let ended = self.answer_all(&mut from, session, connection).await;
        let mut state = self.state();
        state.cut_off.remove(&connection);
        state.detach(connection);
        ended
    }

    async fn answer_all(
        &self,
        from: &mut ReadHalf<DuplexStream>,
        session: i64,
        connection: u64,
    ) -> io::Result<()> {
        loop {
            let request = frame(from).await?;
            let fault = self.state().fault(&request);
            match fault {
                Fault::CutBefore => return Ok(()),
                Fault::Stall(time) => {
                    if time >= TIMEOUT {
                        // No other connection helps.
                        self.state().deaf.insert(session, Instant::now() + time);
                    }
                    tokio::time::sleep(time).await;
                }
                Fault::CutOff(time) => {
                    self.state().cut_off.insert(connection, Instant::now() + time);
                }
                Fault::None | Fault::CutAfter | Fault::Expire => {}
            }
            let cut_off = self.state().cut_off.get(&connection).copied();
            if let Some(until) = cut_off
                && (Instant::now() >= until || !is_answered_alone(&request))
            {
                // The leader does not answer; in the end the server gives it up, and its clients.
                tokio::time::sleep_until(until).await;
                return Ok(());
            }
            let mut state = self.state();
            if fault == Fault::Expire {
                state.expire(session);
            }
            let Some(answer) = state.handle(session, connection, &request) else { return Ok(()) };
            if fault == Fault::CutAfter {
                return Ok(());
            }
            if let Some(outbox) = state.connections.get(&connection) {
                // A client that has gone needs no answer.
                let _ = outbox.send(answer);
            }
        }
    }
}

/// Whether a server answers this without its leader; what it would say of other nodes is not known here.
fn is_answered_alone(request: &[u8]) -> bool {
    let mut reader = Reader::new(request);
    match RequestHeader::decode(&mut reader) {
        Ok(header) if header.xid == Xid::PING.0 => true,
        Ok(header) => matches!(
            Request::decode(header.op, &mut reader),
            Ok(Request::Read(ReadRequest::Exists(path, _))) if &*path == "/"
        ),
        Err(_) => false,
    }
}

async fn send(mut to: WriteHalf<DuplexStream>, mut out: UnboundedReceiver<Vec<u8>>) {
    while let Some(bytes) = out.recv().await {
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await?;
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

impl Connector for Server {
    type Stream = DuplexStream;

    async fn connect(&self, _server: &ServerAddress, _random: u64) -> io::Result<DuplexStream> {
        let (mine, theirs) = tokio::io::duplex(1 << 20);
        tokio::spawn(self.clone().serve(theirs));
        Ok(mine)
    }
}

impl State {
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Requests that clients make by themselves are left alone.
    fn fault(&mut self, request: &[u8]) -> Fault {
        let by_itself = RequestHeader::decode(&mut Reader::new(request)).is_ok_and(|header| header.xid < 0);
        let (rate, ways) = match self.trouble {
            Trouble::None => return Fault::None,
            Trouble::OneIn(rate, ways) => (rate, ways),
            Trouble::SlowTransactions => return self.slow_transaction(request),
        };
        if by_itself || !self.random().is_multiple_of(rate) {
            return Fault::None;
        }
        self.faults += 1;
        match self.random() % 9 {
            0 | 1 => Fault::CutBefore,
            2..=4 => Fault::CutAfter,
            // Longer than a client waits, or than a session lives.
            5 => Fault::Stall(Duration::from_millis(self.random() % 9_000)),
            6 if ways >= Ways::Silence => {
                Fault::Stall(TIMEOUT + Duration::from_millis(self.random() % 9_000))
            }
            7 if ways >= Ways::Expiry => Fault::Expire,
            8 if ways >= Ways::Silence => Fault::CutOff(Duration::from_millis(self.random() % 30_000)),
            _ => Fault::CutBefore,
        }
    }

    fn slow_transaction(&mut self, request: &[u8]) -> Fault {
        let is_transaction = RequestHeader::decode(&mut Reader::new(request))
            .is_ok_and(|header| OpCode::from_wire(header.op) == Some(OpCode::Multi));
        if !is_transaction || self.random().is_multiple_of(2) {
            return Fault::None;
        }
        self.faults += 1;
        Fault::Stall(Duration::from_millis(self.random() % 3_000))
    }

    /// The session and its connection; none if the session is not known, of which the client is told.
    fn attach(&mut self, request: &ConnectRequest, outbox: UnboundedSender<Vec<u8>>) -> Option<(i64, u64)> {
        self.expire_silent();
        if self.deaf.get(&request.session_id).is_some_and(|until| Instant::now() < *until) {
            return None;
        }
        let connection = self.next;
        self.next += 1;
        let known = self.sessions.contains_key(&request.session_id);
        let session = match request.session_id {
            0 => Some(0x1000 + connection as i64),
            session => known.then_some(session),
        };
        let timeout = i32::try_from(TIMEOUT.as_millis()).expect("small");
        let response = match session {
            Some(session) => ConnectResponse::accepted(SessionId(session), timeout, request.read_only),
            None => ConnectResponse::rejected(request.read_only),
        };
        let mut bytes = Vec::new();
        write_frame(&mut bytes, |out| response.encode(out));
        let _ = outbox.send(bytes);
        let session = session?;
        if !known {
            self.write(session, 0, WriteRequest::CreateSession { timeout_ms: timeout });
        }
        let former = self
            .sessions
            .insert(session, Session { connection, touched: Touched::No, heard: Instant::now() });
        if let Some(former) = former {
            self.detach(former.connection);
        }
        self.connections.insert(connection, outbox);
        Some((session, connection))
    }

    fn detach(&mut self, connection: u64) {
        // A server that is cut off does not hear of it.
        if !self.cut_off.contains_key(&connection) {
            self.connections.remove(&connection);
        }
        self.watches.remove_watcher(WatcherId(connection));
    }

    /// Learners tell the leader whom they have heard of, if they can.
    fn report(&mut self) {
        if self.reported.elapsed() < REPORT {
            return;
        }
        self.reported = Instant::now();
        for session in self.sessions.values_mut() {
            if session.touched == Touched::Yes && !self.cut_off.contains_key(&session.connection) {
                session.touched = Touched::No;
                session.heard = self.reported;
            }
        }
    }

    fn expire_silent(&mut self) {
        let silent = |session: &Session| session.heard.elapsed() >= TIMEOUT;
        let dead: Vec<i64> =
            self.sessions.iter().filter(|(_, session)| silent(session)).map(|(id, _)| *id).collect();
        dead.into_iter().for_each(|session| self.expire(session));
    }

    /// Much more often than a real server does: directories go away whenever they can.
    fn sweep(&mut self) {
        if self.swept.elapsed() >= SWEEP {
            self.swept = Instant::now();
            for path in self.tree.removable(self.now_ms(), 0) {
                self.write(0, 0, WriteRequest::DeleteContainer { path });
            }
        }
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).expect("small")
    }

    pub(crate) fn expire(&mut self, session: i64) {
        if let Some(ended) = self.sessions.remove(&session) {
            self.write(session, 0, WriteRequest::CloseSession);
            self.detach(ended.connection);
        }
    }

    /// A whole frame, or nothing if the connection is over.
    fn handle(&mut self, session: i64, connection: u64, request: &[u8]) -> Option<Vec<u8>> {
        self.expire_silent();
        // A session that has moved or ended takes nothing from its old connection, if the server knows.
        let current = self.sessions.get_mut(&session).filter(|one| one.connection == connection);
        match current {
            Some(current) => current.touched = Touched::Yes,
            None if self.cut_off.contains_key(&connection) => {}
            None => return None,
        }
        let mut reader = Reader::new(request);
        let header = RequestHeader::decode(&mut reader).expect("a header");
        let request = Request::decode(header.op, &mut reader).expect("a request");
        let mut body = Vec::new();
        let result = match request {
            Request::Write(WriteRequest::CloseSession) => {
                self.sessions.remove(&session);
                self.write(session, header.xid, WriteRequest::CloseSession);
                Ok(())
            }
            Request::Write(write) => {
                let shape = answer::Shape::of(&write, header.op);
                let (txn, outcome) = self.write(session, header.xid, write);
                answer::encode(&shape, &outcome, &txn, &mut body)
            }
            Request::Read(read) => {
                let mut events = Vec::new();
                let watcher = WatcherId(connection);
                let read =
                    answer::read(&self.tree, &mut self.watches, watcher, &read, &mut events, &mut body);
                events.into_iter().for_each(|(kind, path)| self.event(connection, -1, kind, &path));
                read
            }
            Request::Auth(_) | Request::Sasl(_) => Ok(()),
        };
        let err = result.err().map_or(0, ErrorCode::wire);
        let mut bytes = Vec::new();
        write_frame(&mut bytes, |out| {
            ReplyHeader { xid: header.xid, zxid: self.zxid, err }.encode(out);
            if err == 0 {
                out.extend_from_slice(&body);
            }
        });
        Some(bytes)
    }

    fn event(&self, connection: u64, zxid: i64, kind: zebu_proto::client::EventType, path: &str) {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, |out| {
            ReplyHeader { xid: Xid::NOTIFICATION.0, zxid, err: 0 }.encode(out);
            WatcherEvent::encode_parts(kind, path, out);
        });
        if let Some(outbox) = self.connections.get(&connection)
            && !self.cut_off.contains_key(&connection)
        {
            let _ = outbox.send(bytes);
        }
    }

    /// Carries out a write; its events leave before its answer.
    fn write(&mut self, session: i64, xid: i32, request: WriteRequest) -> (zebu_proto::txn::Txn, TxnOutcome) {
        self.zxid += 1;
        let (zxid, time_ms) = (Zxid(self.zxid), self.now_ms());
        let header = TxnHeader { session: SessionId(session), cxid: xid, zxid, time_ms };
        let (credentials, policy) = (Credentials::none(), Policy::default());
        let context = PrepareContext {
            header,
            credentials: &credentials,
            session: Ok(()),
            ephemeral_session: Ok(()),
            policy: &policy,
            reconfig: Reconfig::Disabled,
        };
        let prepared = self.tree.prepare(&mut self.overlay, request, &context);
        let mut happened = Vec::new();
        let outcome = self.tree.apply(&context.header, &prepared.txn, &mut |event| {
            happened.push((event.kind, event.path.to_owned()));
        });
        self.overlay.applied(context.header.zxid);
        for (kind, path) in happened {
            let mut watchers = Vec::new();
            self.watches.fire(kind, &path, &mut |watcher| watchers.push(watcher.0));
            watchers.into_iter().for_each(|watcher| self.event(watcher, self.zxid, kind, &path));
        }
        (prepared.txn, outcome)
    }
}
