//! A run: prepare the nodes, open the sessions, warm up, measure, report.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use zebu_proto::ErrorCode;

use crate::mix::Mix;
use crate::process::{ProcessUsage, Usage};
use crate::report::{Report, ServerCost};
use crate::session::{BenchSession, Shape, Tally};

/// What is asked of a run.
#[derive(Clone, Debug)]
pub struct Load {
    /// Servers as `host:port`; sessions are spread over them.
    pub servers: Vec<String>,
    /// Sessions, each with a connection of its own.
    pub sessions: usize,
    /// Requests that each session keeps in flight.
    pub in_flight: usize,
    /// What is sent.
    pub mix: Mix,
    /// Bytes of data per node.
    pub data_bytes: usize,
    /// Nodes that are prepared and used.
    pub nodes: usize,
    /// Node under which everything happens; created if missing.
    pub root: String,
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
    let first = load.servers.first().ok_or(BenchError::NoServer)?;
    let paths: Vec<String> =
        (0..load.nodes.max(1)).map(|number| format!("{}/n{number:07}", load.root)).collect();
    let data = vec![b'z'; load.data_bytes];
    prepare(first, &load.root, &paths, &data).await?;

    let mut sessions = Vec::with_capacity(load.sessions);
    for number in 0..load.sessions.max(1) {
        let server = &load.servers[number % load.servers.len()];
        sessions.push(BenchSession::open(server, 0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1)).await?);
    }
    let start = Instant::now();
    let measure_from = start + load.warm_up;
    let shape = Arc::new(Shape {
        mix: load.mix.clone(),
        in_flight: load.in_flight.max(1),
        paths,
        data,
        measure_from,
        until: measure_from + load.duration,
        progress: AtomicU64::new(0),
    });
    let tasks: Vec<_> =
        sessions.into_iter().map(|session| tokio::spawn(session.run(shape.clone()))).collect();

    watch(&shape, start, measure_from, &mut progress).await;
    let before = usages(&load.processes)?;
    watch(&shape, start, shape.until, &mut progress).await;
    let after = usages(&load.processes)?;

    let mut tally = Tally::new();
    for task in tasks {
        tally.add(&task.await.map_err(|_| BenchError::Garbage)??);
    }
    let costs =
        load.processes.iter().zip(before.iter().zip(&after)).map(|(&process, (before, after))| ServerCost {
            process,
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            resident_bytes: after.resident_bytes,
        });
    Ok(Report::new(load, &tally, costs.collect()))
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

async fn prepare(server: &str, root: &str, paths: &[String], data: &[u8]) -> Result<(), BenchError> {
    let mut session = BenchSession::open(server, 1).await?;
    let mut above = String::new();
    for name in root.split('/').filter(|name| !name.is_empty()) {
        above = format!("{above}/{name}");
        session.ensure(&above, b"").await?;
    }
    for path in paths {
        session.ensure(path, data).await?;
    }
    Ok(())
}

fn usages(processes: &[u32]) -> Result<Vec<Usage>, BenchError> {
    processes
        .iter()
        .map(|&id| ProcessUsage::of(id).read().map_err(|source| BenchError::Process { id, source }))
        .collect()
}
