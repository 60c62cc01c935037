//! Snapshots of a serving server, a slice at a time while transactions are applied, and the purge of old
//! ones.

use zebu_proto::quorum::DiskRoom;
use zebu_runtime::{SnapshotStep, SnapshotTask};
use zebu_storage::{SnapshotError, purge, purge_for_room};

use super::disk::FaultyDisk;
use super::process::Process;
use crate::check::purged_files::RequiredFiles;
use crate::context::SimContext;
use crate::coverage::CoveredPath;
use crate::queue::{MS, SimEvent};
use crate::run_parameters::PurgeParameters;

/// A snapshot that is being written.
pub(crate) struct Snapshotting {
    number: u64,
    task: SnapshotTask<FaultyDisk>,
}

/// Nodes of a slice: few, so that many events happen in between.
const SLICE_NODES: usize = 3;

impl Process {
    /// A snapshot is due. It is not taken while another one is written.
    pub(crate) fn begin_snapshot(&mut self, core: &mut SimContext) {
        if self.snapshotting.is_some() {
            return;
        }
        let mut task = SnapshotTask::begin(self.snapshot_store.clone(), &self.replica);
        // A server continues after a failed snapshot: the log is complete.
        if let Err(error) = task.create() {
            return self.snapshot_failed(&error, core);
        }
        self.snapshots += 1;
        core.trace_line(format_args!("s{} begins a snapshot of {}", self.server, task.zxid()));
        self.snapshotting = Some(Snapshotting { number: self.snapshots, task });
        self.schedule_slice(self.snapshots, core);
    }

    fn snapshot_failed(&self, error: &SnapshotError, core: &mut SimContext) {
        core.count(CoveredPath::SnapshotFailed);
        core.trace_line(format_args!("s{} cannot write a snapshot: {error}", self.server));
    }

    fn purge(&self, core: &mut SimContext) {
        const RETAIN: usize = 3;
        let is_for_room = self.disk_room != DiskRoom::Enough;
        let retain = if is_for_room { 1 } else { RETAIN };
        let needed = RequiredFiles::before_purge(self.disk.model(), &self.directories, retain);
        let _ = if is_for_room {
            purge_for_room(&self.disk, &self.directories)
        } else {
            purge(&self.disk, &self.directories, RETAIN)
        };
        let verdict = needed.check(self.server, self.disk.model(), &self.directories);
        core.checker.report(verdict);
    }

    fn schedule_slice(&self, snapshot: u64, core: &mut SimContext) {
        let pause = core.disk_random.between(MS / 10, 5 * MS) + self.snapshot_pause;
        let (server, incarnation) = (self.server, self.incarnation);
        core.push(core.now + pause, SimEvent::SnapshotStep { server, incarnation, snapshot });
    }

    /// The next slice of a snapshot.
    pub(crate) fn snapshot_step(&mut self, number: u64, core: &mut SimContext) {
        let Some(mut snapshotting) = self.snapshotting.take_if(|it| it.number == number) else { return };
        snapshotting.task.copy_slice(&self.replica, SLICE_NODES);
        match snapshotting.task.write_slice() {
            Ok(SnapshotStep::More) => {
                self.snapshotting = Some(snapshotting);
                self.schedule_slice(number, core);
            }
            Ok(SnapshotStep::Written(zxid)) => {
                core.trace_line(format_args!("s{} wrote a snapshot of {zxid}", self.server));
                core.count(CoveredPath::SnapshotWritten);
                if self.replica.last_zxid() > zxid {
                    core.count(CoveredPath::SnapshotWithCommits);
                }
                if core.parameters.disk.purge == PurgeParameters::AfterSnapshots {
                    self.purge(core);
                }
            }
            Err(error) => self.snapshot_failed(&error, core),
            Ok(SnapshotStep::TreeReplaced | SnapshotStep::Invalidated | SnapshotStep::NoRoom) => {
                core.trace_line(format_args!("s{} gives up a snapshot", self.server));
            }
        }
    }
}
