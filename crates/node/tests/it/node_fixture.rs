//! One node for tests: its connections and replica, a disk whose progress the test controls, and a clock that
//! the test advances.

use std::collections::{BTreeMap, VecDeque};

use zebu_node::{
    AfterAppend, AuditEvent, AuthEnforcement, ClientConnection, ClientEvent, ConnectionId, ConnectionPhase,
    Connections, Effect, LeaderClients, LocalSessionSupport, LogBatch, Node, NodeSettings, Now,
    ReconfigSupport, Replica, ServeContext, SubmittedRequest, ThrottleSettings,
};
use zebu_proto::client::{ConnectRequest, ConnectResponse};
use zebu_proto::txn::TxnEntry;
use zebu_proto::{Reader, SessionId, Zxid};
use zebu_storage::format::log::HEADER;
use zebu_storage::format::scan::{LogEnd, LogScanner, ScanItem};
use zebu_tree::{Credentials, DigestMode, Policy, Tree, TreeOptions, TtlNodes};

use crate::client::{Ask, Frame, Reply, frames, hello, payloads};

pub(crate) const START_MS: i64 = 1_784_300_000_000;
pub(crate) const START: Now = Now { monotonic_ms: 100_000, wall_ms: START_MS };
pub(crate) const TICK_MS: i64 = 2000;

/// The connections by number.
#[derive(Debug, Default)]
pub(crate) struct ConnectionMap(pub(crate) BTreeMap<ConnectionId, ClientConnection>);

impl Connections for ConnectionMap {
    fn with<R>(
        &mut self,
        connection: ConnectionId,
        action: impl FnOnce(&mut ClientConnection) -> R,
    ) -> Option<R> {
        self.0.get_mut(&connection).map(action)
    }
}

pub(crate) fn tree_options() -> TreeOptions {
    TreeOptions { ttl_nodes: TtlNodes::Enabled, digest: DigestMode::On, hash_seed: 11 }
}

pub(crate) fn settings() -> NodeSettings {
    NodeSettings {
        server_id: 1,
        tick_ms: TICK_MS,
        session_timeout_ms_min: 4000,
        session_timeout_ms_max: 40_000,
        local_sessions: LocalSessionSupport::Off,
        throttle: ThrottleSettings::default(),
        throttled_op_wait_ms: 0,
        container_check_ms: 60_000,
        container_max_per_minute: 10_000,
        container_never_used_ms: 0,
        read_only_after_ms: None,
        election_grace_ms: 0,
        snap_count: 100_000,
        snap_bytes: None,
        leader_clients: LeaderClients::Served,
        reconfig: ReconfigSupport::Disabled,
        seed: 5,
    }
}

/// The requests of a connection.
#[derive(Debug, Default)]
struct Sent {
    last_xid: i32,
}

pub(crate) struct NodeFixture {
    pub(crate) settings: NodeSettings,
    pub(crate) replica: Replica,
    pub(crate) node: Node,
    pub(crate) connections: ConnectionMap,
    pub(crate) now: Now,
    /// Batches that are not durable yet.
    pub(crate) disk: VecDeque<LogBatch>,
    /// All transactions that were appended.
    pub(crate) history: Vec<TxnEntry>,
    /// The requested action after each batch.
    pub(crate) after: Vec<AfterAppend>,
    sent: BTreeMap<ConnectionId, Sent>,
    next_connection: u64,
    /// Client writes that took a permit, and those that returned it.
    pub(crate) submitted: usize,
    pub(crate) answered: usize,
    /// Charged bytes of requests without a reply.
    charged_bytes: usize,
    /// All audit events.
    pub(crate) audit: Vec<AuditEvent>,
}

impl NodeFixture {
    pub(crate) fn new() -> NodeFixture {
        NodeFixture::with(settings())
    }

    pub(crate) fn with(settings: NodeSettings) -> NodeFixture {
        NodeFixture::over(Tree::new(tree_options()), settings, Policy::default(), AuthEnforcement::Off)
    }

    pub(crate) fn over(
        tree: Tree,
        settings: NodeSettings,
        policy: Policy,
        enforcement: AuthEnforcement,
    ) -> NodeFixture {
        let replica = Replica::new(tree, policy, enforcement, 3);
        let node = Node::new(settings.clone(), &replica, START);
        NodeFixture::around(node, replica, settings)
    }

    /// A fixture for an existing node.
    pub(crate) fn around(mut node: Node, replica: Replica, settings: NodeSettings) -> NodeFixture {
        let now = START;
        node.enable_audit();
        NodeFixture {
            node,
            settings,
            replica,
            connections: ConnectionMap::default(),
            now,
            disk: VecDeque::new(),
            history: Vec::new(),
            after: Vec::new(),
            sent: BTreeMap::new(),
            next_connection: 1,
            submitted: 0,
            answered: 0,
            charged_bytes: 0,
            audit: Vec::new(),
        }
    }

    /// Restarts the process: transactions that are not durable are lost, and all connections are closed.
    pub(crate) fn restart(self) -> NodeFixture {
        let durable = self.replica.last_zxid();
        let mut tree = Tree::new(tree_options());
        for entry in self.history.iter().filter(|entry| entry.header.zxid <= durable) {
            tree.apply(&entry.header, &entry.txn, &mut |_| ());
            assert!(entry.digest.is_none_or(|digest| digest.tree_digest == tree.digest()), "{entry:?}");
        }
        NodeFixture::over(tree, self.settings, self.replica.policy().clone(), AuthEnforcement::Off)
    }

    pub(crate) fn pass(&mut self, ms: i64) {
        self.now.monotonic_ms += ms;
        self.now.wall_ms += ms;
    }

    /// Advances the clock to this time. Runs each deadline on the way and makes its transactions durable.
    pub(crate) fn run_until(&mut self, monotonic_ms: i64) {
        while self.node.next_deadline() <= monotonic_ms {
            let wait_ms = (self.node.next_deadline() - self.now.monotonic_ms).max(0);
            self.pass(wait_ms);
            self.tick();
            self.persist();
        }
        self.pass(monotonic_ms - self.now.monotonic_ms);
    }

    pub(crate) fn tick(&mut self) {
        let NodeFixture { node, replica, connections, now, .. } = self;
        node.tick(&mut ServeContext { replica, connections, now: *now });
        self.collect();
    }

    /// Accepts a connection without a request.
    pub(crate) fn open(&mut self) -> ConnectionId {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let credentials = Credentials::of_peer("127.0.0.1".parse().unwrap());
        let connection = ClientConnection::new(id, credentials, self.now.wall_ms, self.now.monotonic_ms);
        self.connections.0.insert(id, connection);
        self.sent.insert(id, Sent::default());
        id
    }

    pub(crate) fn handle(&mut self, event: ClientEvent) {
        let NodeFixture { node, replica, connections, now, .. } = self;
        node.handle(event, &mut ServeContext { replica, connections, now: *now });
        self.collect();
    }

    pub(crate) fn connect(&mut self, connection: ConnectionId, request: ConnectRequest) {
        self.handle(ClientEvent::Connect { connection, request });
    }

    /// The reply to a connect request, if there is one.
    pub(crate) fn greeting(&mut self, connection: ConnectionId) -> Option<ConnectResponse> {
        let bytes = self.take_bytes(connection);
        let payloads = payloads(&bytes);
        assert!(payloads.len() <= 1, "one answer to one connect request");
        payloads.first().map(|payload| {
            let mut reader = Reader::new(payload);
            let response = ConnectResponse::decode(&mut reader).unwrap();
            assert_eq!(reader.remaining(), 0);
            response
        })
    }

    /// Opens a connection with a new session of this timeout.
    pub(crate) fn client_with(&mut self, timeout_ms: i32) -> ConnectionId {
        let connection = self.open();
        self.connect(connection, hello(timeout_ms));
        self.persist();
        assert!(self.greeting(connection).is_some_and(|greeting| greeting.session_id != 0));
        connection
    }

    pub(crate) fn client(&mut self) -> ConnectionId {
        self.client_with(30_000)
    }

    /// The connect request that resumes the session of a connection.
    pub(crate) fn hello_again(&self, connection: ConnectionId) -> ConnectRequest {
        let session = self.session(connection);
        let password = zebu_proto::password::session_password(session);
        ConnectRequest { session_id: session.0, password: Some(password.into()), ..hello(30_000) }
    }

    pub(crate) fn session(&self, connection: ConnectionId) -> SessionId {
        self.connection(connection).session.unwrap().id
    }

    pub(crate) fn connection(&self, connection: ConnectionId) -> &ClientConnection {
        &self.connections.0[&connection]
    }

    pub(crate) fn phase(&self, connection: ConnectionId) -> ConnectionPhase {
        self.connection(connection).phase
    }

    /// Receives a frame. Returns its write, which the node has not handled yet.
    pub(crate) fn receive(&mut self, connection: ConnectionId, payload: &[u8]) -> Option<SubmittedRequest> {
        let connection = self.connections.0.get_mut(&connection).unwrap();
        self.replica.receive(connection, payload, self.now.monotonic_ms)
    }

    pub(crate) fn submit(&mut self, submission: Option<SubmittedRequest>) {
        if let Some(mut submission) = submission {
            self.submitted += 1;
            // Each request has a different charge, so that a wrong return is noticed.
            submission.charged_bytes = 1000 + self.submitted as u32;
            self.charged_bytes += submission.charged_bytes as usize;
            self.handle(ClientEvent::Request(submission));
        }
    }

    /// Sends a request with this xid, and lets the node handle it. Its transaction is a batch of its own.
    pub(crate) fn send_as(&mut self, connection: ConnectionId, xid: i32, ask: &Ask) {
        let submission = self.receive(connection, &ask.frame(xid));
        self.submit(submission);
    }

    /// Sends a request with the next xid. Returns the xid.
    pub(crate) fn send(&mut self, connection: ConnectionId, ask: Ask) -> i32 {
        let sent = self.sent.get_mut(&connection).unwrap();
        sent.last_xid += 1;
        let xid = sent.last_xid;
        self.send_as(connection, xid, &ask);
        xid
    }

    /// Sends a request, makes its transaction durable and returns the reply. Events may precede the reply.
    pub(crate) fn call(&mut self, connection: ConnectionId, ask: Ask) -> Reply {
        let xid = self.send(connection, ask);
        self.persist();
        let reply = self.received(connection).pop().unwrap().reply();
        assert_eq!(reply.xid, xid);
        reply
    }

    /// The frames sent to a client since the last call.
    pub(crate) fn received(&mut self, connection: ConnectionId) -> Vec<Frame> {
        frames(&self.take_bytes(connection))
    }

    pub(crate) fn replies(&mut self, connection: ConnectionId) -> Vec<Reply> {
        self.received(connection).into_iter().map(Frame::reply).collect()
    }

    pub(crate) fn xids(&mut self, connection: ConnectionId) -> Vec<i32> {
        self.replies(connection).iter().map(|reply| reply.xid).collect()
    }

    pub(crate) fn take_bytes(&mut self, connection: ConnectionId) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.connections.0.get_mut(&connection).unwrap().take_outbox(&mut bytes);
        bytes
    }

    /// Closes a connection as the connection task does. Returns the event for the node.
    pub(crate) fn vanish(&mut self, connection: ConnectionId) -> ClientEvent {
        let mut gone = self.connections.0.remove(&connection).unwrap();
        self.replica.remove_connection(&mut gone);
        let session = gone.session.map(|session| session.id);
        ClientEvent::Disconnected { connection, session, touched_ms: gone.touched_ms }
    }

    pub(crate) fn disconnect(&mut self, connection: ConnectionId) {
        let farewell = self.vanish(connection);
        self.handle(farewell);
    }

    /// Makes the log durable up to this zxid. Returns the number of applied transactions.
    pub(crate) fn commit(&mut self, persisted: Zxid) -> usize {
        self.node.log_persisted(persisted);
        let promised = self.node.has_committed();
        let applied = self.node.commit(&mut self.replica, &mut self.connections, self.now).unwrap();
        assert_eq!((promised, self.node.has_committed()), (applied > 0, false));
        applied
    }

    /// Makes the oldest batch durable.
    pub(crate) fn persist_one(&mut self) {
        if let Some(batch) = self.disk.pop_front() {
            let applied = self.commit(batch.last);
            assert_eq!(applied as i64, batch.last.0 - batch.first.0 + 1);
            assert_eq!(self.replica.last_zxid(), batch.last);
            self.check_digest(batch.last);
            self.collect();
        }
    }

    /// Makes all batches durable.
    pub(crate) fn persist(&mut self) {
        while !self.disk.is_empty() {
            self.persist_one();
        }
        assert_eq!(self.node.in_flight(), 0);
        assert_eq!(self.submitted, self.answered, "all room is given back when nothing is on its way");
    }

    /// Takes the appends of the node, and the permits that it returns.
    pub(crate) fn collect(&mut self) {
        let answered = self.node.take_completed();
        self.answered += answered.requests;
        self.charged_bytes -= answered.bytes;
        assert!(self.answered <= self.submitted, "room is given back once");
        assert!(
            self.answered < self.submitted || self.charged_bytes == 0,
            "bytes are given back with their request"
        );
        self.node.take_audit_events(&mut self.audit);
        assert!(
            self.node.unaudited_requests() <= self.submitted - self.answered,
            "a request leaves the audit trail when it is answered or dropped"
        );
        let Some(batch) = take_batch(&mut self.node) else { return };
        let entries = read_batch(&batch);
        let zxids = |entry: Option<&TxnEntry>| entry.map(|entry| entry.header.zxid);
        assert_eq!(zxids(entries.first()), Some(batch.first));
        assert_eq!(zxids(entries.last()), Some(batch.last));
        for entry in entries {
            let before = self.history.last().map_or(batch.first.0 - 1, |entry| entry.header.zxid.0);
            assert_eq!(entry.header.zxid.0, before + 1, "zxids have no holes");
            self.history.push(entry);
        }
        self.after.push(batch.after);
        self.disk.push_back(batch);
    }

    fn check_digest(&self, zxid: Zxid) {
        let entry = self.history.iter().rfind(|entry| entry.header.zxid == zxid).unwrap();
        if let Some(digest) = entry.digest {
            assert_eq!(digest.tree_digest, self.replica.tree().digest(), "{entry:?}");
        }
    }
}

/// The entries of a batch, read as recovery would read them.
pub(crate) fn read_batch(batch: &LogBatch) -> Vec<TxnEntry> {
    let mut file = HEADER.to_vec();
    file.extend_from_slice(&batch.bytes);
    let (mut scanner, _) = LogScanner::open(&file[..]).unwrap();
    let mut entries = Vec::new();
    loop {
        match scanner.next_entry().unwrap() {
            ScanItem::Entry(raw) => entries.push(TxnEntry::decode(raw.payload).unwrap()),
            ScanItem::End(LogEnd::Clean { at }) => {
                assert_eq!(at, file.len() as u64);
                return entries;
            }
            ScanItem::End(end) => panic!("a batch is whole, found {end:?}"),
        }
    }
}

/// The batch of a standalone node. Tests of ensemble members take the effects themselves.
pub(crate) fn take_batch(node: &mut Node) -> Option<LogBatch> {
    if node.status().is_some() {
        return None;
    }
    let mut effects = Vec::new();
    node.take_effects(&mut effects);
    assert!(effects.len() <= 1, "a standalone server has one effect at a time: {effects:?}");
    effects.pop().map(|effect| match effect {
        Effect::Append { io: None, batch } => batch,
        other => panic!("a standalone server only appends: {other:?}"),
    })
}
