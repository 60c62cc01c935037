//! The timing of a server's disk. Appends are written at once and synced after a while; a command is executed
//! as a whole at its end. Pending appends share a sync. The shipped disk worker does the work itself.

use std::sync::Arc;

use zebu_node::LogBatch;
use zebu_proto::Zxid;
use zebu_runtime::DiskOutcome;
use zebu_storage::format::log::payload_zxid;
use zebu_zab::{DiskCommand, IoId, ObserverLog};

use super::inbox::Urgent;
use super::received::ReceivedSnapshot;
use super::{Death, Process};
use crate::context::SimContext;
use crate::coverage::CoveredPath;
use crate::plan::{PacketEnd, ProtocolStep};
use crate::queue::SimEvent;
use crate::server::bit_rot;

/// Work that is queued for the disk.
#[derive(Debug)]
pub(crate) enum Work {
    /// A batch for the log.
    Append(LogBatch, Option<IoId>),
    /// A command, with the snapshot to install.
    Command(DiskCommand, Option<Box<ReceivedSnapshot>>),
}

/// The current work of the disk.
#[derive(Debug)]
pub(crate) enum Busy {
    /// Batches are written and wait for their sync.
    Syncing { number: u64 },
    /// A command, to be executed when its time is over.
    Executing { number: u64, command: DiskCommand, received: Option<Box<ReceivedSnapshot>> },
}

impl Busy {
    fn number(&self) -> u64 {
        match self {
            Busy::Syncing { number } | Busy::Executing { number, .. } => *number,
        }
    }
}

impl Process {
    /// Starts the next work of the disk, if it is idle.
    pub(super) fn begin_work(&mut self, core: &mut SimContext) -> Result<(), Death> {
        if self.busy.is_some() {
            return Ok(());
        }
        let Some(first) = self.work.pop_front() else { return Ok(()) };
        self.work_number += 1;
        let number = self.work_number;
        let busy = match first {
            Work::Command(command, received) => Busy::Executing { number, command, received },
            Work::Append(batch, io) => {
                self.write_batches(batch, io, core)?;
                Busy::Syncing { number }
            }
        };
        self.busy = Some(busy);
        let (low, high) = (core.parameters.disk.sync_low, core.parameters.disk.sync_high);
        let took = core.disk_random.between(low, high) + self.slow;
        let event = SimEvent::DiskDone { server: self.server, incarnation: self.incarnation, work: number };
        core.push(core.now + took, event);
        Ok(())
    }

    /// Writes all queued batches that may share a sync.
    fn write_batches(
        &mut self,
        first: LogBatch,
        io: Option<IoId>,
        core: &mut SimContext,
    ) -> Result<(), Death> {
        let waiting = self.work.iter().map(|work| match work {
            Work::Append(batch, _) => batch.bytes.len() as u64,
            Work::Command(..) => 0,
        });
        let needed = first.bytes.len() as u64 + waiting.sum::<u64>() + core.parameters.disk.preallocate;
        self.look_at_room(needed, core);
        self.write_batch(first, io, core)?;
        let mut written = 1;
        while written < self.sync_batches
            && let Some(Work::Append(..)) = self.work.front()
            && let Some(Work::Append(batch, io)) = self.work.pop_front()
        {
            self.write_batch(batch, io, core)?;
            written += 1;
        }
        Ok(self.worker.write_joined()?)
    }

    fn write_batch(&mut self, batch: LogBatch, io: Option<IoId>, core: &mut SimContext) -> Result<(), Death> {
        for (zxid, bytes) in entries(&batch.bytes) {
            core.checker.servers[self.server].append(zxid, bytes);
        }
        Ok(self.worker.append(io, batch)?)
    }

    /// The time of some work has elapsed.
    pub(crate) fn disk_done(&mut self, number: u64, core: &mut SimContext) -> Result<(), Death> {
        if self.busy.as_ref().map(Busy::number) != Some(number) {
            return Ok(());
        }
        match self.busy.take() {
            Some(Busy::Syncing { .. }) => {
                let synced = self.worker.sync()?;
                core.checker.servers[self.server].durable = synced.last.0;
                core.trace_line(format_args!("s{} has synced {}", self.server, synced.last));
                self.inbox.urgent(Urgent::Disk(synced.into()));
            }
            Some(Busy::Executing { command, received, .. }) => {
                self.execute_command(command, received, core)?
            }
            None => {}
        }
        self.settle(core)
    }

    fn execute_command(
        &mut self,
        command: DiskCommand,
        received: Option<Box<ReceivedSnapshot>>,
        core: &mut SimContext,
    ) -> Result<(), Death> {
        core.trace_line(format_args!("s{} does {command:?}", self.server));
        if let DiskCommand::Truncate { to, .. } = &command
            && core.parameters.kinds.observer_log == ObserverLog::InMemory
            && to.0 == core.checker.servers[self.server].last()
        {
            core.count(CoveredPath::MemoryObserverRewind);
        }
        if let DiskCommand::Truncate { .. } = &command {
            self.rot_before_truncate(core);
        }
        let view = &mut core.checker.servers[self.server];
        match &command {
            // A crash leaves an end between the two.
            DiskCommand::Truncate { to, .. } => view.durable = view.durable.min(to.0),
            DiskCommand::InstallSnapshot { tail, .. } => {
                view.replacing = true;
                if let Some(received) = &received {
                    let verdict = received.check_digests(self.server, tail);
                    core.checker.report(verdict);
                }
            }
            DiskCommand::Quarantine { .. } => view.replacing = true,
            DiskCommand::MarkTrusted { .. }
            | DiskCommand::SaveAcceptedEpoch { .. }
            | DiskCommand::SaveCurrentEpoch { .. } => {}
        }
        let saved = Saved::of(&command);
        let applied = || self.replica.last_zxid();
        let outcome = self.worker.execute(command, received.map(|received| received.tree), applied)?;
        self.note_outcome(&outcome, saved, core);
        self.inbox.urgent(Urgent::Disk(outcome.into()));
        Ok(())
    }

    /// A bit has changed unnoticed in a file that the truncation reads.
    fn rot_before_truncate(&self, core: &mut SimContext) {
        let Some(place) = core.truncate_rot.remove(&self.server) else { return };
        let rotten = bit_rot::rot_history(&self.disk, place);
        if rotten.is_empty() {
            return;
        }
        let view = &mut core.checker.servers[self.server];
        view.rotten = true;
        view.forgotten = view.forgotten.max(view.durable);
        core.trace_line(format_args!("s{}: bit rot in {rotten:?}", self.server));
    }

    /// Records the content of the disk for the checker.
    fn note_outcome(&self, outcome: &DiskOutcome, saved: Option<Saved>, core: &mut SimContext) {
        let view = &mut core.checker.servers[self.server];
        match outcome {
            DiskOutcome::Saved { .. } => match saved {
                Some(Saved::AcceptedEpoch(epoch)) => view.accepted_epoch = epoch,
                Some(Saved::CurrentEpoch(epoch)) => {
                    view.current_epoch = epoch;
                    view.joined_epoch = view.joined_epoch.max(epoch);
                    view.untrusted = false;
                }
                Some(Saved::DiskTrust) => view.untrusted = false,
                None => {}
            },
            DiskOutcome::TruncateRefused { .. } => {
                view.durable = view.last();
                core.count(CoveredPath::TruncRefused);
            }
            DiskOutcome::Truncated { to, .. } => view.truncate(to.0),
            DiskOutcome::Installed { zxid, .. } => {
                core.checker.installed(self.server, zxid.0);
                core.step_reached(self.server, ProtocolStep::Installed, PacketEnd::Gets);
            }
            DiskOutcome::Quarantined { .. } => {
                view.install(0);
                view.rotten = true;
                view.untrusted = true;
                core.count(CoveredPath::Quarantine);
            }
        }
    }
}

/// A small file that a command writes.
#[derive(Clone, Copy, Debug)]
enum Saved {
    AcceptedEpoch(i64),
    CurrentEpoch(i64),
    DiskTrust,
}

impl Saved {
    fn of(command: &DiskCommand) -> Option<Saved> {
        match command {
            DiskCommand::SaveAcceptedEpoch { epoch, .. } => Some(Saved::AcceptedEpoch(i64::from(*epoch))),
            DiskCommand::SaveCurrentEpoch { epoch, .. } => Some(Saved::CurrentEpoch(i64::from(*epoch))),
            DiskCommand::MarkTrusted { .. } => Some(Saved::DiskTrust),
            DiskCommand::Truncate { .. }
            | DiskCommand::InstallSnapshot { .. }
            | DiskCommand::Quarantine { .. } => None,
        }
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
