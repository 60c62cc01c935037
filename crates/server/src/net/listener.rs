//! Accepts client connections of one port, within the limits per address and in total.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::client_socket::ClientSocket;
use super::connection_guard::ConnectionGuard;
use super::connection_task::ConnectionTask;
use super::port_protection::{ClientPort, PortProtection};
use super::remote_address;
use super::tls_handshake::{self, Admission};
use crate::config::membership::HostPort;
use crate::config::{BindAddress, ListenConfig};
use crate::core::context::ServerContext;
use crate::ports::host_address;
use crate::serve_error::ServeError;

/// Most systems limit the backlog to this value. The kernel refuses connections beyond it.
const BACKLOG_DEFAULT: i32 = 1024;

/// Wait after a failed accept (out of file descriptors), so that the loop does not spin.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// The listener of the client port.
pub(crate) struct ClientListener {
    socket: TcpListener,
    shared: Arc<ServerContext>,
    /// Most connections at a time.
    connections_max: usize,
    protection: PortProtection,
}

impl ClientListener {
    /// Binds a port. All ports together have at most `connections_max` connections.
    pub(crate) fn bind(
        shared: Arc<ServerContext>,
        port: ClientPort,
        connections_max: usize,
    ) -> Result<ClientListener, ServeError> {
        let ClientPort { address, protection } = port;
        let listen = &shared.config.listen;
        let listener = bind_socket(address, backlog(listen)).map_err(|error| ServeError::Listen {
            address: address.to_string(),
            reason: error.to_string(),
        })?;
        if !matches!(protection, PortProtection::Plain) {
            info!(%address, protection = protection.name(), "clients connect here");
        }
        Ok(ClientListener { socket: listener, shared, connections_max, protection })
    }

    /// The bound address, with the port that the system chose if the configured port is 0.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// Accepts connections until the server stops, always at the same address.
    pub(crate) async fn serve_here(self) {
        self.accept_connections().await;
    }

    /// Accepts connections until the server stops. Rebinds if a config changes the client address;
    /// existing connections stay.
    pub(crate) async fn serve(mut self, mut client_address: watch::Receiver<Option<HostPort>>) {
        loop {
            tokio::select! {
                () = self.accept_connections() => {}
                changed = client_address.changed() => {
                    let next = client_address.borrow_and_update().clone();
                    if let (Ok(()), Some(next)) = (changed, next) {
                        self.rebind(&next).await;
                    }
                }
            }
        }
    }

    async fn rebind(&mut self, client_address: &HostPort) {
        let here = self.local_address();
        let (host, port) = (client_address.host.clone(), client_address.port);
        let looked_up = tokio::task::spawn_blocking(move || host_address::resolve(&host, port)).await;
        let address = match looked_up.map(|found| found.map(|found| host_address::prefer_ipv4(&found))) {
            Ok(Ok(Some(address))) => address,
            Ok(Ok(None) | Err(_)) | Err(_) => {
                warn!(%client_address, "the new place for clients does not resolve; clients connect where they did");
                return;
            }
        };
        let same = here.is_some_and(|here| {
            here.port() == address.port()
                && (here.ip() == address.ip() || here.ip().is_unspecified() || address.ip().is_unspecified())
        });
        if same {
            return;
        }
        let backlog = backlog(&self.shared.config.listen);
        match bind_address(address, backlog) {
            Ok(listener) => {
                info!(%address, "clients connect here from now on");
                self.socket = listener;
                self.shared.set_client_port(address.port());
            }
            Err(error) => {
                warn!(%address, %error, "the new place for clients cannot be opened; clients connect where they did");
            }
        }
    }

    async fn accept_connections(&self) {
        loop {
            match self.socket.accept().await {
                Ok((stream, peer)) => self.start_connection(stream, remote_address::canonical(peer)),
                Err(error) => {
                    warn!(%error, "a connection could not be accepted; trying again");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }

    fn start_connection(&self, stream: TcpStream, peer: SocketAddr) {
        let shared = &self.shared;
        shared.metrics.connection_requests.increment();
        let listen = &shared.config.listen;
        let credentials =
            if shared.stopping.load(Ordering::Acquire) || self.open_connections() >= self.connections_max {
                None
            } else {
                shared.per_address.admit(peer.ip(), listen.max_connections_per_address)
            };
        let Some(credentials) = credentials else {
            shared.metrics.connections_rejected.increment();
            info!(
                %peer,
                "connection refused: too many connections (maxClientCnxns, maxCnxns, open files) or stopping"
            );
            return;
        };
        if let Err(error) = prepare_stream(&stream, listen) {
            shared.per_address.release(peer.ip());
            debug!(%peer, %error, "a connection was gone before it was served");
            return;
        }
        if !matches!(self.protection, PortProtection::Plain) {
            let admission = Admission::new(shared.clone(), peer, credentials);
            tokio::spawn(tls_handshake::begin_connection(admission, self.protection.clone(), stream));
            return;
        }
        let (socket, writer) = ClientSocket::new(stream);
        let guard =
            ConnectionGuard::new(shared.clone(), peer, self.protection.port(), credentials, Some(writer));
        tokio::spawn(ConnectionTask::new(socket, guard));
    }

    /// Connections of clients, with those before their first frame.
    fn open_connections(&self) -> usize {
        self.shared.connection_count.load(Ordering::Acquire)
            + self.shared.tls_use.preludes.load(Ordering::Acquire)
    }
}

fn prepare_stream(stream: &TcpStream, listen: &ListenConfig) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    if listen.tcp_keep_alive {
        socket2::SockRef::from(stream).set_keepalive(true)?;
    }
    Ok(())
}

fn bind_socket(address: BindAddress, backlog: i32) -> std::io::Result<TcpListener> {
    match address {
        BindAddress::Address(address) => bind_address(address, backlog),
        BindAddress::AllInterfaces { port } => {
            let both = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
            let v4_only = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
            match bind_address(both, backlog) {
                // The machine has no IPv6. Any other failure would be the same for IPv4.
                Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => bind_address(v4_only, backlog),
                result => result,
            }
        }
    }
}

fn backlog(listen: &ListenConfig) -> i32 {
    listen.backlog.and_then(|backlog| i32::try_from(backlog).ok()).unwrap_or(BACKLOG_DEFAULT)
}

fn bind_address(address: SocketAddr, backlog: i32) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    TcpListener::from_std(socket.into())
}
