//! A server in virtual time: the shipped tree and its watches behind in-memory pipes, on one thread. Its
//! connections break, stall and lose replies, and its sessions end, at the configured rate.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash};
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

/// The interval at which a learner reports touched sessions to its leader: half a tick, if a session timeout
/// is two ticks.
const REPORT: Duration = Duration::from_secs(3);

/// The interval at which empty containers and expired TTL nodes are deleted.
const SWEEP: Duration = Duration::from_secs(1);

/// How often faults occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultRate {
    None,
    /// One request of this number has a fault of these kinds.
    OneIn(u64, FaultKinds),
    /// Every second multi is delayed for up to three seconds, with all later requests of its connection.
    SlowTransactions,
}

/// The kinds of faults; each includes the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultKinds {
    /// Connections break and stall; sessions live.
    Cuts,
    /// Connections stall, or servers lose their leader, for so long that sessions expire.
    Silence,
    /// Sessions also expire before their timeout, which no client clock can predict.
    Expiry,
}

/// The fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    CutBefore,
    CutAfter,
    /// The server does not read from this connection for this time.
    Stall(Duration),
    /// The server of this connection has no leader for this time. It answers pings and some reads.
    NoLeader(Duration),
    Expire,
}

struct Session {
    connection: u64,
    /// Whether its server has a touch to report.
    is_touched: bool,
    /// The last touch that the leader knows; the leader expires the session.
    last_touch: Instant,
}

pub(crate) struct State {
    pub(crate) tree: Tree,
    overlay: Overlay,
    pub(crate) watches: WatchTable,
    connections: BTreeMap<u64, UnboundedSender<Vec<u8>>>,
    sessions: BTreeMap<i64, Session>,
    /// The sessions whose clients cannot reach any server, and the end of that time.
    unreachable: BTreeMap<i64, Instant>,
    /// The connections to servers without a leader, and the end of that time.
    leaderless: BTreeMap<u64, Instant>,
    next: u64,
    zxid: i64,
    started: Instant,
    swept: Instant,
    reported: Instant,
    random: u64,
    fault_rate: FaultRate,
    /// A hash over all requests and their times.
    trace: DefaultHasher,
    /// The number of faults so far.
    pub(crate) faults: usize,
}

/// A handle of the server, and the connector of its clients.
#[derive(Clone)]
pub(crate) struct Server(Arc<Mutex<State>>);

impl Server {
    /// Call this inside the runtime whose clock it uses.
    pub(crate) fn new(seed: u64, fault_rate: FaultRate) -> Server {
        let options = TreeOptions { ttl_nodes: TtlNodes::Enabled, ..TreeOptions::default() };
        let server = Server(Arc::new(Mutex::new(State {
            tree: Tree::new(options),
            overlay: Overlay::new(0),
            watches: WatchTable::new(0),
            connections: BTreeMap::new(),
            sessions: BTreeMap::new(),
            unreachable: BTreeMap::new(),
            leaderless: BTreeMap::new(),
            next: 1,
            zxid: 0,
            started: Instant::now(),
            swept: Instant::now(),
            reported: Instant::now(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            fault_rate,
            trace: DefaultHasher::new(),
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

    pub(crate) fn set_faults(&self, fault_rate: FaultRate) {
        self.state().fault_rate = fault_rate;
    }

    pub(crate) fn stop_faults(&self) {
        self.set_faults(FaultRate::None);
    }

    /// The names of a node's children; none if the node does not exist.
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
        state.leaderless.remove(&connection);
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
            let fault = self.state().fault(session, &request);
            match fault {
                Fault::CutBefore => return Ok(()),
                Fault::Stall(time) => {
                    if time >= TIMEOUT {
                        // The client cannot reach another server either.
                        self.state().unreachable.insert(session, Instant::now() + time);
                    }
                    tokio::time::sleep(time).await;
                }
                Fault::NoLeader(time) => {
                    self.state().leaderless.insert(connection, Instant::now() + time);
                }
                Fault::None | Fault::CutAfter | Fault::Expire => {}
            }
            let leaderless = self.state().leaderless.get(&connection).copied();
            if let Some(until) = leaderless
                && (Instant::now() >= until || !is_answered_without_leader(&request))
            {
                // The leader does not answer: after this time the server closes its connections.
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
                // The client may have disconnected.
                let _ = outbox.send(answer);
            }
        }
    }
}

/// Whether a server without its leader answers this. The model keeps no old state for reads of other nodes.
fn is_answered_without_leader(request: &[u8]) -> bool {
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

    /// The fault of a request; none for pings and other requests of the client itself.
    fn fault(&mut self, session: i64, request: &[u8]) -> Fault {
        (self.started.elapsed(), session, request).hash(&mut self.trace);
        let is_internal = RequestHeader::decode(&mut Reader::new(request)).is_ok_and(|header| header.xid < 0);
        let (rate, kinds) = match self.fault_rate {
            FaultRate::None => return Fault::None,
            FaultRate::OneIn(rate, kinds) => (rate, kinds),
            FaultRate::SlowTransactions => return self.slow_transaction(request),
        };
        if is_internal || !self.random().is_multiple_of(rate) {
            return Fault::None;
        }
        self.faults += 1;
        match self.random() % 9 {
            0 | 1 => Fault::CutBefore,
            2..=4 => Fault::CutAfter,
            // Up to more than a client's read timeout; the next one is longer than a session timeout.
            5 => Fault::Stall(Duration::from_millis(self.random() % 9_000)),
            6 if kinds >= FaultKinds::Silence => {
                Fault::Stall(TIMEOUT + Duration::from_millis(self.random() % 9_000))
            }
            7 if kinds >= FaultKinds::Expiry => Fault::Expire,
            8 if kinds >= FaultKinds::Silence => {
                Fault::NoLeader(Duration::from_millis(self.random() % 30_000))
            }
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

    /// The session and its connection; `None` if the session is unknown. The reply goes to the outbox.
    fn attach(&mut self, request: &ConnectRequest, outbox: UnboundedSender<Vec<u8>>) -> Option<(i64, u64)> {
        self.expire_silent();
        if self.unreachable.get(&request.session_id).is_some_and(|until| Instant::now() < *until) {
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
            .insert(session, Session { connection, is_touched: false, last_touch: Instant::now() });
        if let Some(former) = former {
            self.detach(former.connection);
        }
        self.connections.insert(connection, outbox);
        Some((session, connection))
    }

    fn detach(&mut self, connection: u64) {
        // A server without a leader does not learn of it.
        if !self.leaderless.contains_key(&connection) {
            self.connections.remove(&connection);
        }
        self.watches.remove_watcher(WatcherId(connection));
    }

    /// Learners report touched sessions to the leader, if they have one.
    fn report(&mut self) {
        if self.reported.elapsed() < REPORT {
            return;
        }
        self.reported = Instant::now();
        for session in self.sessions.values_mut() {
            if session.is_touched && !self.leaderless.contains_key(&session.connection) {
                session.is_touched = false;
                session.last_touch = self.reported;
            }
        }
    }

    fn expire_silent(&mut self) {
        let is_silent = |session: &Session| session.last_touch.elapsed() >= TIMEOUT;
        let dead: Vec<i64> =
            self.sessions.iter().filter(|(_, session)| is_silent(session)).map(|(id, _)| *id).collect();
        dead.into_iter().for_each(|session| self.expire(session));
    }

    /// Deletes empty containers, much more often than a real server does.
    fn sweep(&mut self) {
        if self.swept.elapsed() >= SWEEP {
            self.swept = Instant::now();
            for path in self.tree.removable(self.now_ms(), 0) {
                self.write(0, 0, WriteRequest::DeleteContainer { path });
            }
        }
    }

    /// A digest of all requests so far and their times.
    pub(crate) fn trace(&self) -> u64 {
        std::hash::Hasher::finish(&self.trace)
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

    /// The frame of the reply; `None` if the connection is over.
    fn handle(&mut self, session: i64, connection: u64, request: &[u8]) -> Option<Vec<u8>> {
        self.expire_silent();
        // A session that has moved or ended accepts no request of its old connection, if the server knows.
        let current = self.sessions.get_mut(&session).filter(|one| one.connection == connection);
        match current {
            Some(current) => current.is_touched = true,
            None if self.leaderless.contains_key(&connection) => {}
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
                let shape = answer::ReplyShape::of(&write, header.op);
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
            // The features node is missing here, so no client sends these.
            Request::With(..) | Request::Hello(_) | Request::Feed(_) => Err(ErrorCode::Unimplemented),
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
            && !self.leaderless.contains_key(&connection)
        {
            let _ = outbox.send(bytes);
        }
    }

    /// Applies a write and sends its watch events, before the reply.
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
        let mut events = Vec::new();
        let outcome = self.tree.apply(&context.header, &prepared.txn, &mut |event| {
            events.push((event.kind, event.path.to_owned()));
        });
        self.overlay.applied(context.header.zxid);
        for (kind, path) in events {
            let mut watchers = Vec::new();
            self.watches.fire(kind, &path, &mut |watcher| watchers.push(watcher.0));
            watchers.into_iter().for_each(|watcher| self.event(watcher, self.zxid, kind, &path));
        }
        (prepared.txn, outcome)
    }
}
