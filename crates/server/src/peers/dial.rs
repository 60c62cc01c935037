//! Connects to a peer that may have several addresses: one attempt after another, each next one without waiting for the
//! end of the one before. The first connection is used, the others are given up. Options of sockets are set here.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::host_address;

/// How long an attempt may take before the next address is tried beside it.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// Addresses of one peer that are tried, with all addresses of all names.
const ADDRESSES_MAX: usize = 32;

/// How long sent bytes may stay unacknowledged on an election connection. Firewalls forget idle connections without a
/// word; without this limit the system would try for about 15 minutes.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(5);

/// Connects to the first of these that answers. Names are looked up anew each time.
pub(super) async fn connect(places: Vec<(String, u16)>, attempt_max: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the server is not in the configuration");
    let mut addresses = VecDeque::new();
    for (host, port) in places {
        // A name server that hangs is as bad as a host that hangs.
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
    first_of(addresses, attempt_max, failure).await
}

async fn first_of(
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

/// Whether the system asks now and then if an idle peer is still there (`tcpKeepAlive`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepAlive {
    On,
    Off,
}

/// Prepares a socket of the election port, dialled or accepted.
pub(super) fn prepare_for_election(stream: &TcpStream, keep_alive: KeepAlive) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if keep_alive == KeepAlive::On {
        socket2::SockRef::from(stream).set_keepalive(true)?;
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let limit = u32::try_from(UNACKNOWLEDGED_MAX.as_millis()).unwrap_or(u32::MAX);
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
        // Nobody listens at the first one, and the second one has no address.
        let places = vec![
            ("127.0.0.1".to_owned(), port),
            ("::1%no-such-if".to_owned(), port),
            ("::1".to_owned(), port),
        ];
        let stream = connect(places, ATTEMPT_MAX).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    }

    #[tokio::test]
    async fn a_silent_address_does_not_hold_up_the_next_one() {
        let full = silent_address();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let began = Instant::now();
        let addresses = VecDeque::from([full.0, here]);
        let stream = first_of(addresses, ATTEMPT_MAX, io::ErrorKind::NotFound.into()).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), here);
        assert!(began.elapsed() < ATTEMPT_MAX / 2);
    }

    /// An address that answers no attempt to connect: its queue is full.
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
        let error = connect(Vec::new(), ATTEMPT_MAX).await.unwrap_err();
        assert_eq!(error.to_string(), "the server is not in the configuration");
        let nowhere = vec![("::1%no-such-if".to_owned(), 1)];
        let error = connect(nowhere, ATTEMPT_MAX).await.unwrap_err();
        assert_eq!(error.to_string(), "no-such-if is no network interface of this machine");
    }

    #[tokio::test]
    async fn election_sockets_notice_a_peer_that_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let keeps_alive = || socket2::SockRef::from(&stream).keepalive().unwrap();
        prepare_for_election(&stream, KeepAlive::Off).unwrap();
        assert!(!keeps_alive() && stream.nodelay().unwrap());
        prepare_for_election(&stream, KeepAlive::On).unwrap();
        assert!(keeps_alive());
        #[cfg(target_os = "linux")]
        assert_eq!(rustix::net::sockopt::tcp_user_timeout(&stream).unwrap(), 5000);
    }
}
