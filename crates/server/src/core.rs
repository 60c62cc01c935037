//! One round of the core: takes a batch from the inbox, lets the brain decide, hands what is to be logged to the
//! disk, applies what the disk has. Who does a round, and when, is said by `core_seat.rs`.

use std::sync::Arc;

use tracing::{info, warn};
use zebu_node::{AfterAppend, CommitError, DiskOrder, Event, Node, Notice, Order};
use zebu_storage::Directories;

use crate::core_seat::{Next, Rounds};
use crate::disk::{DiskFailure, DiskHandle};
use crate::dynamic_config::FileWriter;
use crate::findings::Findings;
use crate::inbox::{Delivery, SessionsReport, Urgent};
use crate::peers::Peers;
use crate::post::Post;
use crate::shared::{Shared, Standing};
use crate::snapshotter::SnapshotHandle;
use crate::vital::PartFailure;

/// How long a member that stops tries to hand over.
const HAND_OVER_MAX_MS: i64 = 1000;

/// What ends the core other than a wish to stop.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoreFailure {
    /// The log cannot be written.
    #[error(transparent)]
    Disk(#[from] DiskFailure),
    /// A thread or task that the server needs has panicked.
    #[error(transparent)]
    Part(#[from] PartFailure),
    /// What was decided cannot be applied.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Whether the core takes new work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Serving,
    /// What is on the way is finished, nothing new is begun.
    Stopping {
        /// A member that cannot hand over by then just goes.
        until_ms: i64,
    },
    /// Nothing is finished.
    Abandoned,
}

/// The core and what it talks to.
pub(crate) struct Core {
    shared: Arc<Shared>,
    node: Node,
    disk: DiskHandle,
    snapshots: SnapshotHandle,
    post: Post,
    /// The other members, if there are any.
    peers: Option<Peers>,
    directories: Directories,
    member_files: FileWriter,
    mode: Mode,
    /// These are empty between rounds, and keep their room.
    delivery: Delivery,
    said: Vec<zebu_zab::Event>,
    orders: Vec<Order>,
    findings: Findings,
}

impl Rounds for Core {
    type End = Result<(), CoreFailure>;

    fn round(&mut self) -> Next<Result<(), CoreFailure>> {
        let mut delivery = std::mem::take(&mut self.delivery);
        self.shared.inbox.take(&mut delivery);
        let done = self.attend_to(&mut delivery);
        self.delivery = delivery;
        match done {
            Err(failure) => Next::End(Err(failure)),
            Ok(()) if self.mode == Mode::Abandoned || self.has_stopped() => Next::End(Ok(())),
            Ok(()) => Next::Round { at_ms: self.node.next_deadline(), in_flight: self.node.in_flight() },
        }
    }
}

impl Core {
    pub(crate) fn new(
        shared: Arc<Shared>,
        node: Node,
        disk: DiskHandle,
        snapshots: SnapshotHandle,
        post: Post,
        peers: Option<Peers>,
        directories: Directories,
        member_files: FileWriter,
    ) -> Core {
        let mut core = Core {
            shared,
            node,
            disk,
            snapshots,
            post,
            peers,
            directories,
            member_files,
            mode: Mode::Serving,
            delivery: Delivery::default(),
            said: Vec::new(),
            orders: Vec::new(),
            findings: Findings::default(),
        };
        core.carry_out();
        core
    }

    fn attend_to(&mut self, delivery: &mut Delivery) -> Result<(), CoreFailure> {
        self.handle_all_urgent(delivery)?;
        if self.mode == Mode::Abandoned {
            return Ok(());
        }
        self.commit_all()?;
        self.handle_events(delivery);
        self.commit_all()?;
        self.log();
        self.carry_out();
        self.report_notices();
        Ok(())
    }

    fn report_notices(&mut self) {
        for notice in self.node.take_notices() {
            match notice {
                Notice::TransactionTooLong { session, bytes, bytes_max } => {
                    warn!(%session, bytes, bytes_max, "a request was refused: its transaction would be too long");
                }
                Notice::UnlistedEnd { session } => {
                    info!(%session, "a session ends without a list of its ephemeral nodes: it would be too long");
                }
            }
        }
    }

    /// Whether nothing is left to be done by a server that stops. One that cannot hand over is not waited for
    /// long: to stop at any moment is safe.
    fn has_stopped(&self) -> bool {
        match self.mode {
            Mode::Serving | Mode::Abandoned => false,
            Mode::Stopping { until_ms } => {
                let finished = self.node.in_flight() == 0 && self.node.has_handed_over();
                finished || (self.peers.is_some() && self.shared.clock.monotonic_ms() >= until_ms)
            }
        }
    }

    /// In their order; what other members say is taken together.
    fn handle_all_urgent(&mut self, delivery: &mut Delivery) -> Result<(), CoreFailure> {
        for urgent in delivery.urgent.drain(..) {
            match urgent {
                Urgent::Peer(event) => self.said.push(event),
                Urgent::Vote { from, notification, permit } => {
                    self.said.push(zebu_zab::Event::Notification { from, notification });
                    drop(permit);
                }
                other => {
                    self.hear();
                    self.handle_urgent(other)?;
                }
            }
        }
        self.hear();
        Ok(())
    }

    /// Takes what other members have said.
    fn hear(&mut self) {
        if self.said.is_empty() {
            return;
        }
        let now = self.shared.clock.now();
        let mut lanes = self.post.batch(&self.shared.lanes);
        let replica = self.shared.read();
        for event in self.said.drain(..) {
            self.node.handle_peer(event, &replica, &mut lanes, now);
        }
        drop(replica);
        lanes.deliver();
        self.shared.inbox.release(self.node.take_answered());
    }

    fn handle_urgent(&mut self, urgent: Urgent) -> Result<(), CoreFailure> {
        match urgent {
            Urgent::Persisted(zxid) => self.node.persisted(zxid),
            Urgent::Peer(event) => {
                self.said.push(event);
                self.hear();
            }
            Urgent::Vote { from, notification, .. } => {
                self.said.push(zebu_zab::Event::Notification { from, notification });
                self.hear();
            }
            Urgent::Replaced { io, tree } => {
                self.shared.replace_tree(*tree);
                self.said.push(zebu_zab::Event::Persisted { io });
                self.hear();
            }
            Urgent::DiskFailed(failure) => return Err(failure.into()),
            Urgent::PartFailed(failure) => return Err(failure.into()),
            Urgent::Sessions(reply) => {
                let status = self.node.status();
                let report = SessionsReport {
                    tracker: self.node.session_report(),
                    local: self.node.local_session_report(),
                    drop_probability: self.node.drop_probability(),
                    digest_mismatches: self.node.digest_mismatches(),
                    master: status.as_ref().and_then(|status| status.master),
                    learners: status.map(|status| status.learners).unwrap_or_default(),
                };
                // Whoever asked may be gone.
                let _ = reply.send(report);
            }
            Urgent::Stop => self.begin_to_stop(),
            Urgent::Abandon => self.mode = Mode::Abandoned,
        }
        Ok(())
    }

    fn begin_to_stop(&mut self) {
        let now = self.shared.clock.now();
        self.mode = Mode::Stopping { until_ms: now.monotonic_ms + HAND_OVER_MAX_MS };
        let mut lanes = self.post.batch(&self.shared.lanes);
        let replica = self.shared.read();
        self.node.hand_over(&replica, &mut lanes, now);
        drop(replica);
        lanes.deliver();
    }

    fn commit_all(&mut self) -> Result<(), CoreFailure> {
        while self.node.has_committed() {
            self.commit()?;
        }
        Ok(())
    }

    /// Does what a member wants: most of it is for others.
    fn carry_out(&mut self) {
        let Some(peers) = &self.peers else { return };
        self.node.take_orders(&mut self.orders);
        for order in self.orders.drain(..) {
            match peers.perform(order) {
                None => {}
                Some(Order::Disk(order)) => {
                    let received = match &order {
                        DiskOrder::InstallSnapshot { link, .. } => peers.take_received(*link),
                        DiskOrder::Append { batch, .. } => {
                            if batch.after == AfterAppend::RollAndSnapshot {
                                self.snapshots.request();
                            }
                            None
                        }
                        _ => None,
                    };
                    self.disk.order(order, received);
                }
                Some(Order::ReadLog { link, after, up_to, purpose }) => {
                    peers.read_log(&self.shared, &self.directories, link, (after, up_to), purpose);
                }
                Some(Order::Remember { configuration }) => {
                    peers.propose(&configuration);
                    self.member_files.remember(configuration);
                }
                Some(Order::Locate { configuration }) => peers.propose(&configuration),
                Some(Order::Report(finding)) => self.findings.report(&finding),
                Some(Order::Activate { configuration }) => {
                    info!(version = format_args!("{:x}", configuration.version), "the members have changed");
                    peers.reconfigure(&configuration);
                    self.shared.set_members((*configuration).clone(), self.shared.clock.now().wall_ms);
                    self.member_files.activate(configuration);
                }
                Some(Order::Serve(serving)) => {
                    info!(?serving, "this member serves");
                    peers.serves(Some(serving));
                    self.shared.set_standing(Standing::Serving(serving));
                }
                Some(Order::ServeReadOnly) => {
                    // Tests of other projects wait for the first words.
                    info!(
                        "Read-only server started: there is no leader, clients that are content with reads are served"
                    );
                    self.shared.set_standing(Standing::ReadOnly);
                }
                Some(Order::StopServing) => {
                    info!("this member serves no more");
                    peers.serves(None);
                    self.shared.set_standing(Standing::NotServing);
                }
                Some(other) => unreachable!("{other:?} is for the network"),
            }
        }
        peers.flush();
    }

    /// Applies everything that the disk has under one exclusive lock.
    fn commit(&mut self) -> Result<(), CoreFailure> {
        let now = self.shared.clock.now();
        let mut lanes = self.post.batch(&self.shared.lanes);
        let mut replica = self.shared.write();
        let applied = self.node.commit(&mut replica, &mut lanes, now)?;
        drop(replica);
        lanes.deliver();
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
        if let Mode::Stopping { .. } = self.mode {
            delivery.events.clear();
        }
        let mut lanes = self.post.batch(&self.shared.lanes);
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
        lanes.deliver();
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
