//! The network between members: what becomes of bytes on a path that is disturbed.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use zebu_testing::network::{Content, Flow, Network, Ports};

const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Long enough to see that nothing comes; it decides nothing if something does.
const A_MOMENT: Duration = Duration::from_millis(200);

struct Rig {
    network: Network,
    door: SocketAddr,
    target: TcpListener,
}

/// Host 0 finds host 1 at the door.
fn rig(content: Content) -> Rig {
    let mut ports = Ports::default();
    let network = Network::new(2).expect("a network");
    let (door, listener) = network.listen(&mut ports).expect("a port");
    let target = TcpListener::bind("127.0.0.1:0").expect("a port");
    network.serve(listener, (0, 1), target.local_addr().expect("an address"), content);
    Rig { network, door, target }
}

impl Rig {
    fn dial(&self) -> TcpStream {
        let stream = TcpStream::connect(self.door).expect("the door is open");
        stream.set_read_timeout(Some(TIME_LIMIT)).expect("a limit");
        stream
    }

    fn pair(&self) -> (TcpStream, TcpStream) {
        let dialer = self.dial();
        let called = self.target.accept().expect("a call").0;
        called.set_read_timeout(Some(TIME_LIMIT)).expect("a limit");
        (dialer, called)
    }
}

fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).expect("bytes");
    bytes
}

fn nothing_comes(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(A_MOMENT)).expect("a limit");
    let error = stream.read(&mut [0]).expect_err("nothing");
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    stream.set_read_timeout(Some(TIME_LIMIT)).expect("a limit");
}

/// Reads until the connection is over, by a farewell or a reset.
fn rest(stream: &mut TcpStream) -> usize {
    let (mut piece, mut count) = ([0; 4096], 0);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return count,
            Ok(more) => count += more,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                return count;
            }
        }
    }
}

#[test]
fn held_bytes_come_later_and_the_other_way_is_free() {
    let rig = rig(Content::Plain);
    let (mut dialer, mut called) = rig.pair();
    rig.network.set(0, 1, Flow::Held);
    dialer.write_all(b"held").expect("written");
    nothing_comes(&mut called);
    called.write_all(b"back").expect("written");
    assert_eq!(read(&mut dialer, 4), b"back");
    rig.network.heal();
    assert_eq!(read(&mut called, 4), b"held");
}

#[test]
fn a_connection_that_has_lost_bytes_ends_when_the_path_is_free() {
    let rig = rig(Content::Plain);
    let (mut dialer, mut called) = rig.pair();
    rig.network.set(0, 1, Flow::Lost);
    dialer.write_all(b"lost").expect("written");
    nothing_comes(&mut called);
    rig.network.heal();
    assert_eq!(rest(&mut called), 0);
    assert_eq!(rest(&mut dialer), 0);
}

#[test]
fn a_path_that_is_cut_off_connects_nobody() {
    let rig = rig(Content::Plain);
    rig.network.set(0, 1, Flow::Held);
    let mut dialer = rig.dial();
    rig.target.set_nonblocking(true).expect("set");
    std::thread::sleep(A_MOMENT);
    assert_eq!(rig.target.accept().expect_err("nobody").kind(), ErrorKind::WouldBlock);
    rig.target.set_nonblocking(false).expect("set");
    rig.network.heal();
    let mut called = rig.target.accept().expect("a call").0;
    called.write_all(b"x").expect("written");
    assert_eq!(read(&mut dialer, 1), b"x");
}

#[test]
fn a_connection_is_reset_at_a_byte() {
    let rig = rig(Content::Plain);
    let (mut dialer, mut called) = rig.pair();
    rig.network.reset_every(0, 1, 1000);
    // It may be reset while it is written.
    let _ = dialer.write_all(&[7; 1500]);
    assert!(rest(&mut called) <= 1000);
    let (mut dialer, mut called) = rig.pair();
    dialer.write_all(&[7; 1000]).expect("so many pass");
    read(&mut called, 1000);
}

#[test]
fn connections_are_cut() {
    let rig = rig(Content::Plain);
    let (mut dialer, mut called) = rig.pair();
    called.write_all(b"x").expect("written");
    read(&mut dialer, 1);
    rig.network.cut(1, 0);
    assert_eq!(rest(&mut dialer), 0);
    assert_eq!(rest(&mut called), 0);
}

#[test]
fn an_election_is_called_back_through_the_network() {
    let called_back_at: SocketAddr = ([127, 0, 0, 1], 4242).into();
    let rig = rig(Content::Election { called_back_at });
    let mut dialer = rig.dial();
    let mut greeting = (-65536i64).to_be_bytes().to_vec();
    greeting.extend_from_slice(&3i64.to_be_bytes());
    greeting.extend_from_slice(&15i32.to_be_bytes());
    greeting.extend_from_slice(b"localhost:23456next");
    dialer.write_all(&greeting).expect("written");
    let mut called = rig.target.accept().expect("a call").0;
    called.set_read_timeout(Some(TIME_LIMIT)).expect("a limit");
    let seen = read(&mut called, 20 + 14 + 4);
    assert_eq!(seen[..16], greeting[..16]);
    assert_eq!(seen[16..20], 14i32.to_be_bytes());
    assert_eq!(&seen[20..], b"127.0.0.1:4242next");
}
