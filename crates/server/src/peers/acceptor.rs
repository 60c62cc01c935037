//! The listening sockets of one peer port: opens one for each own address and accepts from all of
//! them. It does not read from connections.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tracing::{info, warn};

use crate::ports::peer_ports::{self, Endpoint, PeerPort, ResolvedEndpoints};
use crate::ports::port_probe::BIND_RETRY;
use crate::serve_error::ServeError;

/// Connections that the kernel queues until they are accepted.
const BACKLOG: i32 = 128;

/// Failed attempts between two log lines: one minute.
const ATTEMPTS_PER_WARNING: u32 = 60;

/// Delay of the first attempts to reopen a port. The former sockets of this server may take a
/// moment to close.
const FIRST_REOPEN_DELAY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct PeerAcceptor {
    sockets: Vec<TcpListener>,
    /// Index of the socket that is polled first, so that none starves.
    next_socket: usize,
}

impl PeerAcceptor {
    /// Opens a port at the start, with this many retries; `None` retries without end.
    pub(super) async fn open(
        port: PeerPort,
        endpoints: Vec<Endpoint>,
        retries: Option<u32>,
    ) -> Result<PeerAcceptor, ServeError> {
        let mut attempt = 0;
        loop {
            match PeerAcceptor::try_open(port, &endpoints).await {
                Ok(acceptor) => return Ok(acceptor),
                Err((address, error)) => {
                    if retries.is_some_and(|retries| attempt >= retries) {
                        let reason = error.to_string();
                        return Err(ServeError::ListenForPeers { port, address, reason });
                    }
                    attempt += 1;
                    warn!(%port, address, %error, attempt, "a port for peers cannot be opened; trying again");
                    tokio::time::sleep(BIND_RETRY).await;
                }
            }
        }
    }

    /// Opens a port while the server runs, and retries without end.
    pub(super) async fn reopen(port: PeerPort, endpoints: Vec<Endpoint>) -> PeerAcceptor {
        let mut attempt = 0;
        loop {
            match PeerAcceptor::try_open(port, &endpoints).await {
                Ok(acceptor) => return acceptor,
                Err((address, error)) if attempt % ATTEMPTS_PER_WARNING == 1 => {
                    warn!(%port, address, %error, "a port for peers cannot be opened; trying again");
                }
                Err(_) => {}
            }
            tokio::time::sleep(if attempt < 5 { FIRST_REOPEN_DELAY } else { BIND_RETRY }).await;
            attempt += 1;
        }
    }

    /// Fails if another process uses an address, or if no address can be opened.
    async fn try_open(port: PeerPort, endpoints: &[Endpoint]) -> Result<PeerAcceptor, (String, io::Error)> {
        let looked_up = endpoints.to_vec();
        let resolved = tokio::task::spawn_blocking(move || peer_ports::resolve(&looked_up)).await;
        let ResolvedEndpoints { addresses, failures } = resolved.unwrap_or_default();
        let mut failures: Vec<(String, io::Error)> =
            failures.into_iter().map(|(endpoint, error)| (endpoint.to_string(), error)).collect();
        let mut sockets = Vec::new();
        for address in addresses {
            match listen(address) {
                Ok(socket) => sockets.push(socket),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    return Err((address.to_string(), error));
                }
                Err(error) => failures.push((address.to_string(), error)),
            }
        }
        if sockets.is_empty() {
            let nothing =
                || (String::new(), io::Error::new(io::ErrorKind::NotFound, "no address is configured"));
            return Err(failures.into_iter().next().unwrap_or_else(nothing));
        }
        for (address, error) in failures {
            warn!(%port, address, %error, "an address of this server cannot be opened for peers; the others are open");
        }
        let acceptor = PeerAcceptor { sockets, next_socket: 0 };
        info!(%port, addresses = acceptor.addresses(), "listening for peers");
        Ok(acceptor)
    }

    fn addresses(&self) -> String {
        let addresses = self.sockets.iter().filter_map(|socket| socket.local_addr().ok());
        addresses.map(|address| address.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Accepts the next connection at any address.
    pub(super) async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        for index in 0..self.sockets.len() {
            let socket_index = (self.next_socket + index) % self.sockets.len();
            if let Poll::Ready(result) = self.sockets[socket_index].poll_accept(context) {
                self.next_socket = socket_index + 1;
                return Poll::Ready(result.map(|(stream, from)| (stream, canonical(from))));
            }
        }
        Poll::Pending
    }
}

/// Returns the IPv4 address of a peer that an IPv6 socket shows as a mapped address.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip.is_ipv4() => SocketAddr::new(ip, address.port()),
        _ => address,
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = peer_ports::bind(address)?;
    socket.set_nonblocking(true)?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(host: &str, port: u16) -> Endpoint {
        Endpoint::Host { host: host.to_owned(), port }
    }

    /// Returns a port that is free in both families at this moment.
    fn free_port() -> u16 {
        loop {
            let four = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = four.local_addr().unwrap().port();
            if std::net::TcpListener::bind(("::1", port)).is_ok() {
                return port;
            }
        }
    }

    async fn reaches(acceptor: &mut PeerAcceptor, address: (&str, u16)) {
        let (connected, accepted) = tokio::join!(TcpStream::connect(address), acceptor.accept());
        let (connected, (_, from)) = (connected.unwrap(), accepted.unwrap());
        assert_eq!(connected.local_addr().unwrap(), from);
    }

    #[tokio::test]
    async fn all_addresses_are_listened_on() {
        let port = free_port();
        let endpoints = vec![host("127.0.0.1", port), host("::1", port)];
        let mut acceptor = PeerAcceptor::open(PeerPort::Quorum, endpoints, Some(0)).await.unwrap();
        for _ in 0..3 {
            reaches(&mut acceptor, ("127.0.0.1", port)).await;
            reaches(&mut acceptor, ("::1", port)).await;
        }
    }

    #[tokio::test]
    async fn all_interfaces_are_both_families() {
        let port = free_port();
        let endpoints = vec![Endpoint::AllInterfaces { port }];
        let mut acceptor = PeerAcceptor::open(PeerPort::Election, endpoints, Some(0)).await.unwrap();
        reaches(&mut acceptor, ("127.0.0.1", port)).await;
        reaches(&mut acceptor, ("::1", port)).await;
    }

    #[tokio::test]
    async fn one_address_that_works_is_enough_and_none_is_an_error() {
        let port = free_port();
        let foreign = vec![host("192.0.2.1", port)];
        assert!(PeerAcceptor::open(PeerPort::Quorum, foreign.clone(), Some(0)).await.is_err());
        let some = [foreign, vec![host("::1", port)]].concat();
        let mut acceptor = PeerAcceptor::open(PeerPort::Quorum, some, Some(0)).await.unwrap();
        reaches(&mut acceptor, ("::1", port)).await;
        let taken = vec![host("127.0.0.1", port), host("::1", port)];
        let error = PeerAcceptor::open(PeerPort::Quorum, taken, Some(0)).await.unwrap_err();
        assert_eq!(error.exit_code(), 14);
    }
}
