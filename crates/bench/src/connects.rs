//! Connections that are opened, asked one word and closed, over and over: the cost of accepts and of TLS
//! handshakes without sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::cost::{ServerCost, Watched};
use crate::run::BenchError;
use crate::server::{BenchServer, BenchStream};

/// A word that each server answers without a session.
const WORD: &[u8] = b"ruok";
/// Its answer.
const ANSWER: [u8; 4] = *b"imok";

/// The cost of connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectsReport {
    /// Connections that were answered.
    pub connections: usize,
    /// Seconds that they took.
    pub seconds: f64,
    /// Cost per server process.
    pub servers: Vec<ServerCost>,
    /// CPU seconds of the process that made the load.
    pub generator_cpu_seconds: f64,
}

impl ConnectsReport {
    /// CPU microseconds of all servers per connection.
    pub fn cpu_us_per_connection(&self) -> f64 {
        let cpu: f64 = self.servers.iter().map(|server| server.cpu_seconds).sum();
        cpu * 1e6 / self.connections.max(1) as f64
    }
}

/// Opens `connections` connections, `at_once` of them at a time. The answer shows that the server finished
/// its side of the handshake too.
pub async fn connects(
    server: &BenchServer,
    connections: usize,
    at_once: usize,
    processes: &[u32],
) -> Result<ConnectsReport, BenchError> {
    let watched = Watched::begin(processes)?;
    let own = Watched::begin(&[std::process::id()])?;
    let begun = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..at_once.max(1) {
        let (server, begun) = (server.clone(), begun.clone());
        workers.spawn(async move {
            while begun.fetch_add(1, Ordering::Relaxed) < connections {
                ask(&server).await?;
            }
            Ok::<_, BenchError>(())
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended.map_err(|_| BenchError::Garbage)??;
    }
    Ok(ConnectsReport {
        connections,
        seconds: start.elapsed().as_secs_f64(),
        servers: watched.end()?,
        generator_cpu_seconds: own.cpu_seconds()?,
    })
}

async fn ask(server: &BenchServer) -> Result<(), BenchError> {
    let address = server.address.as_str();
    let mut stream = BenchStream::open(server).await.map_err(|error| BenchError::io(address, error))?;
    stream.write_all(WORD).await.map_err(BenchError::lost)?;
    stream.flush().await.map_err(BenchError::lost)?;
    let mut answer = [0; ANSWER.len()];
    stream.read_exact(&mut answer).await.map_err(BenchError::lost)?;
    if answer == ANSWER { Ok(()) } else { Err(BenchError::Garbage) }
}
