//! What the kernel takes for itself to tell many connections something: a small send for each of them, by as
//! many threads as there are processors. No server that tells its watchers over connections of their own can
//! be much quicker.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};

use super::middle::median;

/// A request with a path, as a watch is set with one.
const REQUEST_BYTES: usize = 28;

/// An answer with a little data.
const ANSWER_BYTES: usize = 93;

/// An event with the same path.
const EVENT_BYTES: usize = 43;

/// Both ends of a connection on this machine.
struct Connection {
    client: TcpStream,
    server: TcpStream,
}

impl Connection {
    fn open(listener: &TcpListener) -> std::io::Result<Connection> {
        let client = TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        Ok(Connection { client, server })
    }

    /// As if a watch were set.
    fn arm(&mut self) -> std::io::Result<()> {
        self.client.write_all(&[0; REQUEST_BYTES])?;
        self.server.read_exact(&mut [0; REQUEST_BYTES])?;
        self.server.write_all(&[0; ANSWER_BYTES])?;
        self.client.read_exact(&mut [0; ANSWER_BYTES])
    }
}

/// Milliseconds until something small was sent to each of so many connections; the median of the rounds.
pub(crate) fn measure(connections: usize, rounds: usize) -> Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen for the bare sends")?;
    let mut all = (0..connections)
        .map(|_| Connection::open(&listener))
        .collect::<std::io::Result<Vec<_>>>()
        .context("connect for the bare sends; two open files are needed for each connection")?;
    let mut took = Vec::new();
    for _ in 0..rounds {
        all.iter_mut().try_for_each(Connection::arm)?;
        let began = Instant::now();
        send_to_all(&mut all)?;
        took.push(began.elapsed().as_secs_f64() * 1e3);
        all.iter_mut().try_for_each(|connection| connection.client.read_exact(&mut [0; EVENT_BYTES]))?;
    }
    Ok(median(took))
}

fn send_to_all(all: &mut [Connection]) -> Result<()> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let per_thread = all.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let sending: Vec<_> = all
            .chunks_mut(per_thread)
            .map(|some| {
                let mut connections = some.iter_mut();
                scope.spawn(move || {
                    connections.try_for_each(|connection| connection.server.write_all(&[0; EVENT_BYTES]))
                })
            })
            .collect();
        sending.into_iter().try_for_each(|sending| {
            sending.join().map_err(|_| anyhow!("a thread that sends has panicked"))?.context("a bare send")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_is_sent_to() {
        // The receiver would wait for bytes that were not sent.
        for connections in [1, 2, 7] {
            assert!(measure(connections, 2).unwrap() > 0.0);
        }
    }
}
