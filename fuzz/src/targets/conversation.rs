//! Two clients talk to a whole standalone server. Whatever they say, it goes on; and the log gives the same
//! state again.

use std::collections::BTreeMap;

use zebu_node::{
    AuthEnforcement, ClientConnection, ClientEvent, ConnectionId, Connections, Effect, LeaderClients,
    LocalSessionSupport, LogBatch, Node, NodeSettings, Now, ReconfigSupport, Replica, ServeContext,
    ThrottleSettings,
};
use zebu_proto::Reader;
use zebu_proto::client::ConnectRequest;
use zebu_proto::txn::TxnEntry;
use zebu_storage::format::log::HEADER;
use zebu_storage::format::scan::{LogScanner, ScanItem};
use zebu_tree::{Credentials, DigestMode, Policy, Tree, TreeOptions, TtlNodes};

use crate::bits::Bits;
use crate::corpus::{self, Side};

#[derive(Default)]
struct LaneMap(BTreeMap<ConnectionId, ClientConnection>);

impl Connections for LaneMap {
    fn with<R>(&mut self, lane: ConnectionId, action: impl FnOnce(&mut ClientConnection) -> R) -> Option<R> {
        self.0.get_mut(&lane).map(action)
    }
}

const OPTIONS: TreeOptions =
    TreeOptions { ttl_nodes: TtlNodes::Enabled, digest: DigestMode::On, hash_seed: 1 };

fn settings() -> NodeSettings {
    NodeSettings {
        election_grace_ms: 0,
        server_id: 1,
        tick_ms: 2000,
        session_timeout_ms_min: 4000,
        session_timeout_ms_max: 40_000,
        local_sessions: LocalSessionSupport::Off,
        throttle: ThrottleSettings::default(),
        throttled_op_wait_ms: 0,
        container_check_ms: 1000,
        container_max_per_minute: 60_000,
        container_never_used_ms: 0,
        read_only_after_ms: None,
        snap_count: 100_000,
        snap_bytes: None,
        leader_clients: LeaderClients::Served,
        reconfig: ReconfigSupport::Disabled,
        seed: 5,
    }
}

struct Server {
    replica: Replica,
    node: Node,
    lanes: LaneMap,
    now: Now,
    log: Vec<LogBatch>,
}

impl Server {
    fn new() -> Server {
        let replica = Replica::new(Tree::new(OPTIONS), Policy::default(), AuthEnforcement::Off, 3);
        let now = Now { monotonic_ms: 1000, wall_ms: 1_700_000_000_000 };
        let node = Node::new(settings(), &replica, now);
        Server { replica, node, lanes: LaneMap::default(), now, log: Vec::new() }
    }

    fn connect(&mut self, lane: ConnectionId) {
        let now_ms = self.now.monotonic_ms;
        self.lanes.0.insert(lane, ClientConnection::new(lane, Credentials::none(), now_ms, now_ms));
        let hello = [0; 44];
        if let Ok(request) = ConnectRequest::decode(&mut Reader::new(&hello)) {
            self.handle(ClientEvent::Connect { connection: lane, request });
        }
        self.flush();
    }

    fn frame(&mut self, lane: ConnectionId, payload: &[u8]) {
        if !self.has_room(lane) {
            self.flush();
        }
        if !self.has_room(lane) {
            return;
        }
        let Some(at) = self.lanes.0.get_mut(&lane) else { return };
        if let Some(submission) = self.replica.receive(at, payload, self.now.monotonic_ms) {
            self.handle(ClientEvent::Request(submission));
        }
    }

    /// Whether the connection takes a request. A listing goes on until it is answered or waits for a write.
    fn has_room(&mut self, lane: ConnectionId) -> bool {
        let Some(at) = self.lanes.0.get_mut(&lane) else { return false };
        while self.replica.continue_listing(at, self.now.monotonic_ms) {}
        at.has_room()
    }

    fn handle(&mut self, event: ClientEvent) {
        let Server { replica, node, lanes, now, .. } = self;
        node.handle(event, &mut ServeContext { replica, connections: lanes, now: *now });
    }

    fn tick(&mut self) {
        let Server { replica, node, lanes, now, .. } = self;
        node.tick(&mut ServeContext { replica, connections: lanes, now: *now });
    }

    fn flush(&mut self) {
        let mut effects = Vec::new();
        self.node.take_effects(&mut effects);
        for effect in effects {
            if let Effect::Append { batch, .. } = effect {
                self.node.log_persisted(batch.last);
                self.log.push(batch);
            }
        }
        while self.node.has_committed() {
            if self.node.commit(&mut self.replica, &mut self.lanes, self.now).is_err() {
                panic!("a standalone server can apply what it has prepared");
            }
        }
        let mut sent = Vec::new();
        for lane in self.lanes.0.values_mut() {
            sent.clear();
            lane.take_outbox(&mut sent);
        }
    }

    /// Replaying the log over an empty tree gives the same tree.
    fn check(&self) {
        let mut bytes = HEADER.to_vec();
        self.log.iter().for_each(|batch| bytes.extend_from_slice(&batch.bytes));
        let (mut scanner, _) = LogScanner::open(&bytes[..]).expect("memory can be read");
        let mut tree = Tree::new(OPTIONS);
        while let Ok(ScanItem::Entry(raw)) = scanner.next_entry() {
            let entry = TxnEntry::decode(raw.payload).expect("what was logged can be read");
            tree.apply(&entry.header, &entry.txn, &mut |_| ());
        }
        assert_eq!(tree.last_zxid(), self.replica.last_zxid());
        assert_eq!(tree.digest(), self.replica.tree().digest());
        assert_eq!(tree.node_count(), self.replica.tree().node_count());
    }
}

pub(super) fn run(data: &[u8]) {
    let mut server = Server::new();
    let lanes = [ConnectionId(1), ConnectionId(2)];
    lanes.into_iter().for_each(|lane| server.connect(lane));
    let mut bits = Bits::new(data);
    while !bits.is_empty() {
        let lane = lanes[usize::from(bits.below(2))];
        match bits.below(8) {
            0 => {
                server.now.monotonic_ms += i64::from(bits.short());
                server.now.wall_ms += 100;
                server.tick();
            }
            1 => server.flush(),
            2 => server.connect(lane),
            _ => {
                let length = usize::from(bits.short());
                server.frame(lane, bits.take(length));
            }
        }
    }
    server.flush();
    server.check();
}

/// Recorded frames, strung together.
pub(super) fn corpus() -> Vec<Vec<u8>> {
    let frames = corpus::client_frames(Side::Client);
    let string = |frames: &[Vec<u8>]| {
        let mut input = Vec::new();
        for frame in frames {
            input.extend_from_slice(&[0, 3]);
            input.extend_from_slice(&(frame.len() as u16).to_be_bytes());
            input.extend_from_slice(&frame[..frame.len().min(usize::from(u16::MAX))]);
        }
        input
    };
    frames.chunks(12).map(string).collect()
}
