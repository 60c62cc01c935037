//! What the disk of a server is told, in order: appends are written at once and synced after a while, the
//! rest is done as a whole at its end. What waits together is one sync.

use std::sync::Arc;

use zebu_node::{AfterAppend, DiskOrder, LogBatch};
use zebu_proto::Zxid;
use zebu_storage::format::log::payload_zxid;
use zebu_zab::IoId;

use super::inbox::Urgent;
use super::{Death, Membership, Process};
use crate::core::Core;
use crate::queue::Event;

/// Work that waits for the disk.
#[derive(Debug)]
pub(crate) enum Work {
    /// A batch of a server that is alone.
    Batch(LogBatch),
    /// Work of a member.
    Order(DiskOrder),
}

/// What the disk is doing.
#[derive(Debug)]
pub(crate) enum Busy {
    /// Batches are written and wait for their sync.
    Syncing { number: u64, last: Zxid, io: Option<IoId>, snapshot: bool },
    /// Something else, to be done when its time is over.
    Working { number: u64, order: DiskOrder },
}

impl Busy {
    fn number(&self) -> u64 {
        match self {
            Busy::Syncing { number, .. } | Busy::Working { number, .. } => *number,
        }
    }
}

fn failed(error: impl std::fmt::Display) -> Death {
    Death::Disk(error.to_string())
}

impl Process {
    /// Gives the disk its next work, if it has none.
    pub(super) fn begin_work(&mut self, core: &mut Core) -> Result<(), Death> {
        if self.busy.is_some() {
            return Ok(());
        }
        let Some(first) = self.work.pop_front() else { return Ok(()) };
        self.work_number += 1;
        let number = self.work_number;
        let busy = match first {
            Work::Order(order) if !matches!(order, DiskOrder::Append { .. }) => {
                Busy::Working { number, order }
            }
            first => self.write_batches(first, number, core)?,
        };
        self.busy = Some(busy);
        let (low, high) = (core.shape.disk.sync_low, core.shape.disk.sync_high);
        let took = core.disk_random.between(low, high) + self.slow;
        let event = Event::DiskDone { server: self.server, incarnation: self.incarnation, work: number };
        core.push(core.now + took, event);
        Ok(())
    }

    /// Writes everything that waits and may share a sync.
    fn write_batches(&mut self, first: Work, number: u64, core: &mut Core) -> Result<Busy, Death> {
        let mut next = Some(first);
        let (mut last, mut io, mut snapshot) = (Zxid::ZERO, None, false);
        let mut written = 0;
        while let Some(work) = next {
            let batch = match work {
                Work::Batch(batch) => batch,
                Work::Order(DiskOrder::Append { io: id, batch }) => {
                    io = Some(id);
                    batch
                }
                Work::Order(other) => {
                    self.work.push_front(Work::Order(other));
                    break;
                }
            };
            last = batch.last;
            snapshot |= self.write_batch(&batch, core)?;
            written += 1;
            next = if written < self.sync_batches { self.work.pop_front() } else { None };
        }
        Ok(Busy::Syncing { number, last, io, snapshot })
    }

    fn write_batch(&mut self, batch: &LogBatch, core: &mut Core) -> Result<bool, Death> {
        let log = self.log.as_mut().ok_or_else(|| failed("there is no log"))?;
        log.append(batch.first, batch.last, &batch.bytes).map_err(failed)?;
        for (zxid, bytes) in entries(&batch.bytes) {
            core.judge.servers[self.server].append(zxid, bytes);
        }
        let rolls = batch.after == AfterAppend::RollAndSnapshot;
        if rolls {
            log.roll().map_err(failed)?;
        }
        Ok(rolls)
    }

    /// The time of some work is over.
    pub(crate) fn disk_done(&mut self, number: u64, core: &mut Core) -> Result<(), Death> {
        if self.busy.as_ref().map(Busy::number) != Some(number) {
            return Ok(());
        }
        match self.busy.take() {
            Some(Busy::Syncing { last, io, snapshot, .. }) => {
                let log = self.log.as_mut().ok_or_else(|| failed("there is no log"))?;
                let durable = log.sync().map_err(failed)?;
                core.judge.servers[self.server].durable = durable.0;
                core.tell(format_args!("s{} has synced {durable}", self.server));
                match (self.membership, io) {
                    (Membership::Member, Some(io)) => self.persisted(io),
                    _ => self.inbox.urgent(Urgent::Synced(last)),
                }
                if snapshot {
                    self.begin_snapshot(core);
                }
            }
            Some(Busy::Working { order, .. }) => self.perform(order, core)?,
            None => {}
        }
        self.settle(core)
    }
}

/// The entries of a batch, without their frames.
fn entries(framed: &[u8]) -> Vec<(i64, Arc<[u8]>)> {
    const CHECKSUM: usize = 8;
    const LENGTH: usize = 4;
    const END: usize = 1;
    let mut entries = Vec::new();
    let mut rest = framed;
    while rest.len() > CHECKSUM + LENGTH {
        let mut length = [0; LENGTH];
        length.copy_from_slice(&rest[CHECKSUM..CHECKSUM + LENGTH]);
        let length = u32::from_be_bytes(length) as usize;
        let start = CHECKSUM + LENGTH;
        let payload: Arc<[u8]> = rest[start..start + length].into();
        let zxid = payload_zxid(&payload).unwrap_or(Zxid::ZERO);
        entries.push((zxid.0, payload));
        rest = &rest[start + length + END..];
    }
    entries
}
