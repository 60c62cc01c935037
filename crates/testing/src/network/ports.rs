//! Ports for the servers of a network: those of [`crate::port`], so that no other test program gets the same
//! ones.

use std::io;
use std::net::{SocketAddr, TcpListener};

use crate::port;

/// Hands out ports.
#[derive(Debug, Default)]
pub struct Ports(());

impl Ports {
    /// A port, open.
    ///
    /// # Errors
    /// None is free.
    pub fn open(&mut self) -> io::Result<(SocketAddr, TcpListener)> {
        let listener = port::free_listener()?;
        Ok((listener.local_addr()?, listener))
    }

    /// A port that was free a moment ago, for a server.
    ///
    /// # Errors
    /// None is free.
    pub fn free(&mut self) -> io::Result<SocketAddr> {
        port::free_address()
    }
}
