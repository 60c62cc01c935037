//! Free ports of the loopback interface, for servers that are started later. Owns which ones are handed out; reserves
//! nothing in the system.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The lowest port that is handed out: what is below belongs to well-known servers.
const LOWEST: u16 = 10_240;

/// Where connections that go out get their ports from, if the system does not say.
const OUTGOING_FROM: u16 = 32_768;

/// Each process begins somewhere else, and hands out every port once until it has been through all.
static NEXT: LazyLock<AtomicU64> =
    LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(std::process::id()) >> 16));

/// An address on 127.0.0.1 that nobody listens on at this moment.
///
/// The port is free again when this returns. No connection that goes out can take it, for those get theirs from another
/// range; another process that asks here could, but begins elsewhere. A server that loses that race fails to start and
/// says so.
pub fn free_address() -> io::Result<SocketAddr> {
    let ports = range(fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok().as_deref());
    let mut last = None;
    for _ in ports.clone() {
        let place = NEXT.fetch_add(1, Ordering::Relaxed) % ports.len() as u64;
        let port = ports.start + place as u16;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => return listener.local_addr(),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable)))
}

/// What lies below the ports of outgoing connections; with those among it if they begin too low.
fn range(outgoing: Option<&str>) -> Range<u16> {
    let from =
        outgoing.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(OUTGOING_FROM);
    if from > LOWEST + 1000 { LOWEST..from } else { LOWEST..u16::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_outgoing_connections_are_left_alone() {
        assert_eq!(range(Some("32768\t60999\n")), LOWEST..32_768);
        assert_eq!(range(Some("1024 65535")), LOWEST..u16::MAX);
        assert_eq!((range(None), range(Some("?"))), (LOWEST..OUTGOING_FROM, LOWEST..OUTGOING_FROM));
    }

    #[test]
    fn no_port_is_handed_out_twice_in_a_row() {
        let ports: Vec<u16> = (0..100).map(|_| free_address().expect("a free port").port()).collect();
        let mut different = ports.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), ports.len(), "{ports:?}");
    }
}
