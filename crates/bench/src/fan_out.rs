//! One change that many wait for: how long until the last of them was told.

use std::fmt;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use tokio::task::unconstrained;
use zebu_proto::{OpCode, Xid};

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
    /// From the change until the event had reached the last watcher, in microseconds, over all rounds.
    pub all_told_us: Latencies,
    /// From the change until the event had reached a watcher.
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
    let writer = BenchSession::open(writer_at, 0).await?;
    let waiting = open_sessions(servers, watchers).await?;
    let watched = Watched::begin(processes)?;
    let own = Watched::begin(&[std::process::id()])?;
    // A task of its own, so that sockets are looked at by the thread that hears of them.
    let telling = tokio::spawn(unconstrained(tell(writer, waiting, path.to_owned(), rounds)));
    let (sessions, all, each) = telling.await.map_err(|_| BenchError::Garbage)??;
    let servers = watched.end()?;
    let generator_cpu_seconds = own.cpu_seconds()?;
    for session in sessions {
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

/// Changes the node again and again. Returns all sessions, and how long it took until all, and until each was told.
///
/// A watcher is told when its event has reached its socket. A thousand real ones would have machines of their own; here
/// they share one with the server, so one task waits for all of them, and what they received is looked at when all are
/// told: otherwise that would be a good part of the time.
async fn tell(
    mut writer: BenchSession,
    mut waiting: Vec<BenchSession>,
    path: String,
    rounds: usize,
) -> Result<(Vec<BenchSession>, Tally, Tally), BenchError> {
    let (mut all, mut each) = (Tally::new(), Tally::new());
    for round in 0..rounds {
        arm(&mut waiting, &path).await?;
        let mut telling: FuturesUnordered<_> = waiting.drain(..).map(told).collect();
        // Each waits for its socket before the clock runs.
        poll_fn(|context| match telling.poll_next_unpin(context) {
            Poll::Pending => Poll::Ready(Ok(())),
            Poll::Ready(_) => Poll::Ready(Err(BenchError::Garbage)),
        })
        .await?;
        let start = Instant::now();
        writer.request(OpCode::SetData, |out| body::set(&path, round.to_string().as_bytes(), out));
        writer.flush().await?;
        let mut last = start;
        while let Some(told) = telling.next().await {
            let (session, at) = told?;
            each.record_between(start, at);
            last = last.max(at);
            waiting.push(session);
        }
        all.record_between(start, last);
        for session in &mut waiting {
            if session.reply().await?.xid != Xid::NOTIFICATION.0 {
                return Err(BenchError::Garbage);
            }
        }
        writer.reply().await?;
    }
    waiting.push(writer);
    Ok((waiting, all, each))
}

/// Every session watches the node.
async fn arm(sessions: &mut [BenchSession], path: &str) -> Result<(), BenchError> {
    for session in &mut *sessions {
        session.request(OpCode::GetData, |out| body::path_and_watch(path, out));
        session.flush().await?;
    }
    for session in sessions {
        session.reply().await?;
    }
    Ok(())
}

/// Waits for the event; nothing else is on its way.
async fn told(session: BenchSession) -> Result<(BenchSession, Instant), BenchError> {
    session.reached().await?;
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
