//! Free ports of the loopback interface. The operating system chooses; nothing is reserved beyond that.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// An address on 127.0.0.1 that nobody listens on at this moment.
///
/// The port is free again when this returns, so another process can take it first. The system hands out
/// ephemeral ports in turn, which makes that rare; a server that loses the race fails to start and says so.
pub fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
