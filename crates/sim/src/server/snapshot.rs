//! Snapshots of a serving member, a slice at a time while transactions go on, and the purge of old ones.

use zebu_proto::Zxid;
use zebu_storage::{Sections, SnapshotWriter, purge};
use zebu_tree::{WalkProgress, Walker};

use super::disk::MoodyDisk;
use super::process::{Process, Service};
use super::start::begin_snapshot;
use crate::check::purged_files::Needed;
use crate::core::Core;
use crate::queue::{Event, MS};
use crate::shape::PurgeShape;

/// A snapshot that is being written.
pub(crate) struct Snapshotting {
    number: u64,
    zxid: Zxid,
    writer: SnapshotWriter<MoodyDisk>,
    walker: Walker,
}

/// Nodes of a slice: few, so that much happens in between.
const SLICE_NODES: usize = 3;

impl Process {
    /// A snapshot is due. It is taken only while clients are served, and not while another one is written.
    pub(crate) fn begin_snapshot(&mut self, core: &mut Core) {
        if self.service == Service::Closed || self.snapshotting.is_some() {
            return;
        }
        let tree = self.replica.tree();
        // A snapshot that fails is no reason to stop: the log has it all.
        let Ok(writer) = begin_snapshot(&self.disk, &self.directories, tree) else { return };
        self.snapshots += 1;
        let (number, zxid, walker) = (self.snapshots, tree.last_zxid(), tree.walker());
        core.tell(format_args!("s{} begins a snapshot of {zxid}", self.server));
        self.snapshotting = Some(Snapshotting { number, zxid, writer, walker });
        self.schedule_slice(number, core);
    }

    fn purge(&self, core: &mut Core) {
        const RETAIN: usize = 3;
        let needed = Needed::before_purge(self.disk.model(), &self.directories, RETAIN);
        let _ = purge(&self.disk, &self.directories, RETAIN);
        let verdict = needed.check(self.server, self.disk.model(), &self.directories);
        core.judge.note(verdict);
    }

    fn schedule_slice(&self, snapshot: u64, core: &mut Core) {
        let pause = core.disk_random.between(MS / 10, 5 * MS);
        let (server, incarnation) = (self.server, self.incarnation);
        core.push(core.now + pause, Event::SnapshotStep { server, incarnation, snapshot });
    }

    /// The next slice of a snapshot.
    pub(crate) fn snapshot_step(&mut self, number: u64, core: &mut Core) {
        let Some(mut snapshotting) = self.snapshotting.take_if(|it| it.number == number) else { return };
        let tree = self.replica.tree();
        let mut result = Ok(());
        let progress = snapshotting.walker.next_slice(tree, SLICE_NODES, &mut |path, data, acl, stat| {
            if result.is_ok() {
                result = snapshotting.writer.node(path, data, acl, stat);
            }
        });
        match (result, progress) {
            (Err(_), _) | (Ok(()), WalkProgress::Void) => {
                let _ = snapshotting.writer.abandon();
            }
            (Ok(()), WalkProgress::More) => {
                self.snapshotting = Some(snapshotting);
                self.schedule_slice(number, core);
            }
            (Ok(()), WalkProgress::Done) => {
                let last = tree.last_zxid();
                let sections =
                    Sections::DigestAndLastZxid { zxid: last, digest: tree.digest(), last_zxid: last };
                let written = snapshotting.writer.finish(sections).is_ok();
                core.tell(format_args!(
                    "s{} wrote a snapshot of {}: {written}",
                    self.server, snapshotting.zxid
                ));
                if written {
                    core.counts.snapshots += 1;
                    if core.shape.disk.purge == PurgeShape::AfterSnapshots {
                        self.purge(core);
                    }
                }
            }
        }
    }
}
