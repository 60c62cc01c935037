//! Connects to a peer that may have several addresses.
//!
//! An attempt for the next address starts before the previous one ends. The first connection is
//! used; the other attempts are dropped. This module also sets the socket options.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::ports::host_address;

/// How long an attempt runs alone before the next address is tried in parallel.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// Most addresses tried for one peer, over all its host names.
const ADDRESSES_MAX: usize = 32;

/// How long sent bytes may stay unacknowledged on an election connection. Firewalls drop idle
/// connections silently; without this limit TCP would retry for about 15 minutes.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(5);

/// The addresses of one peer, and the reason why there are none.
#[derive(Debug)]
pub(super) struct DialAddresses {
    addresses: VecDeque<SocketAddr>,
    failure: io::Error,
}

impl DialAddresses {
    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.addresses.iter().copied()
    }

    /// Connects to the first address that answers.
    pub(super) async fn connect(self, attempt_max: Duration) -> io::Result<TcpStream> {
        connect_first(self.addresses, attempt_max, self.failure).await
    }
}

/// Resolves the names of one peer.
pub(super) async fn resolve(hosts: Vec<(String, u16)>, attempt_max: Duration) -> DialAddresses {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the server is not in the configuration");
    let mut addresses = VecDeque::new();
    for (host, port) in hosts {
        // The limit covers a name server that does not answer, too.
        let looked_up = tokio::task::spawn_blocking(move || host_address::resolve(&host, port));
        match timeout(attempt_max, looked_up).await {
            Ok(Ok(Ok(found))) => {
                found.into_iter().for_each(|address| {
                    if !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
                        addresses.push_back(address);
                    }
                });
            }
            Ok(Ok(Err(error))) => failure = error,
            Ok(Err(_)) | Err(_) => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    DialAddresses { addresses, failure }
}

async fn connect_first(
    mut addresses: VecDeque<SocketAddr>,
    attempt_max: Duration,
    mut failure: io::Error,
) -> io::Result<TcpStream> {
    let mut attempts: JoinSet<io::Result<TcpStream>> = JoinSet::new();
    loop {
        if let Some(address) = addresses.pop_front() {
            attempts.spawn(async move {
                match timeout(attempt_max, TcpStream::connect(address)).await {
                    Ok(result) => result,
                    Err(_) => Err(io::ErrorKind::TimedOut.into()),
                }
            });
        }
        let ended = tokio::select! {
            ended = attempts.join_next() => ended,
            () = sleep(NEXT_ADDRESS_AFTER), if !addresses.is_empty() => continue,
        };
        match ended {
            Some(Ok(Ok(stream))) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Some(Ok(Err(error))) => failure = error,
            Some(Err(_)) => {}
            None if addresses.is_empty() => return Err(failure),
            None => {}
        }
    }
}

/// Sets the options of an election socket, dialed or accepted. With `keep_alive`, TCP probes an idle
/// connection (`tcpKeepAlive`).
pub(super) fn prepare_for_election(stream: &TcpStream, keep_alive: bool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if keep_alive {
        socket2::SockRef::from(stream).set_keepalive(true)?;
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let limit = u32::try_from(TCP_USER_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
        rustix::net::sockopt::set_tcp_user_timeout(stream, limit)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::net::TcpListener;

    use super::*;

    const ATTEMPT_MAX: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn the_address_that_answers_is_used() {
        let listener = TcpListener::bind("[::1]:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // The first address refuses the connection, and the second host does not resolve.
        let hosts = vec![
            ("127.0.0.1".to_owned(), port),
            ("::1%no-such-if".to_owned(), port),
            ("::1".to_owned(), port),
        ];
        let stream = resolve(hosts, ATTEMPT_MAX).await.connect(ATTEMPT_MAX).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    }

    #[tokio::test]
    async fn a_silent_address_does_not_hold_up_the_next_one() {
        let full = silent_address();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let began = Instant::now();
        let addresses = VecDeque::from([full.0, here]);
        let stream = connect_first(addresses, ATTEMPT_MAX, io::ErrorKind::NotFound.into()).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), here);
        assert!(began.elapsed() < ATTEMPT_MAX / 2);
    }

    /// Returns an address that answers no connection attempt, because its queue is full.
    fn silent_address() -> (SocketAddr, Vec<socket2::Socket>) {
        let new = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let listener = new();
        listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut kept = vec![listener];
        for _ in 0..8 {
            let socket = new();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&address);
            kept.push(socket);
        }
        (address.as_socket().unwrap(), kept)
    }

    #[tokio::test]
    async fn nothing_to_try_is_said_so() {
        let error = resolve(Vec::new(), ATTEMPT_MAX).await.connect(ATTEMPT_MAX).await.unwrap_err();
        assert_eq!(error.to_string(), "the server is not in the configuration");
        let nowhere = vec![("::1%no-such-if".to_owned(), 1)];
        let error = resolve(nowhere, ATTEMPT_MAX).await.connect(ATTEMPT_MAX).await.unwrap_err();
        assert_eq!(error.to_string(), "no-such-if is no network interface of this machine");
    }

    #[tokio::test]
    async fn election_sockets_notice_a_peer_that_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let keeps_alive = || socket2::SockRef::from(&stream).keepalive().unwrap();
        prepare_for_election(&stream, false).unwrap();
        assert!(!keeps_alive() && stream.nodelay().unwrap());
        prepare_for_election(&stream, true).unwrap();
        assert!(keeps_alive());
        #[cfg(target_os = "linux")]
        assert_eq!(rustix::net::sockopt::tcp_user_timeout(&stream).unwrap(), 5000);
    }
}
