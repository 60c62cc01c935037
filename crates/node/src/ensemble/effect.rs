//! The effects of a node. A node executes no effect; the runtime starts effects in the order in which they
//! arrive. Effects of the Zab peer are passed on unchanged.

use zebu_zab::{ConfigEffect, DiskCommand, IoId, PeerEffect, PeerWarning, ServingRole};

use crate::core::LogBatch;

/// One effect.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// For the network between the servers.
    Peer(PeerEffect),
    /// Append to the log and sync.
    Append {
        /// The last append in the batch, for [`zebu_zab::PeerEvent::Persisted`]. A standalone server has
        /// none: it waits for the last zxid of the batch.
        io: Option<IoId>,
        /// The transactions.
        batch: LogBatch,
    },
    /// For the disk, after all earlier appends.
    Disk(DiskCommand),
    /// For the config.
    Config(ConfigEffect),
    /// For clients.
    Serve(ServeEffect),
    /// For the operator.
    Report(PeerWarning),
}

/// Whether and how clients are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeEffect {
    /// Accept clients.
    Serve(ServingRole),
    /// Accept clients in read-only mode.
    ServeReadOnly,
    /// Accept no clients. The node has closed the connections that it does not keep.
    Stop,
}
