//! One round of the core: takes a batch from the inbox, runs the node, hands transactions to the
//! disk, applies committed ones. `executor.rs` decides which thread runs a round, and when.

use std::sync::Arc;
use std::time::Instant;

use tracing::{info, warn};
use zebu_node::{
    AfterAppend, AnsweredRequests, AuditEvent, CommitError, ConnectionId, Effect, Node, Now, OperatorNotice,
};
use zebu_proto::Zxid;
use zebu_runtime::{Edge, ExclusiveWork, Round, SharedWork};
use zebu_storage::Directories;
use zebu_tree::Tree;
use zebu_zab::{DiskCommand, HandOverRefusal};

use crate::core::context::ServerContext;
use crate::core::executor::{CoreTask, RoundOutcome};
use crate::core::inbox::{ControlEvent, CoreStatus, InboxBatch};
use crate::core::restore::RestoreProgress;
use crate::core::serving_effects::{execute_config, execute_serve};
use crate::disk::disk_thread::{DiskFailure, DiskHandle};
use crate::disk::snapshotter::SnapshotHandle;
use crate::dynamic_config::ConfigFileWriter;
use crate::metrics::core_times::CoreTimes;
use crate::net::reply_sender::ReplySender;
use crate::panic_guard::ComponentFailure;
use crate::peers::Peers;
use crate::rate_limited_log::RateLimitedLog;

/// How long a stopping server tries to hand over its leadership.
const RESIGN_TIMEOUT_MS: i64 = 1000;

/// Why the core ended without a request to stop.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoreFailure {
    /// The log cannot be written.
    #[error(transparent)]
    Disk(#[from] DiskFailure),
    /// A thread or task that the server needs has panicked.
    #[error(transparent)]
    Component(#[from] ComponentFailure),
    /// A committed transaction cannot be applied.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Whether the core accepts new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CorePhase {
    Serving,
    /// Sends the clients to other servers, and serves those that are left.
    Draining,
    /// Finishes transactions in flight, accepts no new requests.
    Stopping {
        /// A server that could not hand over by then stops anyway.
        until_ms: i64,
    },
    /// Finishes nothing.
    Aborted,
}

/// The node with its round, and the server parts that execute its effects.
pub(crate) struct ServerCore {
    pub(super) round: Round,
    pub(super) edge: CoreEdge,
    pub(super) phase: CorePhase,
    /// `None` unless the whole state is being replaced.
    pub(super) restore: Option<RestoreProgress>,
    /// Whether requests that make the tree larger were accepted after the last round.
    accepts_growth: bool,
    /// Empty between rounds; kept for its memory.
    batch: InboxBatch,
    /// Empty between rounds; kept for its memory.
    audit_events: Vec<AuditEvent>,
}

/// The server parts that execute the node's effects.
pub(crate) struct CoreEdge {
    pub(crate) shared: Arc<ServerContext>,
    pub(crate) disk: DiskHandle,
    pub(crate) snapshots: SnapshotHandle,
    pub(crate) reply_sender: ReplySender,
    /// `None` for a standalone server.
    pub(crate) peers: Option<Peers>,
    pub(crate) directories: Directories,
    pub(crate) config_files: ConfigFileWriter,
    pub(crate) peer_warnings: RateLimitedLog,
    pub(crate) times: CoreTimes,
}

impl CoreTask for ServerCore {
    type Exit = Result<(), CoreFailure>;

    fn run_round(&mut self) -> RoundOutcome<Result<(), CoreFailure>> {
        let mut batch = std::mem::take(&mut self.batch);
        self.edge.shared.inbox.drain_into(&mut batch);
        let started = Instant::now();
        self.record_inbox(batch.client_events.len());
        let done = self.process(&mut batch);
        self.record_round(started);
        self.batch = batch;
        let node = self.round.node();
        match done {
            Err(failure) => RoundOutcome::Finished(Err(failure)),
            Ok(()) if self.phase == CorePhase::Aborted || self.has_stopped() => {
                RoundOutcome::Finished(Ok(()))
            }
            Ok(()) => {
                RoundOutcome::Continue { next_at_ms: node.next_deadline(), in_flight: node.in_flight() }
            }
        }
    }
}

impl ServerCore {
    pub(crate) fn new(mut node: Node, mut edge: CoreEdge) -> ServerCore {
        if edge.shared.audit.is_some() {
            node.enable_audit();
        }
        let mut round = Round::new(node);
        round.execute_effects(&mut edge);
        edge.flush();
        // The first round may end the first election.
        if let Some(is_looking) = round.node().is_looking() {
            edge.times.observe_role(is_looking, &edge.shared.metrics);
        }
        ServerCore {
            round,
            edge,
            phase: CorePhase::Serving,
            restore: None,
            accepts_growth: true,
            batch: InboxBatch::default(),
            audit_events: Vec::new(),
        }
    }

    fn process(&mut self, batch: &mut InboxBatch) -> Result<(), CoreFailure> {
        if let Some(audit) = &self.edge.shared.audit {
            self.round.node_mut().refuse_unaudited_writes(audit.refuses_writes());
        }
        self.handle_control_events(batch)?;
        match self.phase {
            CorePhase::Serving | CorePhase::Draining => {}
            CorePhase::Stopping { .. } => batch.client_events.clear(),
            CorePhase::Aborted => return Ok(()),
        }
        let served = match &mut self.restore {
            // New requests wait; they are refused when the last transaction is applied.
            Some(RestoreProgress::Draining { held, .. }) => {
                held.append(&mut batch.client_events);
                self.round.serve(&mut Vec::new(), &mut self.edge)
            }
            Some(RestoreProgress::Installing { .. }) | None => {
                self.round.serve(&mut batch.client_events, &mut self.edge)
            }
        };
        self.record_audit_events();
        served?;
        self.stop_if_drained()?;
        self.begin_install_if_drained()?;
        self.edge.flush();
        self.log_notices();
        self.log_growth();
        Ok(())
    }

    /// Logs a change between accepting and refusing what makes the tree larger.
    fn log_growth(&mut self) {
        let accepts_growth = self.round.node().has_room_to_grow();
        if std::mem::replace(&mut self.accepts_growth, accepts_growth) == accepts_growth {
            return;
        }
        if accepts_growth {
            info!("requests that make the tree larger are accepted again");
        } else {
            warn!("requests that make the tree larger are refused: no quorum has room on its disks");
        }
    }

    fn record_audit_events(&mut self) {
        if let Some(audit) = &self.edge.shared.audit {
            self.round.node_mut().take_audit_events(&mut self.audit_events);
            audit.record(&mut self.audit_events, self.edge.shared.clock.monotonic_ms());
        }
    }

    fn log_notices(&mut self) {
        for notice in self.round.node_mut().take_notices() {
            match notice {
                OperatorNotice::TransactionTooLong { session, bytes, bytes_max } => {
                    warn!(%session, bytes, bytes_max, "a request was refused: its transaction would be too long");
                }
                OperatorNotice::EphemeralsNotListed { session } => {
                    info!(%session, "a session ends without a list of its ephemeral nodes: it would be too long");
                }
            }
        }
    }

    /// Whether a stopping server has finished. A failed handover is not waited for long, because a
    /// stop is safe at any moment.
    fn has_stopped(&self) -> bool {
        match self.phase {
            CorePhase::Serving | CorePhase::Draining | CorePhase::Aborted => false,
            CorePhase::Stopping { until_ms } => {
                let node = self.round.node();
                let finished = node.in_flight() == 0 && node.has_resigned();
                finished || (self.edge.peers.is_some() && self.edge.shared.clock.monotonic_ms() >= until_ms)
            }
        }
    }

    /// Handles control events in order; events of peers and disk are handled together at the end.
    fn handle_control_events(&mut self, batch: &mut InboxBatch) -> Result<(), CoreFailure> {
        for control_event in batch.control_events.drain(..) {
            self.handle_control_event(control_event)?;
        }
        self.round.handle_peers(&mut self.edge);
        Ok(())
    }

    fn handle_control_event(&mut self, control_event: ControlEvent) -> Result<(), CoreFailure> {
        match control_event {
            ControlEvent::Peer(event) => {
                self.edge.times.peer_event(&event, &self.edge.shared.metrics);
                self.round.push_peer(event);
            }
            ControlEvent::Vote { from, notification, permit } => {
                self.round.push_peer(zebu_zab::PeerEvent::Notification { from, notification });
                drop(permit);
            }
            ControlEvent::Disk(event) => self.round.push_disk(event, &mut self.edge),
            ControlEvent::DiskFailed(failure) => return Err(failure.into()),
            ControlEvent::ComponentFailed(failure) => return Err(failure.into()),
            ControlEvent::GetStatus(reply) => {
                self.round.handle_peers(&mut self.edge);
                let node = self.round.node();
                let status = node.status();
                let report = CoreStatus {
                    global_sessions: node.session_report(),
                    local_sessions: node.local_session_report(),
                    drop_probability: node.drop_probability(),
                    digest_mismatches: node.digest_mismatches(),
                    disk_hand_overs: status
                        .as_ref()
                        .map_or(0, |status| status.disk.full_hand_overs + status.disk.slow_hand_overs),
                    leader: status.as_ref().and_then(|status| status.leader),
                    learner_master: status.as_ref().and_then(|status| status.master),
                    logged: status.as_ref().map_or(Zxid::ZERO, |status| status.logged),
                    history_bytes: status.as_ref().map_or(0, |status| status.history_bytes),
                    pending_syncs: node.pending_syncs(),
                    learners: status.map(|status| status.learners).unwrap_or_default(),
                };
                // The receiver may be gone.
                let _ = reply.send(report);
            }
            ControlEvent::Restore(request) => self.begin_restore(*request),
            ControlEvent::RestoreEnded(outcome) => self.end_restore(outcome),
            ControlEvent::HandOver(reply) => {
                self.round.handle_peers(&mut self.edge);
                let begun = match self.phase {
                    CorePhase::Serving => self.round.hand_over(&mut self.edge),
                    CorePhase::Draining | CorePhase::Stopping { .. } | CorePhase::Aborted => {
                        Err(HandOverRefusal::NotReady)
                    }
                };
                // The receiver may be gone.
                let _ = reply.send(begun);
            }
            ControlEvent::Drain => {
                self.round.handle_peers(&mut self.edge);
                self.refuse_restore();
                self.begin_drain();
            }
            ControlEvent::Stop => {
                self.round.handle_peers(&mut self.edge);
                self.refuse_restore();
                if matches!(self.phase, CorePhase::Serving | CorePhase::Draining) {
                    self.begin_shutdown();
                }
            }
            ControlEvent::Abort => self.phase = CorePhase::Aborted,
        }
        Ok(())
    }

    fn record_inbox(&self, client_events: usize) {
        if client_events == 0 {
            return;
        }
        let (metrics, node) = (&self.edge.shared.metrics, self.round.node());
        let (count, in_flight) = (client_events as u64, node.in_flight() as u64);
        metrics.client_events.add(count);
        metrics.inbox_size.record(count);
        metrics.inbox_depth.record(count);
        metrics.in_flight.record(in_flight);
        metrics.in_flight_depth.record(in_flight);
        if node.is_learner() {
            metrics.forwarded.record(in_flight);
        }
    }

    fn record_round(&mut self, started: Instant) {
        let metrics = &self.edge.shared.metrics;
        metrics.round_duration.record(started.elapsed().as_micros() as u64);
        if let Some(is_looking) = self.round.node().is_looking() {
            self.edge.times.observe_role(is_looking, metrics);
        }
    }

    fn begin_drain(&mut self) {
        if self.phase != CorePhase::Serving {
            return;
        }
        self.phase = CorePhase::Draining;
        let mut open: Vec<ConnectionId> = self.edge.shared.connections.read().keys().copied().collect();
        open.sort_unstable();
        let time = self.edge.shared.config.sessions.drain_time;
        let time_ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 2);
        self.round.begin_drain(&open, time_ms, &mut self.edge);
        if self.round.node().is_draining() {
            info!(connections = open.len(), time_ms, "sending clients to other servers");
        }
    }

    /// Stops when the clients have left, or when their time is over.
    fn stop_if_drained(&mut self) -> Result<(), CoreFailure> {
        let now_ms = self.edge.shared.clock.monotonic_ms();
        if self.phase != CorePhase::Draining || !self.round.node().has_drained(now_ms) {
            return Ok(());
        }
        if self.round.node().is_draining() {
            let metrics = self.edge.shared.read_replica().metrics().clone();
            info!(
                closed = metrics.connections_drained.total(),
                moved = metrics.clients_moved.total(),
                left = self.edge.shared.connections.read().len(),
                "drained"
            );
        }
        self.begin_shutdown();
        self.round.serve(&mut Vec::new(), &mut self.edge)?;
        Ok(())
    }

    fn begin_shutdown(&mut self) {
        let now_ms = self.edge.shared.clock.monotonic_ms();
        self.phase = CorePhase::Stopping { until_ms: now_ms + RESIGN_TIMEOUT_MS };
        self.round.resign(&mut self.edge);
    }
}

impl Edge for CoreEdge {
    fn now(&self) -> Now {
        self.shared.clock.now()
    }

    fn with_shared(&mut self, work: impl SharedWork) {
        let mut connections = self.reply_sender.begin_batch(&self.shared.connections);
        let replica = self.shared.read_replica();
        let started = Instant::now();
        work.run(&replica, &mut connections);
        drop(replica);
        self.shared.metrics.prepare_ms.record(started.elapsed().as_millis() as u64);
        connections.flush();
    }

    fn with_exclusive<W: ExclusiveWork>(&mut self, work: W) -> W::Output {
        let mut connections = self.reply_sender.begin_batch(&self.shared.connections);
        let mut replica = self.shared.write_replica();
        let started = Instant::now();
        let output = work.run(&mut replica, &mut connections);
        drop(replica);
        let elapsed = started.elapsed();
        self.shared.metrics.apply_ms.record(elapsed.as_millis() as u64);
        self.shared.metrics.apply_duration.record(elapsed.as_micros() as u64);
        connections.flush();
        output
    }

    fn replace_tree(&mut self, tree: Tree) {
        self.shared.replace_tree(tree);
    }

    fn committed(&mut self, _: &Node, transactions: usize) {
        self.shared.metrics.commits.add(transactions as u64);
        let applied = self.shared.read_replica().last_zxid();
        if self.shared.feeds.open_feeds() > 0 {
            self.shared.feed_signals.committed();
        }
        self.times.applied(applied, self.shared.serving_mode(), &self.shared.metrics);
    }

    fn answered(&mut self, requests: AnsweredRequests) {
        self.shared.inbox.release_permits(requests);
    }

    fn disconnected(&mut self, connections: &[ConnectionId]) {
        self.shared.connections.remove(connections);
    }

    fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::Peer(effect) => {
                if let Some(peers) = &self.peers {
                    peers.execute(effect, &self.directories);
                }
            }
            Effect::Append { io, batch } => {
                let after = batch.after;
                let (mode, wall_ms) = (self.shared.serving_mode(), self.shared.clock.now().wall_ms);
                self.times.appended(&batch, mode, &self.shared.metrics, wall_ms);
                self.disk.append(io, batch);
                if after == AfterAppend::RollAndSnapshot {
                    self.snapshots.request();
                }
            }
            Effect::Disk(command) => {
                let received = match &command {
                    DiskCommand::InstallSnapshot { link, .. } => {
                        self.peers.as_ref().and_then(|peers| peers.take_snapshot(*link))
                    }
                    DiskCommand::Truncate { .. }
                    | DiskCommand::Quarantine { .. }
                    | DiskCommand::MarkTrusted { .. }
                    | DiskCommand::SaveAcceptedEpoch { .. }
                    | DiskCommand::SaveCurrentEpoch { .. } => None,
                };
                self.disk.command(command, received);
            }
            Effect::Config(effect) => {
                execute_config(effect, &self.shared, self.peers.as_ref(), &self.config_files);
            }
            Effect::Serve(effect) => {
                execute_serve(effect, &self.shared, self.peers.as_ref());
                self.times.serving(self.shared.serving_mode(), &self.shared.metrics);
            }
            Effect::Report(finding) => self.peer_warnings.log(&finding),
        }
    }
}

impl CoreEdge {
    /// Sends the packets of a round to the peers.
    fn flush(&self) {
        if let Some(peers) = &self.peers {
            peers.flush();
        }
    }
}
