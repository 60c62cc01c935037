//! The link's task and the core write to one socket: all packets arrive, in order, and the core hears
//! of their weight.

use std::sync::Arc;

use shuttle::future::block_on;
use shuttle::thread;
use zebu_proto::quorum::Packet;
use zebu_runtime::SnapshotSender;
use zebu_tree::{Tree, TreeOptions};
use zebu_zab::packet_weight;

use super::*;
use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::core::inbox::InboxBatch;
use crate::core::node_builder::NodeParts;
use crate::interleaving::explore;
use crate::interleaving::fake_socket::{FakeClient, fake_connection};
use crate::peers::address_book::AddressBook;

/// Bytes that the socket takes before the peer reads: less than a packet, or much.
const WINDOWS: [usize; 2] = [30, usize::MAX];

fn packet(number: i64) -> Packet {
    Packet::Proposal { zxid: Zxid(number), entry: vec![number as u8; 20].into() }
}

fn encoded(numbers: impl IntoIterator<Item = i64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    numbers.into_iter().for_each(|number| packet(number).encode(&mut bytes));
    bytes
}

fn server() -> Arc<ServerContext> {
    let (config, clock) = (ServerConfig::built_in(), Clock::start());
    let tree = Tree::new(TreeOptions::default());
    let NodeParts { replica, .. } = NodeParts::build(&config, tree, None, &clock, 0);
    Arc::new(ServerContext::new(config, clock, replica, 0))
}

/// The bytes of a snapshot of this server.
fn snapshot(shared: &ServerContext) -> Vec<u8> {
    let (replica, mut bytes) = (shared.read_replica(), Vec::new());
    let mut sender = SnapshotSender::begin(&replica);
    while sender.next_slice(&replica, SLICE_NODES, &mut bytes).unwrap() == SendProgress::More {}
    bytes
}

fn known_peer() -> LinkPeer {
    LinkPeer { origin: LinkOrigin::Dialed { to: ServerId(2) }, certificate: PeerCertificate::default() }
}

/// A link with its task. The thread of the test is the core.
struct ExploredLink {
    links: Arc<Links>,
    shared: Arc<ServerContext>,
    link: LinkId,
    task: thread::JoinHandle<()>,
    peer: thread::JoinHandle<Vec<u8>>,
    socket: FakeClient,
}

impl ExploredLink {
    /// Starts a link whose peer reads this many bytes, or until the link ends.
    fn start(window: usize, expected_bytes: usize) -> ExploredLink {
        ExploredLink::start_on(server(), window, expected_bytes)
    }

    fn start_on(shared: Arc<ServerContext>, window: usize, expected_bytes: usize) -> ExploredLink {
        let address_book = Arc::new(AddressBook::new(&shared.config));
        let links = Arc::new(Links::new(shared.clone(), address_book, None));
        let (reader, writer, socket) = fake_connection(window);
        let link = LinkId::accepted(1);
        let outbox = links.register(link, writer, PeerEvent::Accepted { link });
        let task = thread::spawn({
            let (links, shared) = (links.clone(), shared.clone());
            move || block_on(run_link(link, known_peer(), reader.into(), outbox, links, shared))
        });
        let peer = thread::spawn({
            let socket = socket.clone();
            move || {
                let mut received = Vec::new();
                while received.len() < expected_bytes {
                    match socket.receive() {
                        bytes if bytes.is_empty() => break,
                        bytes => received.extend(bytes),
                    }
                }
                received
            }
        });
        ExploredLink { links, shared, link, task, peer, socket }
    }

    /// Sends packets in one round of the core.
    fn send(&self, numbers: impl IntoIterator<Item = i64>) {
        numbers.into_iter().for_each(|number| self.links.send(self.link, packet(number)));
        self.links.flush();
    }

    /// Closes the link after the peer has received its bytes. Returns them, and the sum of the sent
    /// weights.
    fn close(self) -> (Vec<u8>, usize) {
        let received = self.peer.join().unwrap();
        self.links.close(self.link);
        self.task.join().unwrap();
        let mut batch = InboxBatch::default();
        self.shared.inbox.drain_into(&mut batch);
        let weight = |event: &ControlEvent| match event {
            ControlEvent::Peer(PeerEvent::Sent { weight, .. }) => *weight,
            _ => 0,
        };
        (received, batch.control_events.iter().map(weight).sum())
    }
}

fn total_weight(numbers: impl IntoIterator<Item = i64>) -> usize {
    numbers.into_iter().map(|number| packet_weight(&packet(number))).sum()
}

#[test]
fn packets_of_core_and_task_keep_their_order() {
    for window in WINDOWS {
        explore(300, move || {
            let expected = encoded(1..=4);
            let link = ExploredLink::start(window, expected.len());
            link.send([1, 2]);
            link.send([3]);
            link.send([4]);
            assert_eq!(link.close(), (expected, total_weight(1..=4)));
        });
    }
}

/// Packets that were queued before the end are still sent.
#[test]
fn a_closed_link_sends_its_rest() {
    explore(200, || {
        let link = ExploredLink::start(30, usize::MAX);
        link.send([1, 2]);
        link.links.send(link.link, packet(3));
        link.links.close(link.link);
        link.task.join().unwrap();
        link.links.flush();
        assert_eq!(link.peer.join().unwrap(), encoded(1..=3));
    });
}

#[test]
fn packets_behind_a_snapshot_follow_it() {
    for window in WINDOWS {
        explore(200, move || {
            let shared = server();
            let expected = [encoded([1]), snapshot(&shared), encoded([2, 3])].concat();
            let link = ExploredLink::start_on(shared, window, expected.len());
            link.send([1]);
            link.links.send_snapshot(link.link);
            link.send([2]);
            link.send([3]);
            let (received, weight) = link.close();
            assert_eq!((received == expected, weight), (true, total_weight(1..=3)));
        });
    }
}

/// The peer closes the connection while the core and the task write.
#[test]
fn a_link_ends_when_its_peer_closes_it() {
    explore(200, || {
        let link = ExploredLink::start(30, usize::MAX);
        let closes = thread::spawn({
            let socket = link.socket.clone();
            move || socket.close()
        });
        link.send([1, 2]);
        link.send([3]);
        link.task.join().unwrap();
        assert!(!link.links.is_open(link.link));
        closes.join().unwrap();
        link.peer.join().unwrap();
    });
}
