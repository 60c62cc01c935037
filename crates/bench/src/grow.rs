//! A tree that grows, and what its clients feel meanwhile: the slowest create and the slowest read of every
//! step. A map that stops to copy itself stops them all, and that is seen here.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use zebu_proto::OpCode;

use crate::body;
use crate::nodes::{Nodes, fill};
use crate::report::Latencies;
use crate::run::BenchError;
use crate::server::BenchServer;
use crate::session::BenchSession;
use crate::tally::Tally;

/// Time between two reads of the session that looks on.
const READ_EVERY: Duration = Duration::from_millis(1);

/// One step of the growth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrowthStep {
    /// Nodes when it ended.
    pub nodes: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// Creates per second.
    pub creates_per_second: f64,
    /// Of each create in microseconds, with the window of a long pipeline.
    pub create_us: Latencies,
    /// Of reads of another session, one a millisecond, in microseconds. They wait for no disk.
    pub read_us: Latencies,
}

/// Creates the nodes and reports each step; a step ends at each of `ends` and at the last node.
pub async fn grow(
    server: impl Into<BenchServer>,
    nodes: &Nodes,
    data_bytes: usize,
    ends: &[u64],
) -> Result<Vec<GrowthStep>, BenchError> {
    let ends: Arc<Vec<u64>> =
        Arc::new(ends.iter().copied().filter(|&end| end < nodes.leaves as u64).chain([u64::MAX]).collect());
    let server = server.into();
    let onlooker = Onlooker::new(ends.len());
    let looking = tokio::spawn(onlooker.clone().look(BenchSession::open(&server, 1).await?));
    let (mut creates, mut times) = (Vec::new(), Vec::new());
    let (mut tally, mut started, mut last) = (Tally::new(), Instant::now(), 0);
    let filled = fill(&server, nodes, data_bytes, |replies, asked, now| {
        tally.record_between(asked, now);
        last = replies;
        if replies == ends[creates.len()] {
            creates.push((replies, std::mem::replace(&mut tally, Tally::new())));
            times.push(std::mem::replace(&mut started, now).elapsed());
            onlooker.step.store(creates.len(), Ordering::Relaxed);
        }
    })
    .await;
    creates.push((last, tally));
    times.push(started.elapsed());
    onlooker.step.store(usize::MAX, Ordering::Relaxed);
    looking.await.map_err(|_| BenchError::Garbage)??;
    filled?;
    let reads = onlooker.reads.lock().unwrap_or_else(PoisonError::into_inner);
    let steps = creates.iter().zip(times).zip(reads.iter()).map(|(((nodes, creates), time), reads)| {
        let seconds = time.as_secs_f64();
        GrowthStep {
            nodes: *nodes,
            seconds,
            creates_per_second: creates.done() as f64 / seconds,
            create_us: Latencies::of(&creates.latency_us),
            read_us: Latencies::of(&reads.latency_us),
        }
    });
    Ok(steps.collect())
}

/// Reads while another creates.
#[derive(Clone)]
struct Onlooker {
    /// Which step it is; the end is far beyond.
    step: Arc<AtomicUsize>,
    reads: Arc<Mutex<Vec<Tally>>>,
}

impl Onlooker {
    fn new(steps: usize) -> Onlooker {
        let reads = (0..steps).map(|_| Tally::new()).collect();
        Onlooker { step: Arc::new(AtomicUsize::new(0)), reads: Arc::new(Mutex::new(reads)) }
    }

    async fn look(self, mut session: BenchSession) -> Result<(), BenchError> {
        let mut due = Instant::now();
        loop {
            tokio::time::sleep_until(due.into()).await;
            let (asked, step) = (Instant::now(), self.step.load(Ordering::Relaxed));
            session.request(OpCode::Exists, |out| body::path_and_no_watch("/", out));
            session.flush().await?;
            session.reply().await?;
            match self.reads.lock().unwrap_or_else(PoisonError::into_inner).get_mut(step) {
                Some(tally) => tally.record_between(asked, Instant::now()),
                None => break,
            }
            due = asked + READ_EVERY;
        }
        session.close().await
    }
}

impl fmt::Display for GrowthStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GrowthStep { nodes, creates_per_second, create_us, read_us, .. } = self;
        write!(
            f,
            "{nodes} nodes: {creates_per_second:.0} creates/s, slowest create {} us, slowest read {} us",
            create_us.max, read_us.max
        )
    }
}
