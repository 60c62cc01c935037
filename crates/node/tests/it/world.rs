//! A server in one struct: lanes, replica, brain, a disk that has what it is told to have, and a clock that
//! moves when it is told to.

use std::collections::{BTreeMap, VecDeque};

use zebu_node::{
    AfterAppend, AuthEnforcement, ClientConnection, ClientEvent, ConnectionId, ConnectionPhase, Connections,
    Effect, LeaderClients, LocalSessionSupport, LogBatch, Node, NodeSettings, Now, ReconfigSupport, Replica,
    ServeContext, SubmittedRequest, ThrottleSettings,
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

/// The connections, as the simulator would hold them.
#[derive(Debug, Default)]
pub(crate) struct LaneMap(pub(crate) BTreeMap<ConnectionId, ClientConnection>);

impl Connections for LaneMap {
    fn with<R>(&mut self, lane: ConnectionId, action: impl FnOnce(&mut ClientConnection) -> R) -> Option<R> {
        self.0.get_mut(&lane).map(action)
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
        snap_count: 100_000,
        snap_bytes: None,
        leader_clients: LeaderClients::Served,
        reconfig: ReconfigSupport::Disabled,
        seed: 5,
    }
}

/// What a connection has sent.
#[derive(Debug, Default)]
struct Sent {
    last_xid: i32,
}

pub(crate) struct World {
    pub(crate) settings: NodeSettings,
    pub(crate) replica: Replica,
    pub(crate) node: Node,
    pub(crate) lanes: LaneMap,
    pub(crate) now: Now,
    /// Batches that the disk was given and does not have yet.
    pub(crate) disk: VecDeque<LogBatch>,
    /// Everything that was ever given to the disk.
    pub(crate) history: Vec<TxnEntry>,
    /// What was to follow each batch.
    pub(crate) after: Vec<AfterAppend>,
    sent: BTreeMap<ConnectionId, Sent>,
    next_lane: u64,
    /// Client writes that took room in the server's queue, and how many gave it back.
    pub(crate) submitted: usize,
    pub(crate) answered: usize,
    /// Charged bytes that are on their way.
    charged_bytes: usize,
}

impl World {
    pub(crate) fn new() -> World {
        World::with(settings())
    }

    pub(crate) fn with(settings: NodeSettings) -> World {
        World::over(Tree::new(tree_options()), settings, Policy::default(), AuthEnforcement::Off)
    }

    pub(crate) fn over(
        tree: Tree,
        settings: NodeSettings,
        policy: Policy,
        enforcement: AuthEnforcement,
    ) -> World {
        let replica = Replica::new(tree, policy, enforcement, 3);
        let node = Node::new(settings.clone(), &replica, START);
        World::around(node, replica, settings)
    }

    /// The same around a node that was made elsewhere.
    pub(crate) fn around(node: Node, replica: Replica, settings: NodeSettings) -> World {
        let now = START;
        World {
            node,
            settings,
            replica,
            lanes: LaneMap::default(),
            now,
            disk: VecDeque::new(),
            history: Vec::new(),
            after: Vec::new(),
            sent: BTreeMap::new(),
            next_lane: 1,
            submitted: 0,
            answered: 0,
            charged_bytes: 0,
        }
    }

    /// The same files, a new process: what the disk did not have is lost, and so is every connection.
    pub(crate) fn restart(self) -> World {
        let durable = self.replica.last_zxid();
        let mut tree = Tree::new(tree_options());
        for entry in self.history.iter().filter(|entry| entry.header.zxid <= durable) {
            tree.apply(&entry.header, &entry.txn, &mut |_| ());
            assert!(entry.digest.is_none_or(|digest| digest.tree_digest == tree.digest()), "{entry:?}");
        }
        World::over(tree, self.settings, self.replica.policy().clone(), AuthEnforcement::Off)
    }

    pub(crate) fn pass(&mut self, ms: i64) {
        self.now.monotonic_ms += ms;
        self.now.wall_ms += ms;
    }

    /// Lets time pass to this moment, with every tick that is due on the way, and the disk keeping up.
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
        let World { node, replica, lanes, now, .. } = self;
        node.tick(&mut ServeContext { replica, connections: lanes, now: *now });
        self.collect();
    }

    /// A connection is accepted; nothing is said on it yet.
    pub(crate) fn open(&mut self) -> ConnectionId {
        let id = ConnectionId(self.next_lane);
        self.next_lane += 1;
        let credentials = Credentials::of_peer("127.0.0.1".parse().unwrap());
        let lane = ClientConnection::new(id, credentials, self.now.wall_ms, self.now.monotonic_ms);
        self.lanes.0.insert(id, lane);
        self.sent.insert(id, Sent::default());
        id
    }

    pub(crate) fn handle(&mut self, event: ClientEvent) {
        let World { node, replica, lanes, now, .. } = self;
        node.handle(event, &mut ServeContext { replica, connections: lanes, now: *now });
        self.collect();
    }

    pub(crate) fn connect(&mut self, lane: ConnectionId, request: ConnectRequest) {
        self.handle(ClientEvent::Connect { connection: lane, request });
    }

    /// The answer to a connect request, if there is one.
    pub(crate) fn greeting(&mut self, lane: ConnectionId) -> Option<ConnectResponse> {
        let bytes = self.take_bytes(lane);
        let payloads = payloads(&bytes);
        assert!(payloads.len() <= 1, "one answer to one connect request");
        payloads.first().map(|payload| {
            let mut reader = Reader::new(payload);
            let response = ConnectResponse::decode(&mut reader).unwrap();
            assert_eq!(reader.remaining(), 0);
            response
        })
    }

    /// A connection with a new session of this timeout.
    pub(crate) fn client_with(&mut self, timeout_ms: i32) -> ConnectionId {
        let lane = self.open();
        self.connect(lane, hello(timeout_ms));
        self.persist();
        assert!(self.greeting(lane).is_some_and(|greeting| greeting.session_id != 0));
        lane
    }

    pub(crate) fn client(&mut self) -> ConnectionId {
        self.client_with(30_000)
    }

    /// The connect request that takes up the session of a connection again.
    pub(crate) fn hello_again(&self, lane: ConnectionId) -> ConnectRequest {
        let session = self.session(lane);
        let password = zebu_proto::password::session_password(session);
        ConnectRequest { session_id: session.0, password: Some(password.into()), ..hello(30_000) }
    }

    pub(crate) fn session(&self, lane: ConnectionId) -> SessionId {
        self.lane(lane).session.unwrap().id
    }

    pub(crate) fn lane(&self, lane: ConnectionId) -> &ClientConnection {
        &self.lanes.0[&lane]
    }

    pub(crate) fn phase(&self, lane: ConnectionId) -> ConnectionPhase {
        self.lane(lane).phase
    }

    /// A frame arrives; a write that comes of it waits for the core.
    pub(crate) fn receive(&mut self, lane: ConnectionId, payload: &[u8]) -> Option<SubmittedRequest> {
        let lane = self.lanes.0.get_mut(&lane).unwrap();
        self.replica.receive(lane, payload, self.now.monotonic_ms)
    }

    pub(crate) fn submit(&mut self, submission: Option<SubmittedRequest>) {
        if let Some(mut submission) = submission {
            self.submitted += 1;
            // Each takes another share, so that none is given back for another.
            submission.charged_bytes = 1000 + self.submitted as u32;
            self.charged_bytes += submission.charged_bytes as usize;
            self.handle(ClientEvent::Request(submission));
        }
    }

    /// Sends a request with this xid, and lets the core look at it. The disk gets a batch of its own.
    pub(crate) fn send_as(&mut self, lane: ConnectionId, xid: i32, ask: &Ask) {
        let submission = self.receive(lane, &ask.frame(xid));
        self.submit(submission);
    }

    /// Sends a request with the next xid, which is returned.
    pub(crate) fn send(&mut self, lane: ConnectionId, ask: Ask) -> i32 {
        let sent = self.sent.get_mut(&lane).unwrap();
        sent.last_xid += 1;
        let xid = sent.last_xid;
        self.send_as(lane, xid, &ask);
        xid
    }

    /// Sends a request, lets the disk catch up, and returns the answer, before which events may come.
    pub(crate) fn call(&mut self, lane: ConnectionId, ask: Ask) -> Reply {
        let xid = self.send(lane, ask);
        self.persist();
        let reply = self.received(lane).pop().unwrap().reply();
        assert_eq!(reply.xid, xid);
        reply
    }

    /// Everything that was sent to a client since the last look.
    pub(crate) fn received(&mut self, lane: ConnectionId) -> Vec<Frame> {
        frames(&self.take_bytes(lane))
    }

    pub(crate) fn replies(&mut self, lane: ConnectionId) -> Vec<Reply> {
        self.received(lane).into_iter().map(Frame::reply).collect()
    }

    pub(crate) fn xids(&mut self, lane: ConnectionId) -> Vec<i32> {
        self.replies(lane).iter().map(|reply| reply.xid).collect()
    }

    pub(crate) fn take_bytes(&mut self, lane: ConnectionId) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.lanes.0.get_mut(&lane).unwrap().take_outbox(&mut bytes);
        bytes
    }

    /// The socket is gone: as the connection's task does it at its end. The core is told by the result.
    pub(crate) fn vanish(&mut self, lane: ConnectionId) -> ClientEvent {
        let mut gone = self.lanes.0.remove(&lane).unwrap();
        self.replica.remove_connection(&mut gone);
        let session = gone.session.map(|session| session.id);
        ClientEvent::Disconnected { connection: lane, session, touched_ms: gone.touched_ms }
    }

    pub(crate) fn disconnect(&mut self, lane: ConnectionId) {
        let farewell = self.vanish(lane);
        self.handle(farewell);
    }

    /// The disk has everything up to here. Returns how many transactions were applied.
    pub(crate) fn commit(&mut self, persisted: Zxid) -> usize {
        self.node.log_persisted(persisted);
        let promised = self.node.has_committed();
        let applied = self.node.commit(&mut self.replica, &mut self.lanes, self.now).unwrap();
        assert_eq!((promised, self.node.has_committed()), (applied > 0, false));
        applied
    }

    /// The disk has the oldest batch now.
    pub(crate) fn persist_one(&mut self) {
        if let Some(batch) = self.disk.pop_front() {
            let applied = self.commit(batch.last);
            assert_eq!(applied as i64, batch.last.0 - batch.first.0 + 1);
            assert_eq!(self.replica.last_zxid(), batch.last);
            self.check_digest(batch.last);
            self.collect();
        }
    }

    /// The disk has everything that it was given.
    pub(crate) fn persist(&mut self) {
        while !self.disk.is_empty() {
            self.persist_one();
        }
        assert_eq!(self.node.in_flight(), 0);
        assert_eq!(self.submitted, self.answered, "all room is given back when nothing is on its way");
    }

    /// Takes what the brain has for the disk, and the room that it gives back.
    pub(crate) fn collect(&mut self) {
        let answered = self.node.take_completed();
        self.answered += answered.requests;
        self.charged_bytes -= answered.bytes;
        assert!(self.answered <= self.submitted, "room is given back once");
        assert!(
            self.answered < self.submitted || self.charged_bytes == 0,
            "bytes are given back with their request"
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

/// The batch that a standalone server has for its disk. The effects of a member are its test's business.
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
