//! One stay at a leader: reads its packets, drives the learner, closes segments, writes bases.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};
use zebu_tree::Tree;
use zebu_zab::EncodedTxn;

use super::base_schedule::BaseSchedule;
use super::position::Position;
use super::upload::{UploadJob, Uploader};
use super::wire::LeaderStream;
use super::{LeaderConnection, RunError, RunSettings, wall_ms};
use crate::core::archive::{Continuity, NewBase};
use crate::core::learner::{BackupLearner, LearnerInput, LearnerOutput};
use crate::core::segment::{ClosedSegment, Segmenter};
use crate::core::stay_end::{OtherHistory, StayEnd};
use crate::spool::{SpoolError, SpooledSnapshot, spool};

/// Bytes of transactions that may wait while a base is written. Above it, the link is not read.
const WAITING_MAX: usize = 64 << 20;

/// The longest wait for an event.
const TICK: Duration = Duration::from_millis(500);

/// How a stay ended.
pub(super) struct EndOfStay {
    pub(super) reason: String,
    pub(super) was_synchronized: bool,
    /// Whether the leader's epoch is below that of the backup.
    pub(super) is_earlier_epoch: bool,
}

/// A base that is being written to the local disk.
struct Writing {
    base: NewBase,
    thread: JoinHandle<(Box<Tree>, Result<SpooledSnapshot, SpoolError>)>,
    /// Segments that must follow the base.
    held: Vec<UploadJob>,
    /// The schedule for the case that it fails.
    before: BaseSchedule,
}

/// A stay at a leader.
pub(super) struct Stay<'a> {
    settings: &'a RunSettings,
    uploader: &'a Uploader,
    learner: BackupLearner,
    segmenter: Option<Segmenter>,
    bases: BaseSchedule,
    writing: Option<Writing>,
    began: Instant,
    address: String,
    out: Vec<u8>,
    was_synchronized: bool,
    is_earlier_epoch: bool,
    /// Whether a whole state would begin another chain because of a hole.
    has_history: bool,
    end: Option<String>,
}

impl<'a> Stay<'a> {
    pub(super) fn new(
        settings: &'a RunSettings,
        uploader: &'a Uploader,
        position: Position,
        address: String,
    ) -> Stay<'a> {
        let Position { state, segmenter, bases, wrong_digest, has_history } = position;
        // The connection is there already, so that the request for it needs no answer.
        let (learner, _) = BackupLearner::new(settings.learner, state, wrong_digest, 0);
        Stay {
            settings,
            uploader,
            learner,
            segmenter,
            bases,
            writing: None,
            began: Instant::now(),
            address,
            out: Vec::new(),
            was_synchronized: false,
            is_earlier_epoch: false,
            has_history,
            end: None,
        }
    }

    /// Stays until the connection ends, the buffer is full or the process stops.
    pub(super) async fn run(
        mut self,
        mut connection: Box<dyn LeaderConnection>,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(EndOfStay, Position), RunError> {
        let mut stream = LeaderStream::new(self.settings.hash_seed);
        let outputs = self.learner.handle(LearnerInput::Connected, self.now_ms());
        self.carry_out(outputs);
        while self.end.is_none() {
            if let Err(error) = self.flush(&mut connection).await {
                self.end = Some(error.to_string());
                break;
            }
            let may_read = self.learner.waiting_bytes() < WAITING_MAX;
            let wait = self.wait();
            stream.prepare();
            tokio::select! {
                read = connection.read_buf(&mut stream.buffer), if may_read => match read {
                    Ok(0) => self.lost("the leader closed the connection"),
                    Ok(_) => self.take(&mut stream),
                    Err(error) => self.lost(&error.to_string()),
                },
                () = tokio::time::sleep(wait) => {}
                _ = stop.changed() => self.end = Some("this process stops".to_owned()),
            }
            self.do_due_work().await?;
        }
        self.finish_writing().await?;
        self.note_unsent();
        Ok(self.into_position())
    }

    fn into_position(mut self) -> (EndOfStay, Position) {
        let end = EndOfStay {
            reason: self.end.take().unwrap_or_default(),
            was_synchronized: self.was_synchronized,
            is_earlier_epoch: self.is_earlier_epoch,
        };
        let (epoch, wrong_digest) = (self.learner.epoch(), self.learner.wrong_digest());
        let state = self.learner.into_state();
        let (segmenter, bases, has_history) = (self.segmenter, self.bases, self.has_history);
        let mut position = Position { state, segmenter, bases, wrong_digest, has_history };
        if position.state.is_none()
            && let Some(last) = position.give_up()
        {
            self.uploader.push(UploadJob::Segment(last, epoch));
        }
        (end, position)
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn wait(&self) -> Duration {
        let until = self.learner.deadline().saturating_sub(self.now_ms()).max(0);
        let wait = TICK.min(Duration::from_millis(until.unsigned_abs()));
        if self.writing.is_some() { wait.min(Duration::from_millis(20)) } else { wait }
    }

    async fn flush(&mut self, connection: &mut Box<dyn LeaderConnection>) -> io::Result<()> {
        if !self.out.is_empty() {
            connection.write_all(&self.out).await?;
            connection.flush().await?;
            self.out.clear();
        }
        Ok(())
    }

    fn take(&mut self, stream: &mut LeaderStream) {
        while self.end.is_none() {
            match stream.next() {
                Ok(Some(input)) => {
                    let outputs = self.learner.handle(input, self.now_ms());
                    self.carry_out(outputs);
                }
                Ok(None) => return,
                Err(error) => self.lost(&error.to_string()),
            }
        }
    }

    fn lost(&mut self, reason: &str) {
        let outputs = self.learner.handle(LearnerInput::Closed, self.now_ms());
        self.carry_out(outputs);
        self.end.get_or_insert_with(|| reason.to_owned());
    }

    fn carry_out(&mut self, outputs: Vec<LearnerOutput>) {
        for output in outputs {
            match output {
                LearnerOutput::Connect => {}
                LearnerOutput::Send(packet) => packet.encode(&mut self.out),
                LearnerOutput::NewHistory => self.begin_history(),
                LearnerOutput::Committed { entry, time_ms } => {
                    self.append(&entry, time_ms);
                }
                LearnerOutput::Synchronized => {
                    self.was_synchronized = true;
                    let status = &self.uploader.shared.status;
                    status.is_synchronized.store(true, Ordering::Relaxed);
                    status.set_leader(Some(self.address.clone()));
                    info!(leader = %self.address, epoch = self.learner.epoch(), "synchronized with the leader");
                }
                LearnerOutput::DigestMismatch { zxid } => {
                    self.uploader.shared.suspend_retention();
                    self.uploader.shared.status.digest_mismatches.fetch_add(1, Ordering::Relaxed);
                    warn!(%zxid, "the tree of the backup differs from the tree of the ensemble");
                }
                LearnerOutput::Ended(StayEnd::Closed { reason }) => {
                    self.end.get_or_insert(reason);
                }
                LearnerOutput::Ended(StayEnd::OtherHistory(OtherHistory::SetBack)) => {
                    let reason = "the ensemble has another history; a new base follows".to_owned();
                    self.end.get_or_insert(reason);
                }
                LearnerOutput::Ended(StayEnd::OtherHistory(OtherHistory::Digest(zxid))) => {
                    let reason = format!("the digest after {zxid} is another one; a new base follows");
                    self.end.get_or_insert(reason);
                }
                LearnerOutput::Ended(StayEnd::EarlierEpoch { leader, known }) => {
                    self.is_earlier_epoch = true;
                    let reason = format!(
                        "the leader has epoch {leader}, and the backup has seen epoch {known}: it is a leader \
                         of the past, or the ensemble has lost its data"
                    );
                    self.uploader.shared.status.set_error(reason.clone());
                    self.end.get_or_insert(reason);
                }
            }
        }
    }

    fn append(&mut self, entry: &EncodedTxn, time_ms: i64) {
        let status = &self.uploader.shared.status;
        status.received_zxid.store(entry.zxid.0, Ordering::Relaxed);
        // Without a segmenter the history has no base yet, which will contain the transaction.
        let Some(segmenter) = &mut self.segmenter else { return };
        let closed = segmenter.append(entry.zxid, time_ms, &entry.bytes, wall_ms());
        self.store(closed);
    }

    /// A whole state came. What follows is another chain.
    fn begin_history(&mut self) {
        let old = self.segmenter.as_mut().and_then(Segmenter::close);
        self.store(old);
        if self.has_history {
            self.uploader.shared.status.new_chains.fetch_add(1, Ordering::Relaxed);
            warn!(
                "the leader could not send what was missed; the backup has a hole and begins a new history"
            );
        }
        self.has_history = true;
        self.write_base(Continuity::NewChain);
    }

    fn write_base(&mut self, continuity: Continuity) {
        let Some(tree) = self.learner.lend() else { return };
        let zxid = tree.last_zxid();
        let known_ms = self.segmenter.as_ref().map_or(0, Segmenter::time_ms);
        let local_time = continuity == Continuity::NewChain && self.learner.time_ms().is_none();
        let time_ms = match (continuity, self.learner.time_ms()) {
            (Continuity::Continues, _) => known_ms,
            (Continuity::NewChain, Some(time_ms)) => known_ms.max(time_ms),
            // No transaction has told the leader's clock yet; the first one behind the base does.
            (Continuity::NewChain, None) => known_ms.max(wall_ms()),
        };
        if continuity == Continuity::NewChain {
            let floor_ms = if local_time { known_ms } else { time_ms };
            self.segmenter = Some(Segmenter::new(self.settings.segments, zxid, floor_ms));
            self.uploader.shared.status.received_zxid.store(zxid.0, Ordering::Relaxed);
        }
        let (nodes, digest) = (tree.node_count() as u64, tree.digest());
        let compression = self.settings.compression;
        let base = NewBase { zxid, time_ms, local_time, nodes, digest, compression, continuity };
        let (directory, sealer) = (self.settings.spool.clone(), self.settings.sealer.clone());
        let thread = tokio::task::spawn_blocking(move || {
            let spooled = spool(&tree, &directory, compression, sealer.as_deref());
            (tree, spooled)
        });
        let before = self.bases.begin(zxid, wall_ms());
        self.writing = Some(Writing { base, thread, held: Vec::new(), before });
    }

    fn store(&mut self, closed: Option<ClosedSegment>) {
        let Some(segment) = closed else { return };
        self.bases.log_bytes += segment.bytes.len() as u64;
        let job = UploadJob::Segment(segment, self.learner.epoch());
        match &mut self.writing {
            Some(writing) => writing.held.push(job),
            None => self.uploader.push(job),
        }
    }

    async fn do_due_work(&mut self) -> Result<(), RunError> {
        if self.learner.deadline() <= self.now_ms() {
            let outputs = self.learner.timeout(self.now_ms());
            self.carry_out(outputs);
        }
        if self.writing.as_ref().is_some_and(|writing| writing.thread.is_finished()) {
            self.finish_writing().await?;
        }
        let due = self.segmenter.as_mut().and_then(|segmenter| segmenter.close_if_due(wall_ms()));
        self.store(due);
        self.write_due_base();
        self.note_unsent();
        let shared = &self.uploader.shared;
        let held: u64 = self.writing.iter().flat_map(|writing| &writing.held).map(UploadJob::bytes).sum();
        if shared.status.waiting_bytes.load(Ordering::Relaxed) + held >= self.settings.buffer_bytes {
            self.end = Some("too much waits for the target; joining again when it has taken it".to_owned());
        }
        if shared.has_failed() {
            self.end = Some("the target cannot be written".to_owned());
        }
        Ok(())
    }

    /// Notes since when transactions wait that the uploader does not have.
    fn note_unsent(&self) {
        let mut held = self.writing.iter().flat_map(|writing| &writing.held).filter_map(UploadJob::since_ms);
        let since_ms = held.next().or_else(|| self.segmenter.as_ref().and_then(Segmenter::since_ms));
        // Without its first base the whole history waits.
        let since_ms = self.bases.missing_since_ms().or(since_ms);
        self.uploader.shared.status.unsent_since_ms.store(since_ms.unwrap_or(0), Ordering::Relaxed);
    }

    fn write_due_base(&mut self) {
        let Some(last) = self.learner.exact().map(Tree::last_zxid) else { return };
        if !self.was_synchronized
            || self.writing.is_some()
            || !self.bases.is_due(wall_ms(), self.settings.base_every_ms, self.settings.base_log_bytes)
        {
            return;
        }
        if self.bases.missing().is_some() {
            return self.write_base(Continuity::NewChain);
        }
        if self.bases.last() == Some(last) {
            // An idle ensemble has this base already. Old points still go at their time.
            self.bases.begin(last, wall_ms());
            return self.uploader.push(UploadJob::Retention);
        }
        let closed = self.segmenter.as_mut().and_then(Segmenter::close);
        self.store(closed);
        self.write_base(Continuity::Continues);
    }

    async fn finish_writing(&mut self) -> Result<(), RunError> {
        let Some(Writing { base, thread, held, before }) = self.writing.take() else { return Ok(()) };
        let (tree, spooled) = thread.await.map_err(|error| RunError::Internal(error.to_string()))?;
        let outputs = self.learner.give_back(tree);
        match spooled {
            Ok(snapshot) => {
                self.uploader.push(UploadJob::Base(base, self.learner.epoch(), snapshot));
                held.into_iter().for_each(|job| self.uploader.push(job));
            }
            Err(error) => self.base_failed(base.continuity, held, before, &error),
        }
        self.carry_out(outputs);
        Ok(())
    }

    /// The log goes on without the base, if there is an earlier one that it follows.
    fn base_failed(
        &mut self,
        continuity: Continuity,
        held: Vec<UploadJob>,
        before: BaseSchedule,
        error: &SpoolError,
    ) {
        let status = &self.uploader.shared.status;
        status.target_errors.fetch_add(1, Ordering::Relaxed);
        status.set_error(format!("cannot write a base to the local disk: {error}"));
        warn!(%error, "cannot write a base to the local disk; trying again later");
        self.bases.fail(before, wall_ms());
        match continuity {
            Continuity::Continues => held.into_iter().for_each(|job| self.uploader.push(job)),
            // The next attempt begins at a later transaction.
            Continuity::NewChain => {
                self.segmenter = None;
                self.bases.miss(error.to_string(), wall_ms());
            }
        }
    }
}
