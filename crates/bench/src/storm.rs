//! Many sessions that connect at the same moment, as after the restart of a server.

use std::fmt;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::cost::{ServerCost, Watched};
use crate::report::Latencies;
use crate::run::BenchError;
use crate::server::BenchServer;
use crate::session::BenchSession;
use crate::tally::Tally;

/// How a storm went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StormReport {
    /// Sessions that were opened.
    pub sessions: usize,
    /// Seconds from the first connect until the last session was there.
    pub seconds: f64,
    /// How long single sessions took, in microseconds.
    pub latency_us: Latencies,
    /// Cost per server process.
    pub servers: Vec<ServerCost>,
    /// CPU seconds of the process that made the load, in the same time.
    pub generator_cpu_seconds: f64,
}

/// Opens all sessions at once, waits until every one is there, and closes them.
pub async fn storm(
    servers: &[impl Into<BenchServer> + Clone],
    sessions: usize,
    processes: &[u32],
) -> Result<StormReport, BenchError> {
    if servers.is_empty() {
        return Err(BenchError::NoServer);
    }
    let servers: Vec<BenchServer> = servers.iter().cloned().map(Into::into).collect();
    let watched = Watched::begin(processes)?;
    let own = Watched::begin(&[std::process::id()])?;
    let start = Instant::now();
    let mut opening = JoinSet::new();
    for number in 0..sessions {
        let server = servers[number % servers.len()].clone();
        opening.spawn(async move {
            let session = BenchSession::open(&server, number).await?;
            Ok::<_, BenchError>((session, Instant::now()))
        });
    }
    let (mut tally, mut last) = (Tally::new(), start);
    let mut open = Vec::with_capacity(sessions);
    while let Some(ended) = opening.join_next().await {
        let (session, at) = ended.map_err(|_| BenchError::Garbage)??;
        tally.record_between(start, at);
        last = last.max(at);
        open.push(session);
    }
    let servers = watched.end()?;
    let generator_cpu_seconds = own.cpu_seconds()?;
    let mut closing = JoinSet::new();
    for session in open {
        closing.spawn(session.close());
    }
    while let Some(ended) = closing.join_next().await {
        ended.map_err(|_| BenchError::Garbage)??;
    }
    Ok(StormReport {
        sessions,
        seconds: last.duration_since(start).as_secs_f64(),
        latency_us: Latencies::of(&tally.latency_us),
        servers,
        generator_cpu_seconds,
    })
}

impl fmt::Display for StormReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} sessions at once: all there after {:.3} s", self.sessions, self.seconds)?;
        writeln!(f, "  until a session was there, us: {}", self.latency_us)?;
        writeln!(f, "  load generator: {:.2} CPU seconds", self.generator_cpu_seconds)?;
        self.servers.iter().try_for_each(|server| writeln!(f, "  {server}"))
    }
}
