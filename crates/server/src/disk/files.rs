//! The files of the disk, for whoever holds their lock: appends and syncs batches, and does what else a member wants.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::warn;
use zebu_node::{AfterAppend, DiskOrder, LogBatch};
use zebu_proto::Zxid;
use zebu_storage::{FileDisk, LogWriter};
use zebu_tree::Tree;
use zebu_zab::IoId;

use super::DiskFailure;
use crate::member_disk::{Done, MemberDisk};
use crate::shared::Shared;

/// The log, and what a member has besides.
pub(super) struct Files {
    shared: Arc<Shared>,
    /// None only while a member has nothing at all.
    log: Option<LogWriter<FileDisk>>,
    member: Option<MemberDisk>,
}

/// What was made durable together.
#[derive(Debug)]
pub(super) struct Appended {
    /// The last transaction.
    pub(super) last: Zxid,
    /// The number of the last batch, if it is a member's.
    pub(super) last_io: Option<IoId>,
    pub(super) sync_took: Duration,
}

impl Files {
    pub(super) fn new(
        shared: Arc<Shared>,
        log: Option<LogWriter<FileDisk>>,
        member: Option<MemberDisk>,
    ) -> Files {
        Files { shared, log, member }
    }

    /// Appends all batches and makes one sync for all of them.
    pub(super) fn append(
        &mut self,
        batches: impl Iterator<Item = (LogBatch, Option<IoId>)>,
    ) -> Result<Appended, DiskFailure> {
        let mut log = self.take_log()?;
        let (mut last, mut transactions, mut last_io) = (Zxid::ZERO, 0, None);
        // What goes into the same file is one write.
        let mut joined: Option<LogBatch> = None;
        let mut written = Ok(());
        for (batch, io) in batches {
            last = batch.last;
            last_io = io;
            transactions += batch.transactions;
            let rolls = batch.after == AfterAppend::RollAndSnapshot;
            match &mut joined {
                None => joined = Some(batch),
                Some(joined) => {
                    joined.bytes.extend_from_slice(&batch.bytes);
                    joined.last = batch.last;
                }
            }
            if rolls && let Some(joined) = joined.take() {
                written = log.append(joined.first, joined.last, &joined.bytes).and_then(|()| log.roll());
                if written.is_err() {
                    break;
                }
            }
        }
        if let Some(joined) = joined
            && written.is_ok()
        {
            written = log.append(joined.first, joined.last, &joined.bytes);
        }
        let started = Instant::now();
        written.and_then(|()| log.sync().map(|_| ())).map_err(|error| self.failure(error))?;
        self.log = Some(log);
        let sync_took = started.elapsed();
        self.tell_metrics(sync_took, transactions);
        Ok(Appended { last, last_io, sync_took })
    }

    /// Does something else that a member wants.
    pub(super) fn perform(
        &mut self,
        order: DiskOrder,
        received: Option<Tree>,
    ) -> Result<Option<Done>, DiskFailure> {
        let Some(member) = &mut self.member else { return Ok(None) };
        let done = member.perform(order, received, &mut self.log, &self.shared);
        done.map(Some).map_err(|reason| self.failure(reason))
    }

    pub(super) fn close(&mut self) -> Result<(), DiskFailure> {
        let Some(log) = self.log.take() else { return Ok(()) };
        log.close().map(|_| ()).map_err(|error| self.failure(error))
    }

    fn tell_metrics(&self, took: Duration, transactions: u64) {
        self.shared.metrics.fsync_ms.add(took.as_millis() as u64);
        self.shared.metrics.sync_batch.add(transactions);
        if took > self.shared.config.storage.fsync_warning_threshold {
            warn!(took_ms = took.as_millis() as u64, "the sync of the transaction log was slow");
        }
    }

    fn take_log(&mut self) -> Result<LogWriter<FileDisk>, DiskFailure> {
        match (self.log.take(), &self.member) {
            (Some(log), _) => Ok(log),
            (None, Some(member)) => {
                member.open_log(Zxid::ZERO, &self.shared).map_err(|reason| self.failure(reason))
            }
            (None, None) => unreachable!("a standalone server opens its log before it starts"),
        }
    }

    fn failure(&self, reason: impl std::fmt::Display) -> DiskFailure {
        DiskFailure { directory: self.shared.config.storage.log_dir(), reason: reason.to_string() }
    }
}
