//! Connections that have not yet identified their server. Their number is bounded: each takes a
//! file descriptor, and a server that cannot open its next log file must stop.
//!
//! The bound is fair. A connection with a certificate of the trust store keeps its place before all
//! others, then a connection from the address of a configured server. Among equals the network with
//! the most connections loses its oldest one.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use tracing::warn;

use crate::ports::peer_ports::PeerPort;

/// Most unidentified connections of one port. A peer identifies itself at once, and an ensemble has
/// far fewer servers.
pub(super) const UNIDENTIFIED_MAX: usize = 64;

/// Closed connections between two log lines.
const CLOSED_PER_WARNING: u64 = 1000;

/// The facts that speak for an unidentified connection, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// The connection comes from any other address.
    Stranger,
    /// The connection comes from an address of a configured server.
    MemberAddress,
    /// The peer has proved that it owns a certificate that this server trusts.
    Certified,
}

/// The unidentified connections of one port, oldest first.
#[derive(Debug)]
pub(super) struct UnidentifiedConnections<T> {
    port: PeerPort,
    connections: Vec<UnidentifiedConnection<T>>,
    closed: u64,
}

#[derive(Debug)]
struct UnidentifiedConnection<T> {
    number: u64,
    network: IpAddr,
    standing: Standing,
    connection: T,
}

impl<T> UnidentifiedConnections<T> {
    pub(super) fn new(port: PeerPort) -> UnidentifiedConnections<T> {
        UnidentifiedConnections { port, connections: Vec::new(), closed: 0 }
    }

    /// Adds a connection. Returns the one to close if there are too many; it may be the new one.
    #[must_use = "the connection that has to go"]
    pub(super) fn add(&mut self, number: u64, from: IpAddr, standing: Standing, connection: T) -> Option<T> {
        let network = network_of(from);
        self.connections.push(UnidentifiedConnection { number, network, standing, connection });
        if self.connections.len() <= UNIDENTIFIED_MAX {
            return None;
        }
        if self.closed.is_multiple_of(CLOSED_PER_WARNING) {
            let (port, limit, closed) = (self.port, UNIDENTIFIED_MAX, self.closed);
            warn!(
                %port, %from, limit, closed,
                "too many connections that do not say who they are; the oldest is closed"
            );
        }
        self.closed += 1;
        let index = self.index_to_close();
        Some(self.connections.remove(index).connection)
    }

    /// The oldest connection of the network with most connections, among those of the weakest standing.
    fn index_to_close(&self) -> usize {
        let weakest = self.connections.iter().map(|entry| entry.standing).min();
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        let candidates =
            || self.connections.iter().enumerate().filter(|(_, entry)| Some(entry.standing) == weakest);
        candidates().for_each(|(_, entry)| *counts.entry(entry.network).or_default() += 1);
        let most = counts.values().max().copied();
        candidates()
            .find(|(_, entry)| counts.get(&entry.network).copied() == most)
            .map_or(0, |(index, _)| index)
    }

    /// Records that the peer has proved to own a trusted certificate.
    pub(super) fn mark_certified(&mut self, number: u64) {
        if let Some(entry) = self.connections.iter_mut().find(|entry| entry.number == number) {
            entry.standing = Standing::Certified;
        }
    }

    /// Removes a connection that identified itself or ended.
    pub(super) fn remove(&mut self, number: u64) {
        self.connections.retain(|entry| entry.number != number);
    }
}

/// The addresses that one host can have: one of IPv4, or a /64 of IPv6.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Standing::{Certified, MemberAddress, Stranger};
    use super::*;

    /// Connections whose value is their number.
    struct Port(UnidentifiedConnections<u64>);

    impl Port {
        fn new() -> Port {
            Port(UnidentifiedConnections::new(PeerPort::Quorum))
        }

        fn add(&mut self, number: u64, from: &str, standing: Standing) -> Option<u64> {
            self.0.add(number, from.parse().unwrap(), standing, number)
        }

        /// Adds connections from one address and returns those that were closed.
        fn flood(&mut self, numbers: std::ops::Range<u64>, from: &str, standing: Standing) -> Vec<u64> {
            numbers.filter_map(|number| self.add(number, from, standing)).collect()
        }
    }

    #[test]
    fn the_oldest_of_one_address_goes_first() {
        let mut port = Port::new();
        assert_eq!(port.flood(0..64, "10.0.0.1", Stranger), []);
        assert_eq!(port.add(100, "10.0.0.1", Stranger), Some(0));
        port.0.remove(1);
        port.0.remove(1);
        assert_eq!(port.add(101, "10.0.0.1", Stranger), None);
        assert_eq!(port.add(102, "10.0.0.1", Stranger), Some(2));
    }

    #[test]
    fn a_flood_closes_its_own_connections_only() {
        let mut port = Port::new();
        assert_eq!(port.add(0, "10.0.0.1", Stranger), None);
        assert_eq!(port.add(1, "10.0.0.2", Stranger), None);
        let closed = port.flood(2..1000, "10.0.0.9", Stranger);
        assert_eq!(closed, (2..1000 - 62).collect::<Vec<_>>());
        // A host that comes during the flood gets a place too.
        assert_eq!(port.add(1000, "10.0.0.3", Stranger), Some(1000 - 62));
    }

    #[test]
    fn the_addresses_of_a_prefix_count_as_one_host() {
        let mut port = Port::new();
        assert_eq!(port.add(0, "2001:db8::1", Stranger), None);
        for number in 1..1000 {
            let closed = port.add(number, &format!("2001:db8:0:1::{number:x}"), Stranger);
            assert_ne!(closed, Some(0));
        }
        assert_eq!(network_of("::ffff:10.0.0.1".parse().unwrap()), network_of("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn strangers_of_many_addresses_never_close_a_configured_server() {
        let mut port = Port::new();
        assert_eq!(port.flood(0..3, "10.0.0.1", MemberAddress), []);
        for number in 3..1000 {
            let from = format!("172.16.{}.{}", number / 250, number % 250);
            let closed = port.add(number, &from, Stranger);
            assert!(closed.is_none_or(|closed| closed >= 3), "{closed:?}");
        }
        // A configured server that connects meanwhile takes the place of a stranger.
        assert!(port.add(1000, "10.0.0.2", MemberAddress).is_some_and(|closed| closed >= 3));
    }

    #[test]
    fn a_certificate_keeps_its_place_in_a_flood_from_the_same_address() {
        let mut port = Port::new();
        assert_eq!(port.flood(0..2, "10.0.0.1", MemberAddress), []);
        port.0.mark_certified(1);
        let closed = port.flood(2..1000, "10.0.0.1", MemberAddress);
        assert!(closed.contains(&0) && !closed.contains(&1), "{closed:?}");
        // Certified connections are bounded as well.
        assert_eq!(port.flood(1000..1064, "10.0.0.1", Certified).len(), 64);
        assert_eq!(port.add(1064, "10.0.0.2", Stranger), Some(1064));
    }
}
