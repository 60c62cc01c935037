//! The core thread: takes a batch from the inbox, lets the brain decide, hands what is to be logged to the
//! disk, applies what the disk has.

use std::sync::Arc;
use std::time::Duration;

use zebu_node::{AfterAppend, CommitError, Event, Node};

use crate::disk::{DiskFailure, DiskHandle};
use crate::inbox::{Delivery, SessionsReport, Urgent};
use crate::shared::Shared;
use crate::snapshotter::SnapshotHandle;

/// How long the core sleeps at most, so that a clock that jumps cannot make it oversleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// What ends the core other than a wish to stop.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoreFailure {
    /// The log cannot be written.
    #[error(transparent)]
    Disk(#[from] DiskFailure),
    /// What was decided cannot be applied.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Whether the core takes new work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Serving,
    /// What is on the way is finished, nothing new is begun.
    Stopping,
    /// Nothing is finished.
    Abandoned,
}

/// The core and what it talks to.
pub(crate) struct CoreThread {
    shared: Arc<Shared>,
    node: Node,
    disk: DiskHandle,
    snapshots: SnapshotHandle,
    mode: Mode,
}

impl CoreThread {
    pub(crate) fn new(
        shared: Arc<Shared>,
        node: Node,
        disk: DiskHandle,
        snapshots: SnapshotHandle,
    ) -> CoreThread {
        CoreThread { shared, node, disk, snapshots, mode: Mode::Serving }
    }

    /// Runs until it is told to stop, or until it cannot go on.
    pub(crate) fn run(mut self) -> Result<(), CoreFailure> {
        let mut delivery = Delivery::default();
        loop {
            let sleep = self.shared.clock.until(self.node.next_deadline()).min(SLEEP_MAX);
            self.shared.inbox.take(&mut delivery, sleep);
            for urgent in delivery.urgent.drain(..) {
                self.handle_urgent(urgent)?;
            }
            if self.mode == Mode::Abandoned {
                return Ok(());
            }
            if self.node.has_committed() {
                self.commit()?;
            }
            self.handle_events(&mut delivery);
            self.log();
            if self.mode == Mode::Stopping && self.node.in_flight() == 0 {
                return Ok(());
            }
        }
    }

    fn handle_urgent(&mut self, urgent: Urgent) -> Result<(), CoreFailure> {
        match urgent {
            Urgent::Persisted(zxid) => self.node.persisted(zxid),
            Urgent::DiskFailed(failure) => return Err(failure.into()),
            Urgent::Sessions(reply) => {
                let report = SessionsReport {
                    tracker: self.node.session_report(),
                    drop_probability: self.node.drop_probability(),
                };
                // Whoever asked may be gone.
                let _ = reply.send(report);
            }
            Urgent::Stop => self.mode = Mode::Stopping,
            Urgent::Abandon => self.mode = Mode::Abandoned,
        }
        Ok(())
    }

    /// Applies everything that the disk has under one exclusive lock.
    fn commit(&mut self) -> Result<(), CoreFailure> {
        let now = self.shared.clock.now();
        let mut lanes = self.shared.lanes.batch();
        let mut replica = self.shared.write();
        let applied = self.node.commit(&mut replica, &mut lanes, now)?;
        drop(replica);
        lanes.ring();
        self.shared.metrics.commits.add(applied as u64);
        self.shared.inbox.release(self.node.take_answered());
        Ok(())
    }

    fn handle_events(&mut self, delivery: &mut Delivery) {
        let now = self.shared.clock.now();
        let due = self.node.next_deadline() <= now.monotonic_ms;
        if delivery.events.is_empty() && !due {
            return;
        }
        if self.mode == Mode::Stopping {
            delivery.events.clear();
            return;
        }
        let mut lanes = self.shared.lanes.batch();
        let replica = self.shared.read();
        let mut gone = Vec::new();
        for event in delivery.events.drain(..) {
            if let Event::Disconnected { lane, .. } = event {
                gone.push(lane);
            }
            self.node.handle(event, &replica, &mut lanes, now);
        }
        if due {
            self.node.tick(&replica, &mut lanes, now);
        }
        drop(replica);
        lanes.ring();
        self.shared.lanes.remove(&gone);
        self.shared.inbox.release(self.node.take_answered());
    }

    fn log(&mut self) {
        if let Some(batch) = self.node.take_batch() {
            let after = batch.after;
            self.disk.append(batch);
            if after == AfterAppend::RollAndSnapshot {
                self.snapshots.request();
            }
        }
    }
}
