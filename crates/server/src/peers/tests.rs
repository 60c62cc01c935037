//! The peer ports with real sockets and without a core: only the test drains the inbox.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zebu_proto::quorum::election::{NOTIFICATION_BYTES_MAX, NotificationVersion};
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};
use zebu_proto::quorum::{InitialMessage, Notification, Packet, ServerState};
use zebu_proto::txn::{CreateTxn, Txn, TxnEntry, TxnHeader};
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_tree::{Tree, TreeOptions};
use zebu_zab::membership::{MultiAddress, parse_server_spec};
use zebu_zab::{EncodedTxn, LearnerPort, LinkId, PeerEvent};

use super::acceptor::PeerAcceptor;
use super::address_book::AddressBook;
use super::election::{ElectionPort, WAITING_VOTES_MAX};
use super::link::LinkOrigin;
use super::links::Links;
use super::peer_stream::PeerStream;
use super::unidentified::UNIDENTIFIED_MAX;
use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::core::context::ServerContext;
use crate::core::inbox::{ControlEvent, InboxBatch};
use crate::core::node_builder::NodeParts;
use crate::panic_guard::ComponentFailure;
use crate::ports::peer_ports::{Endpoint, PeerPort};

/// A bound far above the time of any step.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns server 1 of three.
fn server() -> (Arc<ServerContext>, Arc<AddressBook>) {
    let mut config = ServerConfig::built_in();
    config.membership.my_id = Some(ServerId(1));
    for id in 1..=3 {
        let member = parse_server_spec("127.0.0.1:1:2", MultiAddress::Disabled).unwrap();
        config.membership.members.insert(ServerId(id), member);
    }
    let address_book = Arc::new(AddressBook::new(&config));
    let clock = Clock::start();
    let NodeParts { replica, .. } =
        NodeParts::build(&config, Tree::new(TreeOptions::default()), None, &clock, 0);
    (Arc::new(ServerContext::new(config, clock, replica, 0)), address_book)
}

async fn acceptor(port: PeerPort) -> (PeerAcceptor, SocketAddr) {
    loop {
        let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let endpoint = Endpoint::Host { host: free.ip().to_string(), port: free.port() };
        if let Ok(acceptor) = PeerAcceptor::open(port, vec![endpoint], Some(0)).await {
            return (acceptor, free);
        }
    }
}

fn taken(shared: &ServerContext) -> Vec<ControlEvent> {
    let mut batch = InboxBatch::default();
    shared.inbox.drain_into(&mut batch);
    batch.control_events
}

async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, looking).await.expect("it happens")
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(timeout(PATIENCE, stream.read(&mut [0; 64])).await, Ok(Ok(0) | Err(_)))
}

fn largest_vote() -> Vec<u8> {
    let mut vote = Notification {
        state: ServerState::Looking,
        leader: ServerId(2),
        zxid: Zxid(1),
        round: 1,
        epoch: 1,
        version: NotificationVersion::V2,
        config: Some("".into()),
    };
    let mut bytes = Vec::new();
    vote.encode(&mut bytes);
    vote.config = Some("#".repeat(NOTIFICATION_BYTES_MAX + 4 - bytes.len()).into());
    bytes.clear();
    vote.encode(&mut bytes);
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn votes_that_the_core_does_not_take_wait_with_their_sender() {
    let (shared, address_book) = server();
    let (acceptor, address) = acceptor(PeerPort::Election).await;
    let election = ElectionPort::new(shared.clone(), address_book, None);
    tokio::spawn(election.listen(acceptor));
    let mut peer = TcpStream::connect(address).await.unwrap();
    let mut bytes = Vec::new();
    InitialMessage { server: ServerId(2), addresses: vec!["127.0.0.1:2".into()] }.encode(&mut bytes);
    peer.write_all(&bytes).await.unwrap();
    let vote = largest_vote();
    // Writes until the connection accepts nothing for a while.
    let mut sent = 0;
    while timeout(Duration::from_secs(2), peer.write_all(&vote)).await.is_ok() {
        sent += 1;
        assert!(sent < 10_000, "the votes of one server have no limit");
    }
    let votes = |control_event: &[ControlEvent]| {
        control_event
            .iter()
            .filter(|control_event| matches!(control_event, ControlEvent::Vote { .. }))
            .count()
    };
    let mut heard = votes(&taken(&shared));
    assert_eq!(heard, WAITING_VOTES_MAX);
    until(|| {
        heard += votes(&taken(&shared));
        (heard >= sent).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_election_port_keeps_few_who_do_not_say_who_they_are() {
    let (shared, address_book) = server();
    let (acceptor, address) = acceptor(PeerPort::Election).await;
    let election = ElectionPort::new(shared.clone(), address_book, None);
    tokio::spawn(election.listen(acceptor));
    let mut strangers = Vec::new();
    for _ in 0..UNIDENTIFIED_MAX + 10 {
        strangers.push(TcpStream::connect(address).await.unwrap());
    }
    for stranger in &mut strangers[..10] {
        assert!(is_closed(stranger).await);
    }
    // A listed server is still accepted.
    let mut peer = TcpStream::connect(address).await.unwrap();
    let mut bytes = Vec::new();
    InitialMessage { server: ServerId(2), addresses: vec!["127.0.0.1:2".into()] }.encode(&mut bytes);
    bytes.extend(largest_vote());
    peer.write_all(&bytes).await.unwrap();
    until(|| {
        taken(&shared)
            .iter()
            .any(|control_event| matches!(control_event, ControlEvent::Vote { .. }))
            .then_some(())
    })
    .await;
}

fn follower_info(server: i64) -> Vec<u8> {
    let info =
        LearnerInfo { server: ServerId(server), protocol: LEARNER_PROTOCOL, config_version: 0, zebu: None };
    let mut bytes = Vec::new();
    Packet::FollowerInfo { accepted: Zxid::ZERO, info }.encode(&mut bytes);
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quorum_port_keeps_few_whose_server_is_not_known() {
    let (shared, address_book) = server();
    let (acceptor, address) = acceptor(PeerPort::Quorum).await;
    let links = Arc::new(Links::new(shared.clone(), address_book, None));
    tokio::spawn(links.clone().listen(acceptor, LearnerPort::Quorum));
    let mut known = TcpStream::connect(address).await.unwrap();
    known.write_all(&follower_info(2)).await.unwrap();
    until(|| {
        taken(&shared)
            .iter()
            .any(|control_event| matches!(control_event, ControlEvent::Peer(PeerEvent::Packet { .. })))
            .then_some(())
    })
    .await;
    let mut strangers = Vec::new();
    for number in 0..UNIDENTIFIED_MAX as i64 + 10 {
        let mut stranger = TcpStream::connect(address).await.unwrap();
        if number % 2 == 0 {
            stranger.write_all(&follower_info(1000 + number)).await.unwrap();
        }
        strangers.push(stranger);
    }
    let mut gone = 0;
    until(|| {
        let down = |control_event: &&ControlEvent| {
            matches!(control_event, ControlEvent::Peer(PeerEvent::LinkDown { .. }))
        };
        gone += taken(&shared).iter().filter(down).count();
        (gone == 10).then_some(())
    })
    .await;
    for stranger in &mut strangers[..10] {
        assert!(is_closed(stranger).await);
    }
    // The link of a known server is not among the unidentified.
    known.write_all(&follower_info(2)).await.unwrap();
    until(|| {
        taken(&shared)
            .iter()
            .any(|control_event| matches!(control_event, ControlEvent::Peer(PeerEvent::Packet { .. })))
            .then_some(())
    })
    .await;
}

/// A server whose disk is behind does not read packets of its peers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_is_not_read_while_the_disk_is_behind() {
    const FAR_BEHIND: usize = 1 << 30;
    let (shared, address_book) = server();
    let (acceptor, address) = acceptor(PeerPort::Quorum).await;
    let links = Arc::new(Links::new(shared.clone(), address_book, None));
    tokio::spawn(links.clone().listen(acceptor, LearnerPort::Quorum));
    shared.disk_backlog.add(FAR_BEHIND);
    let mut peer = TcpStream::connect(address).await.unwrap();
    let packets = follower_info(2).repeat(1000);
    // Writes until the connection accepts nothing for a while.
    let mut sent = 0;
    while timeout(Duration::from_secs(2), peer.write_all(&packets)).await.is_ok() {
        sent += 1;
        assert!(sent < 10_000, "the packets of one server have no limit");
    }
    let has_packet = || {
        taken(&shared)
            .iter()
            .any(|control_event| matches!(control_event, ControlEvent::Peer(PeerEvent::Packet { .. })))
            .then_some(())
    };
    assert_eq!(has_packet(), None);
    shared.disk_backlog.remove(FAR_BEHIND);
    until(has_packet).await;
}

/// The core takes all events at once, so that only the pause stops the sender.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_link_is_not_read_until_it_resumes() {
    let (shared, address_book) = server();
    let (acceptor, address) = acceptor(PeerPort::Quorum).await;
    let links = Arc::new(Links::new(shared.clone(), address_book, None));
    tokio::spawn(links.clone().listen(acceptor, LearnerPort::Quorum));
    let mut peer = TcpStream::connect(address).await.unwrap();
    let next_packet = || {
        taken(&shared).iter().find_map(|event| match event {
            ControlEvent::Peer(PeerEvent::Packet { link, .. }) => Some(*link),
            _ => None,
        })
    };
    peer.write_all(&follower_info(2)).await.unwrap();
    let link = until(next_packet).await;
    links.pause_reading(link);
    let packets = follower_info(2).repeat(1000);
    let mut sent = 0;
    while timeout(Duration::from_secs(2), peer.write_all(&packets)).await.is_ok() {
        taken(&shared);
        sent += 1;
        assert!(sent < 1000, "a paused link is read");
    }
    taken(&shared);
    links.resume_reading(link);
    until(next_packet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_packet_that_is_long_is_refused() {
    let (shared, address_book) = server();
    let (acceptor, address) = acceptor(PeerPort::Quorum).await;
    let links = Arc::new(Links::new(shared.clone(), address_book, None));
    tokio::spawn(links.clone().listen(acceptor, LearnerPort::Quorum));
    let mut stranger = TcpStream::connect(address).await.unwrap();
    let mut bytes = Vec::new();
    Packet::Proposal { zxid: Zxid(1), entry: vec![0; 1 << 20].into() }.encode(&mut bytes);
    // The announced length is enough to refuse the packet.
    stranger.write_all(&bytes[..100]).await.unwrap();
    assert!(is_closed(&mut stranger).await);
}

#[tokio::test]
async fn a_state_for_a_role_that_has_ended_is_not_kept() {
    let (shared, address_book) = server();
    let links = Arc::new(Links::new(shared, address_book, None));
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut kept = Vec::new();
    let open = |number: u64, stream: TcpStream| {
        let link = LinkId::dialed(number);
        links.start_link(
            link,
            PeerStream::plain(stream),
            LinkOrigin::Dialed { to: ServerId(2) },
            PeerEvent::Dialed { link },
        );
        link
    };
    let state = || Tree::new(TreeOptions::default());
    let mut connect = async || {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        kept.push(listener.accept().await.unwrap());
        stream
    };
    let link = open(1, connect().await);
    links.store_snapshot(link, state());
    assert!(links.take_snapshot(link).is_some());
    // The role ends before the snapshot arrives, or between its arrival and its use.
    let link = open(2, connect().await);
    links.close(link);
    links.store_snapshot(link, state());
    assert!(links.take_snapshot(link).is_none());
    let link = open(3, connect().await);
    links.store_snapshot(link, state());
    links.close(link);
    assert!(links.take_snapshot(link).is_none());
    // The peer closes after the snapshot: it is still usable.
    let link = open(4, connect().await);
    links.store_snapshot(link, state());
    links.link_ended(link);
    assert!(links.take_snapshot(link).is_some());
    // Later transactions can be applied then, too; an unreadable one discards the snapshot.
    let link = open(5, connect().await);
    links.store_snapshot(link, state());
    links.link_ended(link);
    links.load_received(link, &[created("/a", 1), created("/b", 2)]);
    let tree = links.take_snapshot(link).unwrap();
    assert_eq!(tree.last_zxid(), Zxid(2));
    assert!(tree.node("/a").is_some() && tree.node("/b").is_some());
    let link = open(6, connect().await);
    links.store_snapshot(link, state());
    links.load_received(link, &[EncodedTxn { zxid: Zxid(1), bytes: [1, 2, 3].into() }]);
    assert!(links.take_snapshot(link).is_none());
    links.load_received(link, &[created("/a", 1)]);
}

fn created(path: &str, zxid: i64) -> EncodedTxn {
    let header = TxnHeader { session: SessionId(1), cxid: 1, zxid: Zxid(zxid), time_ms: 1 };
    let txn = Txn::Create(CreateTxn {
        path: path.into(),
        data: None,
        acl: None,
        ephemeral: false,
        parent_cversion: zxid as i32,
    });
    let mut bytes = Vec::new();
    TxnEntry { header, txn, digest: None }.encode(&mut bytes);
    EncodedTxn { zxid: Zxid(zxid), bytes: bytes.into() }
}

#[tokio::test]
async fn a_panic_in_the_task_of_a_link_closes_that_link() {
    let (shared, address_book) = server();
    let links = Arc::new(Links::new(shared.clone(), address_book, None));
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut peers = Vec::new();
    for number in 1..=2 {
        peers.push(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
        let (reader, writer) = crate::sync::split(listener.accept().await.unwrap().0);
        let link = LinkId::accepted(number);
        let outbox = links.register(link, writer, PeerEvent::Accepted { link });
        links.spawn(link, async move {
            let _owned = (reader, outbox);
            tokio::task::yield_now().await;
            assert_eq!(number, 1, "as asked");
            std::future::pending().await
        });
    }
    let down = until(|| {
        taken(&shared).into_iter().find_map(|control_event| match control_event {
            ControlEvent::Peer(PeerEvent::LinkDown { link }) => Some(link),
            _ => None,
        })
    })
    .await;
    assert_eq!(down, LinkId::accepted(2));
    assert!(is_closed(&mut peers[1]).await);
    assert!(links.is_open(LinkId::accepted(1)), "no other link is affected");
}

#[tokio::test]
async fn a_panic_in_a_listener_for_peers_is_reported() {
    let (shared, _) = server();
    let fails = async { panic!("as asked") };
    assert!(super::listener(&shared, PeerPort::Quorum, fails).await.is_err());
    let failed = |control_event: &ControlEvent| {
        matches!(
            control_event,
            ControlEvent::ComponentFailed(ComponentFailure("the listener of the quorum port"))
        )
    };
    assert!(taken(&shared).iter().any(failed));
}
