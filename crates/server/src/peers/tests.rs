//! The ports with real sockets and without a core: nobody takes what they bring unless the test does.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zebu_proto::quorum::election::{NOTIFICATION_BYTES_MAX, NotificationVersion};
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};
use zebu_proto::quorum::{InitialMessage, Notification, Packet, PeerState};
use zebu_proto::{ServerId, Zxid};
use zebu_tree::{Tree, TreeOptions};
use zebu_zab::membership::{Addresses, parse_member};
use zebu_zab::{Door, Event, LinkId};

use super::acceptor::Acceptor;
use super::address_book::AddressBook;
use super::election::{Election, WAITING_VOTES_MAX};
use super::links::Links;
use super::unidentified::UNIDENTIFIED_MAX;
use crate::brain::Brain;
use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::inbox::{Delivery, Urgent};
use crate::peer_ports::{Endpoint, PeerPort};
use crate::shared::Shared;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Server 1 of three.
fn server() -> (Arc<Shared>, Arc<AddressBook>) {
    let mut config = ServerConfig::built_in();
    config.membership.my_id = Some(ServerId(1));
    for id in 1..=3 {
        let member = parse_member("127.0.0.1:1:2", Addresses::One).unwrap();
        config.membership.members.insert(ServerId(id), member);
    }
    let book = Arc::new(AddressBook::new(&config));
    let clock = Clock::start();
    let Brain { replica, .. } = Brain::new(&config, Tree::new(TreeOptions::default()), None, &clock, 0);
    (Arc::new(Shared::new(config, clock, replica, 0)), book)
}

async fn acceptor(port: PeerPort) -> (Acceptor, SocketAddr) {
    loop {
        let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let endpoint = Endpoint::Host { host: free.ip().to_string(), port: free.port() };
        if let Ok(acceptor) = Acceptor::open(port, vec![endpoint], Some(0)).await {
            return (acceptor, free);
        }
    }
}

fn taken(shared: &Shared) -> Vec<Urgent> {
    let mut delivery = Delivery::default();
    shared.inbox.take(&mut delivery);
    delivery.urgent
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
        state: PeerState::Looking,
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
    let (shared, book) = server();
    let (acceptor, address) = acceptor(PeerPort::Election).await;
    let election = Election::new(shared.clone(), book);
    tokio::spawn(election.listen(acceptor));
    let mut peer = TcpStream::connect(address).await.unwrap();
    let mut bytes = Vec::new();
    InitialMessage { server: ServerId(2), addresses: vec!["127.0.0.1:2".into()] }.encode(&mut bytes);
    peer.write_all(&bytes).await.unwrap();
    let vote = largest_vote();
    // Until the connection takes nothing more for a while.
    let mut sent = 0;
    while timeout(Duration::from_secs(2), peer.write_all(&vote)).await.is_ok() {
        sent += 1;
        assert!(sent < 10_000, "the votes of one server have no limit");
    }
    let votes =
        |urgent: &[Urgent]| urgent.iter().filter(|urgent| matches!(urgent, Urgent::Vote { .. })).count();
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
    let (shared, book) = server();
    let (acceptor, address) = acceptor(PeerPort::Election).await;
    let election = Election::new(shared.clone(), book);
    tokio::spawn(election.listen(acceptor));
    let mut strangers = Vec::new();
    for _ in 0..UNIDENTIFIED_MAX + 10 {
        strangers.push(TcpStream::connect(address).await.unwrap());
    }
    for stranger in &mut strangers[..10] {
        assert!(is_closed(stranger).await);
    }
    // A server of the list is heard all the same.
    let mut peer = TcpStream::connect(address).await.unwrap();
    let mut bytes = Vec::new();
    InitialMessage { server: ServerId(2), addresses: vec!["127.0.0.1:2".into()] }.encode(&mut bytes);
    bytes.extend(largest_vote());
    peer.write_all(&bytes).await.unwrap();
    until(|| taken(&shared).iter().any(|urgent| matches!(urgent, Urgent::Vote { .. })).then_some(())).await;
}

fn follower_info(server: i64) -> Vec<u8> {
    let info = LearnerInfo { server: ServerId(server), protocol: LEARNER_PROTOCOL, config_version: 0 };
    let mut bytes = Vec::new();
    Packet::FollowerInfo { accepted: Zxid::ZERO, info }.encode(&mut bytes);
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quorum_port_keeps_few_whose_server_is_not_known() {
    let (shared, book) = server();
    let (acceptor, address) = acceptor(PeerPort::Quorum).await;
    let links = Arc::new(Links::new(shared.clone(), book));
    tokio::spawn(links.clone().listen(acceptor, Door::Quorum));
    let mut known = TcpStream::connect(address).await.unwrap();
    known.write_all(&follower_info(2)).await.unwrap();
    until(|| {
        taken(&shared).iter().any(|urgent| matches!(urgent, Urgent::Peer(Event::Packet { .. }))).then_some(())
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
        let down = |urgent: &&Urgent| matches!(urgent, Urgent::Peer(Event::LinkDown { .. }));
        gone += taken(&shared).iter().filter(down).count();
        (gone == 10).then_some(())
    })
    .await;
    for stranger in &mut strangers[..10] {
        assert!(is_closed(stranger).await);
    }
    // The link of a known server is not among them.
    known.write_all(&follower_info(2)).await.unwrap();
    until(|| {
        taken(&shared).iter().any(|urgent| matches!(urgent, Urgent::Peer(Event::Packet { .. }))).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_packet_that_is_long_is_refused() {
    let (shared, book) = server();
    let (acceptor, address) = acceptor(PeerPort::Quorum).await;
    let links = Arc::new(Links::new(shared.clone(), book));
    tokio::spawn(links.clone().listen(acceptor, Door::Quorum));
    let mut stranger = TcpStream::connect(address).await.unwrap();
    let mut bytes = Vec::new();
    Packet::Proposal { zxid: Zxid(1), entry: vec![0; 1 << 20].into() }.encode(&mut bytes);
    // Its length is enough.
    stranger.write_all(&bytes[..100]).await.unwrap();
    assert!(is_closed(&mut stranger).await);
}

#[tokio::test]
async fn a_state_for_a_role_that_has_ended_is_not_kept() {
    let (shared, book) = server();
    let links = Arc::new(Links::new(shared, book));
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut kept = Vec::new();
    let open = |number: u64, stream: TcpStream| {
        let link = LinkId::dialed(number);
        links.start(link, stream, Event::Dialed { link });
        link
    };
    let state = || Tree::new(TreeOptions::default());
    let mut connect = async || {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        kept.push(listener.accept().await.unwrap());
        stream
    };
    let link = open(1, connect().await);
    links.keep_received(link, state());
    assert!(links.take_received(link).is_some());
    // The role ends before the state is there, or between that and its use.
    let link = open(2, connect().await);
    links.close(link);
    links.keep_received(link, state());
    assert!(links.take_received(link).is_none());
    let link = open(3, connect().await);
    links.keep_received(link, state());
    links.close(link);
    assert!(links.take_received(link).is_none());
    // The other side has closed behind the state: it is still wanted.
    let link = open(4, connect().await);
    links.keep_received(link, state());
    links.ended(link);
    assert!(links.take_received(link).is_some());
}
