//! A client of a real ensemble without its socket: the shipped session machine, what it asks for, and a record
//! of every frame. Whoever drives it opens the connections and moves the bytes.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use zebu_client::core::{
    Action, Answer, LinkId, Outcome, Request, ServerAddress, Session, SessionPolicy, SessionState, Settings,
    WatchRegistration, WatcherId,
};
use zebu_proto::{Jute, Reader, SessionId};

use super::record::{Record, What};
use super::workload::Wishes;
use crate::client::{Received, Requested, Wire};
use crate::operation::{Operation, Path, Read, Write};

/// The ticket of a call that is the machine's own.
const OWN: usize = usize::MAX;

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Open a connection, then report [`Player::opened`] or [`Player::lost`].
    Open {
        /// To whom.
        server: SocketAddr,
        /// How long it may take.
        patience: Duration,
    },
    /// Drop the connection.
    Drop,
}

/// A client.
pub struct Player {
    client: usize,
    session: Session<usize>,
    link: Option<LinkId>,
    wire: Wire,
    /// Calls that the machine has taken and not sent yet, in order.
    waiting: VecDeque<usize>,
    /// Calls without an end.
    open: BTreeMap<usize, Operation>,
    number: usize,
    watchers: u64,
    wishes: Wishes,
    held: Option<SessionId>,
    records: Vec<Record>,
    orders: VecDeque<Order>,
    writes_acknowledged: u64,
    found: Vec<String>,
}

impl Player {
    /// A client that may go to any of these servers. No two players of a run have the same number.
    pub fn new(client: usize, seed: u64, servers: &[SocketAddr], timeout: Duration, now: Instant) -> Player {
        let settings = Settings {
            session_timeout: timeout,
            connection_timeout: timeout * 4,
            policy: SessionPolicy::Renew,
            ..Settings::default()
        };
        let addresses: Vec<ServerAddress> = servers
            .iter()
            .map(|server| ServerAddress { host: server.ip().to_string().into(), port: server.port() })
            .collect();
        let mut player = Player {
            client,
            session: Session::new(
                settings,
                &addresses,
                seed ^ (client as u64).wrapping_mul(0x9e37_79b9),
                now,
            ),
            link: None,
            wire: Wire::default(),
            waiting: VecDeque::new(),
            open: BTreeMap::new(),
            number: 0,
            watchers: 0,
            wishes: Wishes::new(seed, client),
            held: None,
            records: Vec::new(),
            orders: VecDeque::new(),
            writes_acknowledged: 0,
            found: Vec::new(),
        };
        player.drive();
        player
    }

    /// Calls without an end yet.
    pub fn outstanding(&self) -> usize {
        self.open.len()
    }

    /// How many of its writes were answered with success.
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

    /// What happened since it was last asked. It has to be kept before anything is done that may follow from
    /// it: before bytes are written, before another client is told.
    pub fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    /// What is to be done next.
    pub fn next_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// Makes one of its calls.
    pub fn act(&mut self, now: Instant) {
        let operation = self.wishes.draw();
        self.call(now, operation);
    }

    /// A write that succeeds whenever a server takes writes.
    pub fn write_something(&mut self, now: Instant) {
        let write = Write::Create {
            path: "/last".into(),
            data: std::sync::Arc::from(*b"last"),
            mode: zebu_proto::client::CreateMode::PersistentSequential,
            op: zebu_proto::client::CreateOp::Create,
            permissions: zebu_proto::Permissions::ALL,
        };
        self.call(now, Operation::Write(write));
    }

    /// Calls for a sync.
    pub fn sync(&mut self, now: Instant) {
        self.call(now, Operation::Sync(Path::from("/")));
    }

    /// Reads a node whole: data, stat and children.
    pub fn read(&mut self, now: Instant, path: &str) {
        let path = Path::from(path);
        self.call(now, Operation::Read { read: Read::Get(path.clone()), watch: false });
        self.call(now, Operation::Read { read: Read::ChildrenAndStat(path), watch: false });
    }

    /// Paths of children that reads by [`Player::read`] have found.
    pub fn take_found(&mut self) -> Vec<String> {
        std::mem::take(&mut self.found)
    }

    /// Ends the session.
    pub fn close(&mut self, now: Instant) {
        self.session.close(now, OWN);
        self.drive();
    }

    /// Nobody will speak for it any more.
    pub fn vanish(&mut self) {
        self.record(What::Disconnected);
        for number in std::mem::take(&mut self.open).into_keys() {
            self.record(What::Failed { number });
        }
    }

    /// The connection that was ordered is open.
    pub fn opened(&mut self, now: Instant) {
        self.wire = Wire::default();
        if let Some(link) = self.link {
            self.session.opened(now, link);
            self.drive();
        }
    }

    /// The connection could not be opened, or it broke.
    pub fn lost(&mut self, now: Instant, why: &str) {
        if let Some(link) = self.link.take() {
            self.session.lost(now, link, why);
            self.record(What::Disconnected);
            self.drive();
        }
    }

    /// Bytes that are to be written now. Take the records first.
    pub fn to_write(&mut self, now: Instant) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.link.is_none() || !self.session.wants_write() {
            return bytes;
        }
        self.session.poll_write(now, &mut bytes);
        let session = self.session.status().session.id;
        for requested in self.wire.leaving(&bytes) {
            match requested {
                Requested::Call { xid } => {
                    if let Some(number) = self.waiting.pop_front() {
                        self.record(What::Sent { number, session, xid });
                    }
                }
                Requested::Rewatch { xid, set } => self.record(What::Rewatching { xid, set }),
                Requested::Close => self.record(What::Closing { session }),
                Requested::Connect | Requested::Own => {}
            }
        }
        bytes
    }

    /// Bytes came.
    pub fn received(&mut self, now: Instant, bytes: &[u8]) {
        self.wire.came(bytes);
        while let Some(link) = self.link {
            let Some((bytes, received)) = self.wire.next() else { break };
            let session = self.session.status().session.id;
            match received {
                Received::Frame(frame) => self.record(What::Frame { session, frame }),
                Received::Greeting => {}
                Received::Garbage => self.record(What::Garbage { bytes: bytes.clone() }),
            }
            self.session.received(now, link, &bytes);
            self.drive();
        }
    }

    fn record(&mut self, what: What) {
        self.records.push(Record { client: self.client, what });
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
        self.record(What::Called { number, operation: operation.clone() });
        self.open.insert(number, operation);
        self.waiting.push_back(number);
        let request = Request { op, body: body.into(), watch, losses_seen: self.session.losses() };
        self.session.submit(now, request, number);
        self.drive();
    }

    fn drive(&mut self) {
        while let Some(action) = self.session.poll_action() {
            self.do_action(action);
        }
    }

    fn do_action(&mut self, action: Action<usize>) {
        match action {
            Action::Open { link, server, patience } => {
                let Ok(ip) = server.host.parse() else { return };
                self.link = Some(link);
                self.orders.push_back(Order::Open { server: SocketAddr::new(ip, server.port), patience });
            }
            Action::Drop { link } => {
                self.link.take_if(|it| *it == link);
                self.orders.push_back(Order::Drop);
                self.record(What::Disconnected);
            }
            Action::Complete { ticket, outcome } => self.ended(ticket, outcome),
            Action::Status(status) => match status.state {
                SessionState::Connected | SessionState::Reconnected => {
                    let (session, timeout) = (status.session.id, status.session.timeout);
                    if self.held.replace(session).is_some_and(|held| held != session) {
                        self.record(What::Expired);
                    }
                    self.record(What::Began { session, timeout_ms: timeout.as_millis() as u64 });
                }
                _ => {}
            },
            Action::Notify { .. } | Action::Probe { .. } | Action::Note(_) | Action::End => {}
        }
    }

    fn ended(&mut self, number: usize, outcome: Outcome) {
        // The end of a session has no call.
        if number == OWN {
            return;
        }
        let operation = self.open.remove(&number);
        match outcome {
            Ok(answer) => {
                if let Some(operation) = operation.filter(|_| answer.code == 0) {
                    self.learn(&operation, &answer);
                }
                self.record(What::Answered { number, answer });
            }
            Err(_) => {
                self.waiting.retain(|it| *it != number);
                self.record(What::Failed { number });
            }
        }
    }

    /// What a success tells about names.
    fn learn(&mut self, operation: &Operation, answer: &Answer) {
        self.writes_acknowledged += u64::from(operation.is_write());
        let reader = &mut Reader::new(&answer.body);
        match operation {
            Operation::Write(Write::Create { mode, .. }) if mode.is_sequential() => {
                if let Ok(path) = Box::<str>::decode(reader) {
                    self.wishes.learn(&path);
                }
            }
            Operation::Read { read: Read::ChildrenAndStat(path), .. } => {
                let Ok(names) = Vec::<Box<str>>::decode(reader) else { return };
                let above = path.trim_end_matches('/');
                self.found.extend(names.iter().map(|name| format!("{above}/{name}")));
            }
            _ => {}
        }
    }
}
