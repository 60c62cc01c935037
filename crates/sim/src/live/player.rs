//! A client of a real ensemble without its socket: the shipped session state machine, a workload and a record
//! of every frame. The driver opens the connections and moves the bytes.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use zebu_client::core::{
    CallOutcome, LinkId, ServerAddress, ServerReply, SessionAction, SessionMachine, SessionPolicy,
    SessionRequest, SessionSettings, SessionState, WatchRegistration, WatcherId,
};
use zebu_proto::{Jute, Reader, SessionId};

use super::record::{ClientRecord, RecordKind};
use super::workload::LiveWorkload;
use crate::client::{FrameObserver, ReceivedFrame, SentFrame};
use crate::operation::{NodePath, Operation, ReadOperation, WriteOperation};

/// The call number of a request that the session state machine sends by itself.
const OWN: usize = usize::MAX;

/// A request to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayerRequest {
    /// Open a connection, then report [`Player::opened`] or [`Player::lost`].
    Open {
        /// The address to connect to.
        server: SocketAddr,
        /// The timeout of the connection attempt.
        patience: Duration,
    },
    /// Drop the connection.
    Drop,
}

/// A client.
pub struct Player {
    client: usize,
    session: SessionMachine<usize>,
    link: Option<LinkId>,
    wire: FrameObserver,
    /// Calls that the session state machine has accepted and not sent yet, in order.
    waiting: VecDeque<usize>,
    /// Calls that are not completed.
    open: BTreeMap<usize, Operation>,
    number: usize,
    watchers: u64,
    workload: LiveWorkload,
    held: Option<SessionId>,
    records: Vec<ClientRecord>,
    orders: VecDeque<PlayerRequest>,
    writes_acknowledged: u64,
    found: Vec<String>,
}

impl Player {
    /// A client that may connect to any of these servers. The number is unique among the players of a run.
    pub fn new(client: usize, seed: u64, servers: &[SocketAddr], timeout: Duration, now: Instant) -> Player {
        let settings = SessionSettings {
            session_timeout: timeout,
            connection_timeout: timeout * 4,
            policy: SessionPolicy::Renew,
            ..SessionSettings::default()
        };
        let addresses: Vec<ServerAddress> = servers
            .iter()
            .map(|server| ServerAddress { host: server.ip().to_string().into(), port: server.port() })
            .collect();
        let mut player = Player {
            client,
            session: SessionMachine::new(
                settings,
                &addresses,
                seed ^ (client as u64).wrapping_mul(0x9e37_79b9),
                now,
            ),
            link: None,
            wire: FrameObserver::default(),
            waiting: VecDeque::new(),
            open: BTreeMap::new(),
            number: 0,
            watchers: 0,
            workload: LiveWorkload::new(seed, client),
            held: None,
            records: Vec::new(),
            orders: VecDeque::new(),
            writes_acknowledged: 0,
            found: Vec::new(),
        };
        player.drive();
        player
    }

    /// How many calls are not completed yet.
    pub fn outstanding(&self) -> usize {
        self.open.len()
    }

    /// How many of its writes succeeded.
    pub fn writes_acknowledged(&self) -> u64 {
        self.writes_acknowledged
    }

    /// Whether it has a session and a connection.
    pub fn is_connected(&self) -> bool {
        self.session.status().state.is_connected()
    }

    /// When [`Player::tick`] has to be called next.
    pub fn deadline(&self) -> Option<Instant> {
        self.session.deadline()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant) {
        if self.session.deadline().is_some_and(|deadline| deadline <= now) {
            self.session.tick(now);
            self.drive();
        }
    }

    /// The records since the last call. The caller must store them before any action that may follow from
    /// them, such as writing bytes or waking another client.
    pub fn take_records(&mut self) -> Vec<ClientRecord> {
        std::mem::take(&mut self.records)
    }

    /// The next request to the driver.
    pub fn next_order(&mut self) -> Option<PlayerRequest> {
        self.orders.pop_front()
    }

    /// Makes one call of the workload.
    pub fn act(&mut self, now: Instant) {
        let operation = self.workload.draw();
        self.call(now, operation);
    }

    /// Makes a write that succeeds whenever a server accepts writes.
    pub fn write_something(&mut self, now: Instant) {
        let write = WriteOperation::Create {
            path: "/last".into(),
            data: std::sync::Arc::from(*b"last"),
            mode: zebu_proto::client::CreateMode::PersistentSequential,
            op: zebu_proto::client::CreateOp::Create,
            permissions: zebu_proto::Permissions::ALL,
        };
        self.call(now, Operation::Write(write));
    }

    /// Makes a sync call.
    pub fn sync(&mut self, now: Instant) {
        self.call(now, Operation::Sync(NodePath::from("/")));
    }

    /// Reads all of a node: data, stat and children.
    pub fn read(&mut self, now: Instant, path: &str) {
        let path = NodePath::from(path);
        self.call(now, Operation::plain_read(ReadOperation::Get(path.clone()), false));
        self.call(now, Operation::plain_read(ReadOperation::ChildrenAndStat(path), false));
    }

    /// Paths of children that reads by [`Player::read`] have found.
    pub fn take_found(&mut self) -> Vec<String> {
        std::mem::take(&mut self.found)
    }

    /// Closes the session.
    pub fn close(&mut self, now: Instant) {
        self.session.close(now, OWN);
        self.drive();
    }

    /// The client ends without closing its session.
    pub fn vanish(&mut self) {
        self.record(RecordKind::Disconnected);
        for number in std::mem::take(&mut self.open).into_keys() {
            self.record(RecordKind::Failed { number });
        }
    }

    /// The requested connection is open.
    pub fn opened(&mut self, now: Instant) {
        self.wire = FrameObserver::default();
        if let Some(link) = self.link {
            self.session.opened(now, link);
            self.drive();
        }
    }

    /// The connection could not be opened, or it broke.
    pub fn lost(&mut self, now: Instant, why: &str) {
        if let Some(link) = self.link.take() {
            self.session.lost(now, link, why);
            self.record(RecordKind::Disconnected);
            self.drive();
        }
    }

    /// Bytes to write now. Call [`Player::take_records`] first.
    pub fn to_write(&mut self, now: Instant) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.link.is_none() || !self.session.wants_write() {
            return bytes;
        }
        self.session.poll_write(now, &mut bytes);
        let session = self.session.status().session.id;
        for requested in self.wire.leaving(&bytes) {
            match requested {
                SentFrame::Call { xid } => {
                    if let Some(number) = self.waiting.pop_front() {
                        self.record(RecordKind::Sent { number, session, xid });
                    }
                }
                SentFrame::Rewatch { xid, set } => self.record(RecordKind::Rewatching { xid, set }),
                SentFrame::Close => self.record(RecordKind::Closing { session }),
                SentFrame::Connect | SentFrame::Own => {}
            }
        }
        bytes
    }

    /// Bytes were received.
    pub fn received(&mut self, now: Instant, bytes: &[u8]) {
        self.wire.came(bytes);
        while let Some(link) = self.link {
            let Some((bytes, received)) = self.wire.next() else { break };
            let session = self.session.status().session.id;
            match received {
                ReceivedFrame::Frame(frame) => self.record(RecordKind::Frame { session, frame }),
                ReceivedFrame::Greeting => {}
                // No client of a live run says hello.
                ReceivedFrame::Push | ReceivedFrame::Garbage => {
                    self.record(RecordKind::Garbage { bytes: bytes.clone() })
                }
            }
            self.session.received(now, link, &bytes);
            self.drive();
        }
    }

    fn record(&mut self, what: RecordKind) {
        self.records.push(ClientRecord { client: self.client, what });
    }

    fn call(&mut self, now: Instant, operation: Operation) {
        let number = self.number;
        self.number += 1;
        let mut body = Vec::new();
        operation.encode(&mut body);
        self.watchers += 1;
        let watcher = WatcherId(self.watchers);
        let watch = operation.watch().map(|(intent, path)| WatchRegistration {
            watcher,
            intent,
            path: Box::from(&**path),
        });
        let op = operation.op_code();
        self.record(RecordKind::Called { number, operation: operation.clone() });
        self.open.insert(number, operation);
        self.waiting.push_back(number);
        let (disconnects_seen, connection) = (self.session.disconnects(), None);
        let request = SessionRequest { op, body: body.into(), watch, disconnects_seen, connection };
        self.session.submit(now, request, number);
        self.drive();
    }

    fn drive(&mut self) {
        while let Some(action) = self.session.poll_action() {
            self.do_action(action);
        }
    }

    fn do_action(&mut self, action: SessionAction<usize>) {
        match action {
            SessionAction::Open { link, server, timeout } => {
                let Ok(ip) = server.host.parse() else { return };
                self.link = Some(link);
                self.orders.push_back(PlayerRequest::Open {
                    server: SocketAddr::new(ip, server.port),
                    patience: timeout,
                });
            }
            SessionAction::Drop { link } => {
                self.link.take_if(|it| *it == link);
                self.orders.push_back(PlayerRequest::Drop);
                self.record(RecordKind::Disconnected);
            }
            SessionAction::Complete { token, outcome } => self.ended(token, outcome),
            SessionAction::Status(status) => match status.state {
                SessionState::Connected | SessionState::Reconnected => {
                    let (session, timeout) = (status.session.id, status.session.timeout);
                    if self.held.replace(session).is_some_and(|held| held != session) {
                        self.record(RecordKind::Expired);
                    }
                    self.record(RecordKind::Began { session, timeout_ms: timeout.as_millis() as u64 });
                }
                _ => {}
            },
            SessionAction::Notify { .. }
            | SessionAction::Feed { .. }
            | SessionAction::Authenticate { .. }
            | SessionAction::Probe { .. }
            | SessionAction::Log(_)
            | SessionAction::End => {}
        }
    }

    fn ended(&mut self, number: usize, outcome: CallOutcome) {
        // A closeSession has no call.
        if number == OWN {
            return;
        }
        let operation = self.open.remove(&number);
        match outcome {
            Ok(answer) => {
                if let Some(operation) = operation.filter(|_| answer.code == 0) {
                    self.learn(&operation, &answer);
                }
                self.record(RecordKind::Answered { number, answer });
            }
            Err(_) => {
                self.waiting.retain(|it| *it != number);
                self.record(RecordKind::Failed { number });
            }
        }
    }

    /// Remembers the names that a successful reply contains.
    fn learn(&mut self, operation: &Operation, answer: &ServerReply) {
        self.writes_acknowledged += u64::from(operation.is_write());
        let reader = &mut Reader::new(&answer.body);
        match operation {
            Operation::Write(WriteOperation::Create { mode, .. }) if mode.is_sequential() => {
                if let Ok(path) = Box::<str>::decode(reader) {
                    self.workload.learn(&path);
                }
            }
            Operation::Read { read: ReadOperation::ChildrenAndStat(path), .. } => {
                let Ok(names) = Vec::<Box<str>>::decode(reader) else { return };
                let above = path.trim_end_matches('/');
                self.found.extend(names.iter().map(|name| format!("{above}/{name}")));
            }
            _ => {}
        }
    }
}
