//! The steps of a restore in the core: transactions in flight end first, then the disk replaces the files.
//!
//! A request that waits for the first step is never executed. Its connection is closed, so that its client
//! learns that the outcome is unknown.

use tokio::sync::oneshot;
use tracing::warn;
use zebu_node::{ClientEvent, ConnectionId, ServingMode};
use zebu_proto::Zxid;
use zebu_runtime::{Edge, InstalledState, RestoreOutcome, RestoredState};

use crate::core::server_core::{CoreFailure, CorePhase, ServerCore};

/// The state after a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredSummary {
    /// The last transaction. It is above those of the old state and of the snapshot.
    pub zxid: Zxid,
    /// The nodes.
    pub nodes: usize,
    /// Sessions of the snapshot that were ended.
    pub ended_sessions: usize,
}

/// Why a state was not replaced. The old state is in place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreRefusal {
    /// The server is a member of an ensemble.
    #[error("this server is a member of an ensemble, and the others would keep their state")]
    Ensemble,
    /// Another restore runs.
    #[error("another restore runs; try again later")]
    Busy,
    /// The server stops.
    #[error("the server stops")]
    Stopping,
    /// The disk has not enough room.
    #[error("the disk has {free} bytes free, and the restore needs {needed}")]
    NoRoom {
        /// Free bytes.
        free: u64,
        /// Bytes that must be free.
        needed: u64,
    },
    /// The body is longer than allowed.
    #[error("the snapshot is longer than {limit} bytes (admin.restore.maxBytes)")]
    TooLong {
        /// The limit in bytes.
        limit: u64,
    },
    /// The body is no usable snapshot.
    #[error("{0}")]
    BadSnapshot(String),
    /// A file could not be written or read.
    #[error("{0}")]
    NotWritten(String),
}

/// A checked state that takes the place of the current one.
#[derive(Debug)]
pub(crate) struct RestoreRequest {
    pub(crate) state: Box<RestoredState>,
    pub(crate) reply: oneshot::Sender<Result<RestoredSummary, RestoreRefusal>>,
}

impl RestoreRequest {
    pub(crate) fn refuse(self, refusal: RestoreRefusal) {
        // The receiver is gone if the operator's connection has ended.
        let _ = self.reply.send(Err(refusal));
    }
}

/// The step of a restore.
#[derive(Debug)]
pub(crate) enum RestoreProgress {
    /// Transactions in flight are being made durable and applied.
    Draining {
        request: RestoreRequest,
        /// Events of clients that came meanwhile. Their permits and connections bound them.
        held: Vec<ClientEvent>,
    },
    /// The disk replaces the files, and no client is served.
    Installing { reply: oneshot::Sender<Result<RestoredSummary, RestoreRefusal>> },
}

impl RestoreProgress {
    pub(crate) fn is_draining(&self) -> bool {
        matches!(self, RestoreProgress::Draining { .. })
    }
}

impl ServerCore {
    /// Begins to replace the state: no new transaction is proposed from here on.
    pub(super) fn begin_restore(&mut self, request: RestoreRequest) {
        let refusal = match (self.phase, &self.restore, &self.edge.peers) {
            (CorePhase::Draining | CorePhase::Stopping { .. } | CorePhase::Aborted, _, _) => {
                RestoreRefusal::Stopping
            }
            (CorePhase::Serving, _, Some(_)) => RestoreRefusal::Ensemble,
            (CorePhase::Serving, Some(_), None) => RestoreRefusal::Busy,
            (CorePhase::Serving, None, None) => {
                self.restore = Some(RestoreProgress::Draining { request, held: Vec::new() });
                return;
            }
        };
        request.refuse(refusal);
    }

    /// A stopping server begins no installation.
    pub(super) fn refuse_restore(&mut self) {
        if let Some(RestoreProgress::Draining { request, held }) = self.restore.take_if(|it| it.is_draining())
        {
            request.refuse(RestoreRefusal::Stopping);
            drop(held);
        }
    }

    /// When all transactions in flight are applied, closes all clients and lets the disk replace the files.
    pub(super) fn begin_install_if_drained(&mut self) -> Result<(), CoreFailure> {
        if self.round.node().in_flight() > 0
            || !self.restore.as_ref().is_some_and(RestoreProgress::is_draining)
        {
            return Ok(());
        }
        let Some(RestoreProgress::Draining { request, mut held }) = self.restore.take() else {
            return Ok(());
        };
        let shared = self.edge.shared.clone();
        let open: Vec<ConnectionId> = shared.connections.all().iter().map(|entry| entry.lock().id).collect();
        warn!(
            clients = open.len(),
            "the state is replaced by a snapshot of the operator; all clients are closed"
        );
        self.round.suspend(&open, &mut self.edge);
        shared.set_serving_mode(None, None);
        let current = shared.read_replica().last_zxid();
        self.edge.disk.restore(request.state, current);
        self.restore = Some(RestoreProgress::Installing { reply: request.reply });
        // The held requests belong to closed connections; the node releases what they hold.
        Ok(self.round.serve(&mut held, &mut self.edge)?)
    }

    /// Serves again: the new state, or the old one if the disk has refused the new one.
    pub(super) fn end_restore(&mut self, outcome: RestoreOutcome) {
        let Some(RestoreProgress::Installing { reply }) = self.restore.take() else { return };
        let result = match outcome {
            RestoreOutcome::Installed(InstalledState { tree, zxid, ended_sessions }) => {
                let nodes = tree.node_count();
                self.edge.replace_tree(*tree);
                warn!(%zxid, nodes, ended_sessions, "the state of the operator's snapshot is in place");
                Ok(RestoredSummary { zxid, nodes, ended_sessions })
            }
            RestoreOutcome::Unchanged(error) => {
                warn!(%error, "the state was not replaced: the snapshot could not be written");
                Err(RestoreRefusal::NotWritten(error.to_string()))
            }
        };
        self.round.resume(&mut self.edge);
        self.edge.shared.set_serving_mode(Some(ServingMode::Standalone), None);
        // The receiver is gone if the operator's connection has ended.
        let _ = reply.send(result);
    }
}
