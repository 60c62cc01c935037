//! Checks that no other process uses this server's ports, before anything in the data directory is
//! touched. A running ZooKeeper takes no lock on its directory, so only its ports show it. A repair
//! of its log would destroy the log.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tracing::warn;

use crate::config::{BindAddress, ServerConfig};
use crate::ports::peer_ports::{self, Endpoint, PeerPort};
use crate::serve_error::ServeError;

/// Wait between attempts to open a peer port (`electionPortBindRetry`).
pub(crate) const BIND_RETRY: Duration = Duration::from_secs(1);

/// Fails if a port is in use. Other errors of an address appear when it is opened.
pub(crate) fn probe_ports(config: &ServerConfig) -> Result<(), ServeError> {
    for client in config.listen.client.iter().chain(&config.security.client_tls.secure_address) {
        let addresses = match *client {
            BindAddress::Address(address) => vec![address],
            BindAddress::AllInterfaces { port } => vec![
                SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port),
                SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port),
            ],
        };
        if let Err((_, error)) = check_unused(&addresses) {
            return Err(ServeError::Listen { address: client.to_string(), reason: error.to_string() });
        }
    }
    for port in [PeerPort::Election, PeerPort::Quorum] {
        probe_peer_port(
            port,
            &peer_ports::own_endpoints(config, port),
            config.membership.peers.bind_retries,
        )?;
    }
    Ok(())
}

/// Retries, because another process may release the port soon.
fn probe_peer_port(port: PeerPort, endpoints: &[Endpoint], retries: Option<u32>) -> Result<(), ServeError> {
    let mut attempt = 0;
    loop {
        let Err((address, error)) = check_unused(&peer_ports::resolve(endpoints).addresses) else {
            return Ok(());
        };
        if retries.is_some_and(|retries| attempt >= retries) {
            let reason = error.to_string();
            return Err(ServeError::ListenForPeers { port, address: address.to_string(), reason });
        }
        attempt += 1;
        warn!(%port, %address, %error, attempt, "a port for peers is in use; trying again");
        std::thread::sleep(BIND_RETRY);
    }
}

/// Binds each address and releases it. It does not listen, so no client can connect meanwhile.
fn check_unused(addresses: &[SocketAddr]) -> Result<(), (SocketAddr, io::Error)> {
    for address in addresses.iter().filter(|address| address.port() != 0) {
        match peer_ports::bind(*address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err((*address, error)),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn every_address_of_a_port_is_probed() {
        let other = TcpListener::bind("[::1]:0").unwrap();
        let port = other.local_addr().unwrap().port();
        let endpoint = |host: &str| Endpoint::Host { host: host.to_owned(), port };
        let probed = |endpoints: &[Endpoint]| probe_peer_port(PeerPort::Quorum, endpoints, Some(0));
        let error = probed(&[endpoint("127.0.0.1"), endpoint("::1")]).unwrap_err();
        assert!(
            error.to_string().starts_with(&format!("unable to open the quorum port [::1]:{port}")),
            "{error}"
        );
        assert_eq!(error.exit_code(), 14);
        assert!(probed(&[Endpoint::AllInterfaces { port }]).is_err());
        assert!(probed(&[endpoint("127.0.0.1")]).is_ok());
    }

    #[test]
    fn a_port_that_is_let_go_in_a_moment_is_waited_for() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = other.local_addr().unwrap().port();
        let endpoint = [Endpoint::Host { host: "127.0.0.1".to_owned(), port }];
        let goes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(other);
        });
        assert!(probe_peer_port(PeerPort::Election, &endpoint, None).is_ok());
        goes.join().unwrap();
    }
}
