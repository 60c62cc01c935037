//! What one session sends, and when: a number of requests in flight, or a rate that does not care for the
//! answers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use zebu_proto::OpCode;

use crate::body;
use crate::mix::{Mix, Operation};
use crate::run::BenchError;
use crate::session::BenchSession;
use crate::tally::Tally;

/// Requests of one session that may wait for answers at a fixed rate. Those beyond it are sent late, and
/// their latency still counts from when they were due.
const OUTSTANDING_MAX: usize = 100_000;

/// What all sessions of a run have in common.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) mix: Mix,
    pub(crate) paths: Vec<String>,
    pub(crate) data: Vec<u8>,
    pub(crate) measure_from: Instant,
    pub(crate) until: Instant,
    pub(crate) progress: AtomicU64,
    /// Several sessions share one: ten thousand tallies of their own would be gigabytes.
    pub(crate) tallies: Vec<Mutex<Tally>>,
}

/// When a session sends.
#[derive(Clone, Debug)]
pub(crate) enum Beat {
    /// Whenever fewer than this many requests wait for an answer.
    InFlight(usize),
    /// At fixed times.
    Every {
        /// The first.
        first: Instant,
        /// The time between two.
        interval: Duration,
        /// Told when one has come.
        due: Arc<Notify>,
    },
}

/// A session under load.
pub(crate) struct Driver {
    session: BenchSession,
    shape: Arc<Shape>,
    random: u64,
    /// The node that this session has created last and not yet deleted.
    made: Option<String>,
    /// When the requests that wait for an answer were sent, or were due.
    asked: VecDeque<Instant>,
}

impl Driver {
    pub(crate) fn new(session: BenchSession, shape: Arc<Shape>) -> Driver {
        let random = 0x9e37_79b9_7f4a_7c15 ^ (session.number as u64 + 1);
        Driver { session, shape, random, made: None, asked: VecDeque::new() }
    }

    /// Sends the load until the end of the run, then ends the session.
    pub(crate) async fn run(mut self, beat: Beat) -> Result<(), BenchError> {
        match beat {
            Beat::InFlight(count) => self.keep_in_flight(count).await?,
            Beat::Every { first, interval, due } => self.keep_pace(first, interval, &due).await?,
        }
        if let Some(path) = self.made.take() {
            self.session.request(OpCode::Delete, |out| body::path_and_any_version(&path, out));
            self.session.flush().await?;
            self.session.reply().await?;
        }
        self.session.close().await
    }

    async fn keep_in_flight(&mut self, count: usize) -> Result<(), BenchError> {
        loop {
            let now = Instant::now();
            if now < self.shape.until {
                while self.asked.len() < count {
                    self.push_operation();
                    self.asked.push_back(now);
                }
            } else if self.asked.is_empty() {
                return Ok(());
            }
            self.session.flush().await?;
            // At least one reply, then all that are there already: a batch is the unit here too.
            if !self.session.has_frame() {
                self.session.receive().await?;
            }
            self.take_replies()?;
        }
    }

    async fn keep_pace(
        &mut self,
        first: Instant,
        interval: Duration,
        beat: &Notify,
    ) -> Result<(), BenchError> {
        let mut due = first;
        loop {
            let now = Instant::now();
            while due <= now && due < self.shape.until && self.asked.len() < OUTSTANDING_MAX {
                self.push_operation();
                self.asked.push_back(due);
                due += interval;
            }
            self.session.flush().await?;
            let sends_more = due < self.shape.until;
            if !sends_more && self.asked.is_empty() {
                return Ok(());
            }
            if sends_more && self.asked.len() < OUTSTANDING_MAX {
                tokio::select! {
                    received = self.session.receive() => received?,
                    () = beat.notified() => {}
                }
            } else {
                self.session.receive().await?;
            }
            self.take_replies()?;
        }
    }

    /// Counts the replies that have been received in full.
    fn take_replies(&mut self) -> Result<(), BenchError> {
        let mut counted = 0;
        let now = Instant::now();
        let tally = &self.shape.tallies[self.session.number % self.shape.tallies.len()];
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(header) = self.session.reply_at_hand()? {
            let asked = self.asked.pop_front().ok_or(BenchError::Garbage)?;
            counted += 1;
            if asked >= self.shape.measure_from {
                tally.record(self.shape.measure_from, asked, now, header.err);
            }
        }
        self.shape.progress.fetch_add(counted, Ordering::Relaxed);
        Ok(())
    }

    fn push_operation(&mut self) {
        let random = self.next_random();
        let Driver { session, shape, made, .. } = self;
        let path = shape.paths[(random >> 32) as usize % shape.paths.len()].as_str();
        let operation = shape.mix.pick(random & 0xffff_ffff);
        match operation {
            Operation::Get => session.request(OpCode::GetData, |out| body::path_and_no_watch(path, out)),
            Operation::LinearGet => session.request(OpCode::With, |out| body::linear_get(path, out)),
            Operation::Exists => session.request(OpCode::Exists, |out| body::path_and_no_watch(path, out)),
            Operation::Children => {
                let parent = path.rsplit_once('/').map_or("/", |(parent, _)| parent);
                session.request(OpCode::GetChildren2, |out| body::path_and_no_watch(parent, out));
            }
            Operation::Set => session.request(OpCode::SetData, |out| body::set(path, &shape.data, out)),
            Operation::Create | Operation::Ephemeral => match made.take() {
                // A session's requests are done in order: the node is there when its delete is looked at.
                Some(own) => session.request(OpCode::Delete, |out| body::path_and_any_version(&own, out)),
                None => {
                    let (own, flags) = match operation {
                        Operation::Ephemeral => (format!("{path}-{:04}", session.number), body::EPHEMERAL),
                        _ => (format!("{path}/c{:04}", session.number), body::PERSISTENT),
                    };
                    session.request(OpCode::Create, |out| body::create(&own, &shape.data, flags, out));
                    *made = Some(own);
                }
            },
            Operation::Multi => session.request(OpCode::Multi, |out| body::multi(path, &shape.data, out)),
            Operation::MultiRead => session.request(OpCode::MultiRead, |out| body::multi_read(path, out)),
            Operation::Ping => session.request(OpCode::Ping, |_| ()),
            Operation::Sync => session.request(OpCode::Sync, |out| body::path(path, out)),
        }
    }

    /// A xorshift generator: quick, and the same for the same session.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
