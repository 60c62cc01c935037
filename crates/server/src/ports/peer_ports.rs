//! The endpoints on which a server listens for peers, their socket addresses and their sockets.
//! Used to serve, to probe and to check; accepts no connection.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};

use crate::config::ServerConfig;
use crate::config::membership::PeerAddress;
use crate::ports::host_address;

/// A port of a server for its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerPort {
    /// Port for votes.
    Election,
    /// Port for links between a leader and its learners.
    Quorum,
    /// Port on which followers serve observers; the same number on all servers.
    ObserverMaster,
}

impl fmt::Display for PeerPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PeerPort::Election => "election",
            PeerPort::Quorum => "quorum",
            PeerPort::ObserverMaster => "observer master",
        })
    }
}

/// An address to listen on, as configured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// Every interface, IPv6 and IPv4.
    AllInterfaces {
        /// TCP port.
        port: u16,
    },
    /// All addresses of a host.
    Host {
        /// Name or literal, without brackets.
        host: String,
        /// TCP port.
        port: u16,
    },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::AllInterfaces { port } => write!(f, "*:{port}"),
            Endpoint::Host { host, port } => f.write_str(&host_address::format_host_port(host, *port)),
        }
    }
}

/// Whether peer ports are opened on every interface (`quorumListenOnAllIPs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenInterfaces {
    Own,
    All,
}

impl ListenInterfaces {
    pub(crate) fn of(config: &ServerConfig) -> ListenInterfaces {
        if config.membership.listen_on_all_addresses { ListenInterfaces::All } else { ListenInterfaces::Own }
    }
}

/// The endpoints of a server with these addresses, without duplicates.
pub(crate) fn endpoints(
    addresses: &[PeerAddress],
    interfaces: ListenInterfaces,
    port: impl Fn(&PeerAddress) -> u16,
) -> Vec<Endpoint> {
    let all: BTreeSet<Endpoint> = addresses
        .iter()
        .map(|address| match interfaces {
            ListenInterfaces::All => Endpoint::AllInterfaces { port: port(address) },
            ListenInterfaces::Own => Endpoint::Host { host: address.host.clone(), port: port(address) },
        })
        .collect();
    all.into_iter().collect()
}

/// The endpoints of the configured server; none for a standalone server.
pub fn own_endpoints(config: &ServerConfig, port: PeerPort) -> Vec<Endpoint> {
    let membership = &config.membership;
    let own =
        membership.my_id.and_then(|id| membership.members.get(&id)).filter(|_| membership.is_ensemble());
    let number = |address: &PeerAddress| match port {
        PeerPort::Election => address.election_port,
        PeerPort::Quorum => address.quorum_port,
        PeerPort::ObserverMaster => membership.observers.master_port.unwrap_or(0),
    };
    own.map_or_else(Vec::new, |own| endpoints(&own.addresses, ListenInterfaces::of(config), number))
}

/// The socket addresses of endpoints, and the failures.
#[derive(Debug, Default)]
pub struct ResolvedEndpoints {
    /// Without duplicates and without addresses that a wildcard covers.
    pub addresses: Vec<SocketAddr>,
    /// Endpoints that did not resolve.
    pub failures: Vec<(Endpoint, io::Error)>,
}

/// Resolves all addresses of all endpoints. Blocks during name lookups.
pub fn resolve(endpoints: &[Endpoint]) -> ResolvedEndpoints {
    resolve_with(endpoints, host_address::resolve)
}

fn resolve_with(
    endpoints: &[Endpoint],
    look_up: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>>,
) -> ResolvedEndpoints {
    let mut resolved = ResolvedEndpoints::default();
    for endpoint in endpoints {
        match endpoint {
            Endpoint::AllInterfaces { port } => {
                resolved.addresses.push(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), *port));
            }
            Endpoint::Host { host, port } => match look_up(host, *port) {
                Ok(found) => resolved.addresses.extend(found),
                Err(error) => resolved.failures.push((endpoint.clone(), error)),
            },
        }
    }
    resolved.addresses = remove_covered(resolved.addresses);
    resolved
}

/// Drops addresses that a wildcard covers. A socket on `::` takes IPv4 too, and `0.0.0.0` every
/// IPv4 address; another one cannot be bound beside it.
fn remove_covered(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let unspecified = |address: &&SocketAddr| address.ip().is_unspecified();
    let wild: Vec<SocketAddr> = addresses.iter().filter(unspecified).copied().collect();
    let covers = |wide: &SocketAddr, address: &SocketAddr| {
        wide != address
            && wide.port() == address.port()
            && (wide.is_ipv6() || (address.is_ipv4() && !address.ip().is_unspecified()))
    };
    let mut left = Vec::new();
    for address in addresses {
        if !left.contains(&address) && !wild.iter().any(|wide| covers(wide, &address)) {
            left.push(address);
        }
    }
    left
}

/// Binds without listening. `::` takes IPv4 too; on a machine without IPv6 it becomes `0.0.0.0`.
pub fn bind(address: SocketAddr) -> io::Result<Socket> {
    match bind_one(address) {
        Err(error)
            if error.kind() != io::ErrorKind::AddrInUse
                && address.is_ipv6()
                && address.ip().is_unspecified() =>
        {
            bind_one(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port()))
        }
        result => result,
    }
}

fn bind_one(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(host: &str, port: u16) -> Endpoint {
        Endpoint::Host { host: host.to_owned(), port }
    }

    fn look_up(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let ips: &[&str] = match name {
            "dual" => &["::1", "127.0.0.1", "::1"],
            "six" => &["::1"],
            "wild4" => &["0.0.0.0"],
            "wild6" => &["::"],
            _ => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(ips.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), port)).collect())
    }

    fn resolved(endpoints: &[Endpoint]) -> Vec<String> {
        resolve_with(endpoints, look_up).addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_stands_for_all_its_addresses() {
        assert_eq!(resolved(&[host("dual", 5)]), ["[::1]:5", "127.0.0.1:5"]);
        assert_eq!(resolved(&[host("dual", 5), host("six", 6)]), ["[::1]:5", "127.0.0.1:5", "[::1]:6"]);
        let some = resolve_with(&[host("dual", 5), host("gone", 5)], look_up);
        assert_eq!((some.addresses.len(), some.failures.len()), (2, 1));
    }

    #[test]
    fn what_a_wildcard_covers_is_not_bound_beside_it() {
        assert_eq!(
            resolved(&[host("dual", 5), host("wild4", 5), host("wild4", 6)]),
            ["[::1]:5", "0.0.0.0:5", "0.0.0.0:6"]
        );
        assert_eq!(resolved(&[host("dual", 5), host("wild4", 5), host("wild6", 5)]), ["[::]:5"]);
        assert_eq!(resolved(&[Endpoint::AllInterfaces { port: 5 }, host("wild6", 5)]), ["[::]:5"]);
    }

    #[test]
    fn both_families_share_a_port() {
        let first = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = first.local_addr().unwrap().as_socket().unwrap().port();
        let second = bind(SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port)).unwrap();
        first.listen(1).unwrap();
        second.listen(1).unwrap();
        let error = bind(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn all_addresses_of_a_server_or_all_interfaces() {
        let address = |host: &str| PeerAddress { host: host.to_owned(), quorum_port: 1, election_port: 2 };
        let two = [address("a"), address("fe80::1%eth0"), address("a")];
        let own = endpoints(&two, ListenInterfaces::Own, |address| address.quorum_port);
        assert_eq!(own.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a:1", "[fe80::1%eth0]:1"]);
        let all = endpoints(&two, ListenInterfaces::All, |address| address.election_port);
        assert_eq!(all, [Endpoint::AllInterfaces { port: 2 }]);
    }
}
