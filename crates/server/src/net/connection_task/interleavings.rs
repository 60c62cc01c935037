//! Client connections on a whole server: every request is answered, in order, by the task or by the
//! core, and no connection stands still.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;

use shuttle::future::block_on;
use shuttle::thread;
use zebu_proto::Zxid;

use super::*;
use crate::config::ServerConfig;
use crate::interleaving::explore;
use crate::interleaving::fake_socket::{FakeClient, FrameReader, fake_connection};
use crate::interleaving::server::ExploredServer;
use crate::net::ClientPortKind;

const PING: [u8; 12] = [0, 0, 0, 8, 255, 255, 255, 254, 0, 0, 0, 11];
const PING_XID: i32 = -2;
const EVENT_XID: i32 = -1;

/// The node that `getData` of these tests reads.
const NODE: &str = "/zookeeper/config";

/// The task of a connection to this server, and the client's end. The socket takes `window` bytes
/// before the client reads.
fn connect(server: &ExploredServer, window: usize) -> (thread::JoinHandle<()>, TestClient) {
    let (reader, writer, socket) = fake_connection(window);
    let (own_socket, writer) = ClientSocket::from_halves((reader, writer));
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let credentials = server.shared.per_address.admit(peer.ip(), None).unwrap();
    let guard =
        ConnectionGuard::new(server.shared.clone(), peer, ClientPortKind::Client, credentials, Some(writer));
    let task = ConnectionTask::new(own_socket, guard);
    let client = TestClient { socket: socket.clone(), frames: FrameReader::default() };
    let run = move || {
        block_on(task);
        assert!(socket.is_closed(), "a thread could still write");
    };
    (thread::spawn(run), client)
}

struct TestClient {
    socket: FakeClient,
    frames: FrameReader,
}

impl TestClient {
    fn begin_session(&mut self) {
        let mut request = [0; 44];
        request[12..16].copy_from_slice(&10_000_i32.to_be_bytes());
        request[24..28].copy_from_slice(&16_i32.to_be_bytes());
        self.socket.send(&[&44_u32.to_be_bytes(), &request[..]].concat());
        let reply = self.frames.next(&self.socket).expect("a session");
        assert_ne!(reply[8..16], [0; 8], "refused");
    }

    fn send(&self, requests: &[Vec<u8>]) {
        self.socket.send(&requests.concat());
    }

    /// The xid of the next reply or event.
    fn next_xid(&mut self) -> i32 {
        let frame = self.frames.next(&self.socket).expect("closed too early");
        i32::from_be_bytes(frame[..4].try_into().unwrap())
    }

    fn expect(&mut self, xids: impl IntoIterator<Item = i32>) {
        for xid in xids {
            assert_eq!(self.next_xid(), xid);
        }
    }

    /// Ends the session and waits until the server has closed the connection.
    fn end_session(mut self, xid: i32) {
        self.send(&[request(xid, -11, &[])]);
        self.expect([xid]);
        assert_eq!(self.frames.next(&self.socket), None);
    }
}

fn request(xid: i32, op: i32, body: &[u8]) -> Vec<u8> {
    let length = 8 + body.len() as u32;
    [&length.to_be_bytes()[..], &xid.to_be_bytes(), &op.to_be_bytes(), body].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// A write: it fails, as a transaction of its own.
fn delete(xid: i32) -> Vec<u8> {
    request(xid, 2, &[text("/missing"), vec![0; 4]].concat())
}

fn get_data(xid: i32) -> Vec<u8> {
    request(xid, 4, &[text(NODE), vec![0]].concat())
}

fn watch(xid: i32, path: &str) -> Vec<u8> {
    request(xid, 3, &[text(path), vec![1]].concat())
}

/// Creates a node with `data` bytes and an open ACL.
fn create(xid: i32, path: &str, data: usize) -> Vec<u8> {
    let acl = [&[0, 0, 0, 1, 0, 0, 0, 31][..], &text("world"), &text("anyone")].concat();
    let data = [&(data as u32).to_be_bytes()[..], &vec![b'x'; data]].concat();
    request(xid, 1, &[text(path), data, acl, vec![0; 4]].concat())
}

fn check_end(server: ExploredServer) {
    let shared = server.shared.clone();
    server.stop();
    assert_eq!(shared.connection_count.load(Ordering::Acquire), 0);
    assert_eq!(shared.connections.all().len(), 0, "the core has removed the connections");
    assert_eq!(shared.unread_answers.total(), 0);
}

/// Requests come one by one and together; the socket takes few bytes at a time.
#[test]
fn replies_arrive_in_order() {
    explore(100, || {
        let server = ExploredServer::start(ServerConfig::built_in());
        let (task, mut client) = connect(&server, 30);
        client.begin_session();
        client.send(&[delete(1)]);
        client.send(&[get_data(2), PING.to_vec(), delete(3), get_data(4)]);
        client.expect([1, 2]);
        client.send(&[delete(5)]);
        client.expect([PING_XID, 3, 4, 5]);
        client.end_session(6);
        task.join().unwrap();
        check_end(server);
    });
}

/// A client that waits for each reply finds a task that waits, so the core sends.
#[test]
fn a_client_that_waits_for_each_reply_gets_it() {
    explore(100, || {
        let server = ExploredServer::start(ServerConfig::built_in());
        let (task, mut client) = connect(&server, usize::MAX);
        client.begin_session();
        for xid in 1..=3 {
            client.send(&[delete(xid)]);
            client.expect([xid]);
            client.send(&[PING.to_vec()]);
            client.expect([PING_XID]);
        }
        client.end_session(4);
        task.join().unwrap();
        check_end(server);
    });
}

/// The event of a watch is written while the watching client sends and receives.
#[test]
fn an_event_reaches_a_client_that_is_busy() {
    explore(100, || {
        let server = ExploredServer::start(ServerConfig::built_in());
        let (first_task, mut first) = connect(&server, 30);
        let (second_task, mut second) = connect(&server, usize::MAX);
        first.begin_session();
        first.send(&[watch(1, "/a")]);
        first.expect([1]);
        let busy = thread::spawn(move || {
            first.send(&[PING.to_vec(), delete(2), PING.to_vec()]);
            let mut xids: Vec<_> = (0..4).map(|_| first.next_xid()).collect();
            let event = xids.iter().position(|xid| *xid == EVENT_XID).expect("an event");
            xids.remove(event);
            assert_eq!(xids, [PING_XID, 2, PING_XID]);
            first.end_session(3);
        });
        second.begin_session();
        second.send(&[create(1, "/a", 0)]);
        second.expect([1]);
        second.end_session(2);
        busy.join().unwrap();
        first_task.join().unwrap();
        second_task.join().unwrap();
        check_end(server);
    });
}

/// More reads wait behind a write than a connection may have. The task keeps the rest until a reply
/// makes room.
#[test]
fn requests_that_were_kept_are_executed_when_there_is_room() {
    explore(40, || {
        let server = ExploredServer::start(ServerConfig::built_in());
        let (task, mut client) = connect(&server, usize::MAX);
        client.begin_session();
        // The task waits in mode Direct before the many requests come.
        client.send(&[delete(1)]);
        client.expect([1]);
        let last = 3 + limits::WAITING_READS_MAX as i32 + 10;
        let mut requests = vec![delete(2)];
        requests.extend((3..=last).map(get_data));
        client.send(&requests);
        client.expect(2..=last);
        client.end_session(last + 1);
        task.join().unwrap();
        check_end(server);
    });
}

/// All clients together have too many unread replies, so a connection with 64 KiB in its outbox stops
/// reading. The core may send exactly that many bytes itself.
#[test]
fn a_connection_that_paused_reads_on_after_the_core_has_sent_its_outbox() {
    // Length, xid, zxid, error; length and stat of the data.
    const REPLY_BYTES: usize = 4 + 16;
    const DATA_BYTES: usize = (64 << 10) - REPLY_BYTES - (REPLY_BYTES + 4 + 68);
    explore(100, || {
        let server = ExploredServer::start_with_unread(ServerConfig::built_in(), 0);
        let data = Some(vec![b'x'; DATA_BYTES].into());
        server.shared.write_replica().set_config(data, Zxid(1), 0);
        let (task, mut client) = connect(&server, usize::MAX);
        client.begin_session();
        client.send(&[delete(1)]);
        client.expect([1]);
        server.shared.unread_answers.note(0, 1);
        client.send(&[delete(2), get_data(3)]);
        client.expect([2, 3]);
        client.end_session(4);
        task.join().unwrap();
        server.shared.unread_answers.note(1, 0);
        check_end(server);
    });
}

/// Only the task releases the permit of a large request, so the core must wake it.
#[test]
fn the_permit_of_a_large_request_comes_back_with_its_reply() {
    explore(100, || {
        let mut config = ServerConfig::built_in();
        config.limits.large_request_threshold = Some(100);
        config.limits.large_request_max_bytes = 400;
        let server = ExploredServer::start(config);
        let (task, mut client) = connect(&server, usize::MAX);
        let (other_task, mut other) = connect(&server, usize::MAX);
        client.begin_session();
        other.begin_session();
        for xid in 1..=2 {
            client.send(&[delete(xid)]);
            client.expect([xid]);
            client.send(&[create(xid, "/a", 200)]);
            client.expect([xid]);
        }
        // The task has released the permit before it sent the reply.
        other.send(&[create(1, "/a", 200)]);
        other.expect([1]);
        client.end_session(3);
        other.end_session(2);
        task.join().unwrap();
        other_task.join().unwrap();
        check_end(server);
    });
}

/// A client closes its socket while the core has an event for it.
#[test]
fn a_connection_ends_while_the_core_writes_to_it() {
    explore(100, || {
        let server = ExploredServer::start(ServerConfig::built_in());
        let (first_task, mut first) = connect(&server, 30);
        let (second_task, mut second) = connect(&server, usize::MAX);
        first.begin_session();
        first.send(&[watch(1, "/a")]);
        first.expect([1]);
        let leaves = thread::spawn(move || {
            first.send(&[delete(2)]);
            first.socket.close();
            first.socket.wait_for_close();
        });
        second.begin_session();
        second.send(&[create(1, "/a", 0)]);
        second.expect([1]);
        second.end_session(2);
        leaves.join().unwrap();
        first_task.join().unwrap();
        second_task.join().unwrap();
        check_end(server);
    });
}

/// The inbox has room for one write, so the tasks wait for permits.
#[test]
fn tasks_that_wait_for_permits_get_them() {
    explore(60, || {
        let mut config = ServerConfig::built_in();
        config.limits.global_outstanding_limit = 1;
        let server = ExploredServer::start(config);
        let clients = [(); 2].map(|()| {
            let (task, mut client) = connect(&server, usize::MAX);
            let run = thread::spawn(move || {
                client.begin_session();
                client.send(&[delete(1), delete(2), get_data(3)]);
                client.expect([1, 2, 3]);
                client.end_session(4);
            });
            (task, run)
        });
        for (task, client) in clients {
            client.join().unwrap();
            task.join().unwrap();
        }
        check_end(server);
    });
}
