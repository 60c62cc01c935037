//! A run: open the sessions, warm up, measure, report. The nodes must be there; see [`crate::prepare`].

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use zebu_proto::ErrorCode;

use crate::cost::Watched;
use crate::driver::{Beat, Driver, Shape};
use crate::metronome::start_metronome;
use crate::mix::Mix;
use crate::nodes::Nodes;
use crate::report::Report;
use crate::server::BenchServer;
use crate::session::BenchSession;
use crate::tally::Tally;

/// How long the last replies may take after the end of a run.
pub(crate) const REPLIES_LIMIT: Duration = Duration::from_secs(120);

/// Sessions that are opened at the same time.
const OPENING_AT_ONCE: usize = 100;

/// Tallies that the sessions share.
const TALLIES: usize = 64;

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Every session keeps this many requests in flight: the server sets the pace.
    InFlight(usize),
    /// All sessions together send this many requests per second, whatever the answers do. Latency counts
    /// from when a request was due, so that a server that stalls cannot hide it.
    PerSecond(u32),
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::InFlight(count) => write!(f, " x {count} in flight"),
            Pace::PerSecond(rate) => write!(f, ", {rate} requests/s in all"),
        }
    }
}

/// The load of a run.
#[derive(Clone, Debug)]
pub struct Load {
    /// Servers; sessions are spread over them.
    pub servers: Vec<BenchServer>,
    /// Sessions, each with a connection of its own.
    pub sessions: usize,
    /// When requests are sent.
    pub pace: Pace,
    /// The kinds of requests.
    pub mix: Mix,
    /// Bytes of data per node.
    pub data_bytes: usize,
    /// Nodes that are used.
    pub nodes: Nodes,
    /// Time before the measurement.
    pub warm_up: Duration,
    /// Time of the measurement.
    pub duration: Duration,
    /// Server processes on this machine whose CPU and memory are reported.
    pub processes: Vec<u32>,
}

/// Told about once a second.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time since the sessions started.
    pub elapsed: Duration,
    /// Replies so far, the warm-up included.
    pub replies: u64,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The server cannot be reached.
    #[error("{address}: {source}; is the server running there?")]
    Connect {
        /// Where.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// The server gave no session.
    #[error("{0} gave no session")]
    Refused(String),
    /// The server refused the SASL user.
    #[error("{0} did not authenticate the SASL user")]
    NotAuthenticated(String),
    /// A connection broke.
    #[error("a connection broke while the load was running: {0}")]
    Lost(std::io::Error),
    /// The server closed a connection.
    #[error("the server closed a connection while the load was running; see its log (maxClientCnxns?)")]
    Closed,
    /// The server sent something else than a reply.
    #[error("the server sent bytes that are no reply")]
    Garbage,
    /// A node could not be created.
    #[error("{path} cannot be created: {error}")]
    Setup {
        /// Which node.
        path: String,
        /// Why.
        error: ErrorCode,
    },
    /// The books of a process cannot be read.
    #[error("the usage of process {id} cannot be read: {source}")]
    Process {
        /// Which process.
        id: u32,
        /// Why.
        source: std::io::Error,
    },
    /// Replies did not come.
    #[error("replies are missing {}s after the last request was sent", REPLIES_LIMIT.as_secs())]
    Stuck,
    /// The machine of the load generator lacks something.
    #[error("the load generator cannot work on this machine: {0}")]
    Generator(std::io::Error),
    /// No server was named.
    #[error("no server was named")]
    NoServer,
}

impl BenchError {
    pub(crate) fn io(address: &str, source: std::io::Error) -> BenchError {
        BenchError::Connect { address: address.to_owned(), source }
    }

    pub(crate) fn lost(source: std::io::Error) -> BenchError {
        BenchError::Lost(source)
    }
}

/// Runs the load and reports. `progress` is called about once a second.
pub async fn run(load: &Load, mut progress: impl FnMut(Progress)) -> Result<Report, BenchError> {
    if load.servers.is_empty() {
        return Err(BenchError::NoServer);
    }
    let count = load.sessions.max(1);
    let sessions = open_sessions(&load.servers, count).await?;
    let paths = (0..load.nodes.leaves.max(1)).map(|number| load.nodes.leaf(number)).collect();
    let start = Instant::now();
    let measure_from = start + load.warm_up;
    let shape = Arc::new(Shape {
        mix: load.mix.clone(),
        paths,
        data: vec![b'z'; load.data_bytes],
        measure_from,
        until: measure_from + load.duration,
        progress: AtomicU64::new(0),
        tallies: (0..count.min(TALLIES)).map(|_| Mutex::new(Tally::new())).collect(),
    });
    let beats = beats(load.pace, start, count, shape.until);
    let tasks: Vec<_> = sessions
        .into_iter()
        .zip(beats)
        .map(|(session, beat)| tokio::spawn(Driver::new(session, shape.clone()).run(beat)))
        .collect();

    watch(&shape, start, measure_from, &mut progress).await;
    let watched = Watched::begin(&load.processes)?;
    let own = Watched::begin(&[std::process::id()])?;
    watch(&shape, start, shape.until, &mut progress).await;
    let (costs, own) = (watched.end()?, own.end()?);

    for task in tasks {
        let left = (shape.until + REPLIES_LIMIT).saturating_duration_since(Instant::now());
        let ended = tokio::time::timeout(left, task).await.map_err(|_| BenchError::Stuck)?;
        ended.map_err(|_| BenchError::Garbage)??;
    }
    let mut tally = Tally::new();
    // A second in which nothing could be asked is the worst of all.
    tally.reach(usize::try_from(load.duration.as_secs()).unwrap_or(0));
    for part in &shape.tallies {
        tally.add(&part.lock().unwrap_or_else(PoisonError::into_inner));
    }
    Ok(Report::new(load, &tally, costs, own[0]))
}

/// Opens sessions, spread over the servers, some at a time.
pub(crate) async fn open_sessions(
    servers: &[BenchServer],
    count: usize,
) -> Result<Vec<BenchSession>, BenchError> {
    let mut opening = JoinSet::new();
    let mut open = Vec::with_capacity(count);
    for number in 0..count {
        if opening.len() >= OPENING_AT_ONCE {
            take_opened(&mut opening, &mut open).await?;
        }
        let server = servers[number % servers.len()].clone();
        opening.spawn(async move { BenchSession::open(&server, number).await });
    }
    while !opening.is_empty() {
        take_opened(&mut opening, &mut open).await?;
    }
    open.sort_by_key(|session| session.number);
    Ok(open)
}

async fn take_opened(
    opening: &mut JoinSet<Result<BenchSession, BenchError>>,
    open: &mut Vec<BenchSession>,
) -> Result<(), BenchError> {
    if let Some(ended) = opening.join_next().await {
        open.push(ended.map_err(|_| BenchError::Garbage)??);
    }
    Ok(())
}

async fn watch(shape: &Shape, start: Instant, until: Instant, progress: &mut impl FnMut(Progress)) {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(Duration::from_secs(1))).await;
        progress(Progress { elapsed: start.elapsed(), replies: shape.progress.load(Ordering::Relaxed) });
    }
}

/// The sessions of a fixed rate send in turn, evenly spread.
fn beats(pace: Pace, start: Instant, sessions: usize, until: Instant) -> Vec<Beat> {
    match pace {
        Pace::InFlight(count) => vec![Beat::InFlight(count.max(1)); sessions],
        Pace::PerSecond(rate) => {
            let step = Duration::from_secs(1) / rate.max(1);
            let of = |count: usize| step.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
            let due: Vec<_> = (0..sessions).map(|_| Arc::new(Notify::new())).collect();
            start_metronome(due.clone(), start, step, until);
            let every =
                |(number, due)| Beat::Every { first: start + of(number), interval: of(sessions), due };
            due.into_iter().enumerate().map(every).collect()
        }
    }
}
