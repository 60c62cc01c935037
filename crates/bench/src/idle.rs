//! Sessions that do nothing but stay: what they cost a server.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use zebu_proto::OpCode;

use crate::cost::{ServerCost, Watched};
use crate::run::{BenchError, open_sessions};
use crate::server::BenchServer;
use crate::session::{BenchSession, SESSION_TIMEOUT_MS};

/// Clients send a ping when a third of their timeout has passed without a request.
const PING_EVERY: Duration = Duration::from_millis(SESSION_TIMEOUT_MS.unsigned_abs() as u64 / 3);

/// What idle sessions cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IdleReport {
    /// Sessions.
    pub sessions: usize,
    /// How long they stayed.
    pub seconds: f64,
    /// Pings that were answered.
    pub pings: usize,
    /// Cost per server process while the sessions stayed.
    pub servers: Vec<ServerCost>,
    /// CPU seconds of the process that made the load, in the same time.
    pub generator_cpu_seconds: f64,
    /// How much more resident memory the processes had at the end than before the first session came.
    pub grown_bytes: Vec<i64>,
}

/// Opens the sessions, keeps them for `duration` with the pings of an idle client, and closes them.
pub async fn idle(
    servers: &[impl Into<BenchServer> + Clone],
    sessions: usize,
    duration: Duration,
    processes: &[u32],
) -> Result<IdleReport, BenchError> {
    if servers.is_empty() {
        return Err(BenchError::NoServer);
    }
    let before = Watched::begin(processes)?;
    let servers: Vec<BenchServer> = servers.iter().cloned().map(Into::into).collect();
    let open = open_sessions(&servers, sessions).await?;
    let watched = Watched::begin(processes)?;
    let own = Watched::begin(&[std::process::id()])?;
    let mut staying = JoinSet::new();
    for session in open {
        // The pings are spread, as those of clients that came one by one.
        let first = PING_EVERY.mul_f64(session.number as f64 / sessions.max(1) as f64);
        staying.spawn(stay(session, first, duration));
    }
    let mut stayed = Vec::with_capacity(sessions);
    let mut pings = 0;
    while let Some(ended) = staying.join_next().await {
        let (session, answered) = ended.map_err(|_| BenchError::Garbage)??;
        pings += answered;
        stayed.push(session);
    }
    let servers = watched.end()?;
    let generator_cpu_seconds = own.cpu_seconds()?;
    let grown_bytes = before.grown(&servers);
    for session in stayed {
        session.close().await?;
    }
    Ok(IdleReport {
        sessions,
        seconds: duration.as_secs_f64(),
        pings,
        servers,
        generator_cpu_seconds,
        grown_bytes,
    })
}

async fn stay(
    mut session: BenchSession,
    first: Duration,
    duration: Duration,
) -> Result<(BenchSession, usize), BenchError> {
    let start = tokio::time::Instant::now();
    let (mut due, mut pings) = (first, 0);
    while due < duration {
        tokio::time::sleep_until(start + due).await;
        session.request(OpCode::Ping, |_| ());
        session.flush().await?;
        session.reply().await?;
        pings += 1;
        due += PING_EVERY;
    }
    tokio::time::sleep_until(start + duration).await;
    Ok((session, pings))
}

impl fmt::Display for IdleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} idle sessions for {:.0} s, {} pings", self.sessions, self.seconds, self.pings)?;
        for (server, grown) in self.servers.iter().zip(&self.grown_bytes) {
            writeln!(
                f,
                "  {server}, {:.1} MiB more than before the sessions",
                *grown as f64 / f64::from(1 << 20)
            )?;
        }
        writeln!(f, "  load generator: {:.2} CPU seconds", self.generator_cpu_seconds)
    }
}
