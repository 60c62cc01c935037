//! One change that many wait for: how long until the last of them was told.

use std::fmt;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use zebu_proto::OpCode;

use crate::body;
use crate::cost::{ServerCost, Watched};
use crate::report::Latencies;
use crate::run::{BenchError, open_sessions};
use crate::session::BenchSession;
use crate::tally::Tally;

/// How the watchers were told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FanOutReport {
    /// Sessions that watched the node.
    pub watchers: usize,
    /// How often it was changed.
    pub rounds: usize,
    /// From the change until the last watcher had its event, in microseconds, over all rounds.
    pub all_told_us: Latencies,
    /// From the change until a watcher had its event.
    pub each_told_us: Latencies,
    /// Cost per server process.
    pub servers: Vec<ServerCost>,
    /// CPU seconds of the process that made the load, in the same time.
    pub generator_cpu_seconds: f64,
}

/// Changes the node `path`, which must exist, `rounds` times while `watchers` sessions watch it.
pub async fn fan_out(
    servers: &[String],
    path: &str,
    watchers: usize,
    rounds: usize,
    processes: &[u32],
) -> Result<FanOutReport, BenchError> {
    let writer_at = servers.first().ok_or(BenchError::NoServer)?;
    let mut writer = BenchSession::open(writer_at, 0).await?;
    let mut waiting = open_sessions(servers, watchers).await?;
    let watched = Watched::begin(processes)?;
    let own = Watched::begin(&[std::process::id()])?;
    let (mut all, mut each) = (Tally::new(), Tally::new());
    for round in 0..rounds {
        waiting = arm(waiting, path).await?;
        let mut telling = JoinSet::new();
        for session in waiting.drain(..) {
            telling.spawn(event(session));
        }
        let start = Instant::now();
        writer.request(OpCode::SetData, |out| body::set(path, round.to_string().as_bytes(), out));
        writer.flush().await?;
        let mut last = start;
        while let Some(ended) = telling.join_next().await {
            let (session, at) = ended.map_err(|_| BenchError::Garbage)??;
            each.record_between(start, at);
            last = last.max(at);
            waiting.push(session);
        }
        all.record_between(start, last);
        writer.reply().await?;
    }
    let servers = watched.end()?;
    let generator_cpu_seconds = own.cpu_seconds()?;
    for session in waiting.into_iter().chain([writer]) {
        session.close().await?;
    }
    Ok(FanOutReport {
        watchers,
        rounds,
        all_told_us: Latencies::of(&all.latency_us),
        each_told_us: Latencies::of(&each.latency_us),
        servers,
        generator_cpu_seconds,
    })
}

/// Every session watches the node.
async fn arm(mut sessions: Vec<BenchSession>, path: &str) -> Result<Vec<BenchSession>, BenchError> {
    for session in &mut sessions {
        session.request(OpCode::GetData, |out| body::path_and_watch(path, out));
        session.flush().await?;
    }
    for session in &mut sessions {
        session.reply().await?;
    }
    Ok(sessions)
}

/// Waits for the event; only that can come.
async fn event(mut session: BenchSession) -> Result<(BenchSession, Instant), BenchError> {
    session.reply().await?;
    Ok((session, Instant::now()))
}

impl fmt::Display for FanOutReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} watchers of one node, changed {} times", self.watchers, self.rounds)?;
        writeln!(f, "  until all were told, us: {}", self.all_told_us)?;
        writeln!(f, "  until each was told, us: {}", self.each_told_us)?;
        writeln!(f, "  load generator: {:.2} CPU seconds", self.generator_cpu_seconds)?;
        self.servers.iter().try_for_each(|server| writeln!(f, "  {server}"))
    }
}
