//! Looks whether somebody else has this server's ports before anything in the data directory is touched. A ZooKeeper
//! that was not stopped takes no lock on its directory: its ports are the only sign of it, and repairing a log that
//! somebody writes to would destroy it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use socket2::{Domain, Protocol, Socket, Type};

use crate::config::{BindAddress, ServerConfig};
use crate::serve_error::ServeError;

/// An error if a port is in use. Whatever else is wrong with an address is found out when it is opened.
pub(crate) fn probe(config: &ServerConfig) -> Result<(), ServeError> {
    let client = config.listen.client;
    let addresses = match client {
        BindAddress::Address(address) => vec![address],
        BindAddress::AllInterfaces { port } => vec![
            SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port),
            SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port),
        ],
    };
    refuse_if_used(&addresses, &client.to_string())?;
    let membership = &config.membership;
    let own =
        membership.my_id.and_then(|id| membership.members.get(&id)).filter(|_| membership.is_ensemble());
    for address in own.iter().flat_map(|member| &member.addresses) {
        let host = if membership.listen_on_all_addresses { "0.0.0.0" } else { &*address.host };
        for port in [address.election_port, address.quorum_port] {
            let found: Vec<SocketAddr> = (host, port).to_socket_addrs().into_iter().flatten().collect();
            refuse_if_used(&found, &format!("{host}:{port}"))?;
        }
    }
    Ok(())
}

fn refuse_if_used(addresses: &[SocketAddr], name: &str) -> Result<(), ServeError> {
    for address in addresses.iter().filter(|address| address.port() != 0) {
        match bind(*address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(ServeError::Listen { address: name.to_owned(), reason: error.to_string() });
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Binds and lets go. It does not listen, so nobody can connect meanwhile.
fn bind(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())
}
