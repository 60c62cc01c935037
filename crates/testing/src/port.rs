//! Free ports of the loopback interface, for servers that are started later and again. Owns which ports are
//! handed out and keeps other processes that ask here from getting the same ones. Uses the standard library
//! only: xtask includes it.

use std::collections::VecDeque;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The lowest port that is handed out: those below belong to well-known servers.
const LOWEST: u16 = 10_240;

/// The first port of outgoing connections, if the system does not say.
const OUTGOING_FROM: u16 = 32_768;

/// The reservations that a process keeps, at one descriptor each. The oldest one ends first.
const RESERVED_MAX: usize = 256;

/// How often a first port is looked for whose followers are free too.
const TRIES_MAX: usize = 1000;

/// Each process begins at another place, and hands out every port once until it has been through all.
static NEXT: LazyLock<AtomicU64> =
    LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(std::process::id()) >> 16));

/// The UDP socket of a number reserves the TCP port of the same number. No server here uses UDP, and the
/// reservation ends with the process, however that ends.
static RESERVED: Mutex<VecDeque<UdpSocket>> = Mutex::new(VecDeque::new());

/// An address on 127.0.0.1 without a listener, reserved for this process.
///
/// A server can be stopped and started again on it: outgoing connections get their ports from another range,
/// and other processes that ask here pass over reserved ports.
///
/// # Errors
/// No port is free.
pub fn free_address() -> io::Result<SocketAddr> {
    free_listener()?.local_addr()
}

/// The first of several addresses that are free and reserved together: the ports are its own and those at
/// these distances above it. For programs that derive their ports from one.
///
/// # Errors
/// No such ports are free.
pub fn free_address_with(distances: &[u16]) -> io::Result<SocketAddr> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for _ in 0..TRIES_MAX {
        let first = free_address()?;
        let Some(end) = first.port().checked_add(distances.iter().copied().max().unwrap_or(0)) else {
            continue;
        };
        if !ports().contains(&end) {
            continue;
        }
        match distances.iter().try_for_each(|distance| reserve(first.port() + distance).map(drop)) {
            Ok(()) => return Ok(first),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The same as [`free_address`], already open.
///
/// # Errors
/// No port is free.
pub fn free_listener() -> io::Result<TcpListener> {
    let ports = ports();
    let mut last = None;
    for _ in ports.clone() {
        let place = NEXT.fetch_add(1, Ordering::Relaxed) % ports.len() as u64;
        match reserve(ports.start + place as u16) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable)))
}

/// Reserves a port on which no process listens.
fn reserve(port: u16) -> io::Result<TcpListener> {
    let reservation = UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    reserved.push_back(reservation);
    if reserved.len() > RESERVED_MAX {
        reserved.pop_front();
    }
    Ok(listener)
}

/// The ports that are handed out on this machine.
fn ports() -> Range<u16> {
    range(fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok().as_deref())
}

/// The ports below those of outgoing connections; all of them if those begin too low.
fn range(outgoing: Option<&str>) -> Range<u16> {
    let from =
        outgoing.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(OUTGOING_FROM);
    if from > LOWEST + 1000 { LOWEST..from } else { LOWEST..u16::MAX }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// The port that another process of these tests is to ask for.
    const WANTED: &str = "ZEBU_TESTING_WANTED_PORT";

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

    #[test]
    fn ports_that_follow_a_free_one_are_not_handed_out_again() {
        let first = free_address_with(&[1, 2, 700]).expect("free ports").port();
        for distance in [0, 1, 2, 700] {
            assert!(reserve(first + distance).is_err(), "port {} can be had again", first + distance);
        }
    }

    /// The server on the port is stopped for a moment, and another test program looks for a port.
    #[test]
    fn another_process_does_not_get_a_port_that_is_handed_out() {
        if let Some(wanted) = std::env::var_os(WANTED) {
            let wanted: u16 = wanted.to_str().unwrap().parse().unwrap();
            assert!(reserve(wanted).is_err(), "a port of another process was handed out again");
            return;
        }
        let port = free_address().unwrap().port();
        let name = "another_process_does_not_get_a_port_that_is_handed_out";
        let mut other = Command::new(std::env::current_exe().unwrap());
        let other = other.arg(name).env(WANTED, port.to_string()).output().unwrap();
        let output = String::from_utf8_lossy(&other.stdout);
        assert!(output.contains("1 passed"), "{output}");
    }
}
