//! Ports that nobody else uses. They lie below those that the system gives to connections that leave: a member
//! that is started again must find its own still free.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Result, bail};

const FIRST: u16 = 21_000;
const COUNT: u16 = 1000;

/// Hands out ports.
#[derive(Debug)]
pub(super) struct Ports {
    next: u16,
    given: BTreeSet<u16>,
}

impl Ports {
    /// Programs that run at the same time begin at different places.
    pub(super) fn new() -> Ports {
        let next = (std::process::id() % u32::from(COUNT / 50)) as u16 * 50;
        Ports { next, given: BTreeSet::new() }
    }

    /// A port, open.
    pub(super) fn open(&mut self) -> Result<(SocketAddr, TcpListener)> {
        for _ in 0..COUNT {
            let port = FIRST + self.next;
            self.next = (self.next + 1) % COUNT;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            if !self.given.contains(&port)
                && let Ok(listener) = TcpListener::bind(address)
            {
                self.given.insert(port);
                return Ok((address, listener));
            }
        }
        bail!("no port is free from {FIRST} to {}", FIRST + COUNT - 1)
    }

    /// A port that was free a moment ago, for a process.
    pub(super) fn free(&mut self) -> Result<SocketAddr> {
        Ok(self.open()?.0)
    }
}
