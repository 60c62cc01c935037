//! Ports that nobody else uses. They lie below those that the system gives to connections that leave: a member
//! that is started again must find its own still free.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 21_000;
const COUNT: u32 = 1000;

/// How many ports were handed out by this process, so that no two of its tests get the same.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// Hands out ports.
#[derive(Debug, Default)]
pub struct Ports(());

impl Ports {
    /// A port, open.
    ///
    /// # Errors
    /// None is free.
    pub fn open(&mut self) -> io::Result<(SocketAddr, TcpListener)> {
        // Programs that run at the same time begin at different places.
        let start = std::process::id().wrapping_mul(61);
        for _ in 0..COUNT {
            let next = start.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
            let port = u16::try_from(FIRST + next).map_err(io::Error::other)?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            if let Ok(listener) = TcpListener::bind(address) {
                return Ok((address, listener));
            }
        }
        Err(io::Error::other(format!("no port is free from {FIRST} to {}", FIRST + COUNT - 1)))
    }

    /// A port that was free a moment ago, for a server.
    ///
    /// # Errors
    /// None is free.
    pub fn free(&mut self) -> io::Result<SocketAddr> {
        Ok(self.open()?.0)
    }
}
