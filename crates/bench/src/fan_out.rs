//! One change that many wait for: how long until the last of them was told.

use std::fmt;
use std::thread;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;
use zebu_proto::{OpCode, Xid};

use crate::body;
use crate::cost::{ServerCost, Watched};
use crate::report::Latencies;
use crate::run::{BenchError, REPLIES_LIMIT, open_sessions};
use crate::server::BenchServer;
use crate::session::BenchSession;
use crate::tally::Tally;

/// Long enough that most servers are through with a thousand watchers.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

const LOOKS_MAX: u128 = REPLIES_LIMIT.as_millis() / BETWEEN_LOOKS.as_millis();

/// How the watchers were told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FanOutReport {
    /// Sessions that watched the node.
    pub watchers: usize,
    /// How often it was changed.
    pub rounds: usize,
    /// From the change until the event had reached the machine of the last watcher, in microseconds, over all
    /// rounds.
    pub all_told_us: Latencies,
    /// From the change until the event had reached the machine of a watcher.
    pub each_told_us: Latencies,
    /// Cost per server process.
    pub servers: Vec<ServerCost>,
    /// CPU seconds of the process that made the load, in the same time.
    pub generator_cpu_seconds: f64,
}

/// Changes the node `path`, which must exist, `rounds` times while `watchers` sessions watch it.
pub async fn fan_out(
    servers: &[impl Into<BenchServer> + Clone],
    path: &str,
    watchers: usize,
    rounds: usize,
    processes: &[u32],
) -> Result<FanOutReport, BenchError> {
    let servers: Vec<BenchServer> = servers.iter().cloned().map(Into::into).collect();
    let writer_at = servers.first().ok_or(BenchError::NoServer)?.clone();
    let (path, processes) = (path.to_owned(), processes.to_vec());
    // On its own thread: the writer's sleeps must not delay the watchers.
    let telling = tokio::task::spawn_blocking(move || {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(BenchError::Generator)?;
        runtime.block_on(async {
            let writer = BenchSession::open(&writer_at, 0).await?;
            let waiting = open_sessions(&servers, watchers).await?;
            measure(writer, waiting, &path, rounds, &processes).await
        })
    });
    telling.await.map_err(|_| BenchError::Garbage)?
}

async fn measure(
    mut writer: BenchSession,
    mut waiting: Vec<BenchSession>,
    path: &str,
    rounds: usize,
    processes: &[u32],
) -> Result<FanOutReport, BenchError> {
    let watched = Watched::begin(processes)?;
    let own = Watched::begin(&[std::process::id()])?;
    BenchSession::note_arrivals(&waiting).await?;
    let (mut all, mut each) = (Tally::new(), Tally::new());
    for round in 0..rounds {
        arm(&mut waiting, path).await?;
        let start = SystemTime::now();
        writer.request(OpCode::SetData, |out| body::set(path, round.to_string().as_bytes(), out));
        writer.flush().await?;
        let mut last = Duration::ZERO;
        for session in &mut waiting {
            let took = told(session)?.duration_since(start).unwrap_or_default();
            each.record_outside(took);
            last = last.max(took);
        }
        all.record_outside(last);
        writer.reply().await?;
    }
    let servers = watched.end()?;
    let generator_cpu_seconds = own.cpu_seconds()?;
    let watchers = waiting.len();
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

/// When the event has come; nothing else is on its way.
///
/// A thousand real watchers would have machines of their own; here they share one with the server. So this
/// one sleeps soundly while they are told: one that wakes up for each of them takes a good part of the
/// processor.
fn told(session: &mut BenchSession) -> Result<SystemTime, BenchError> {
    for _ in 0..LOOKS_MAX {
        let Some(at) = session.arrived()? else {
            thread::sleep(BETWEEN_LOOKS);
            continue;
        };
        match session.reply_at_hand()? {
            Some(event) if event.xid == Xid::NOTIFICATION.0 => return Ok(at),
            Some(_) => return Err(BenchError::Garbage),
            // The rest of it is still to come.
            None => {}
        }
    }
    Err(BenchError::Stuck)
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
