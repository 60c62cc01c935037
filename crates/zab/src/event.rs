//! The events of a peer: notifications, packets, connections, disk. The time is passed separately.

use zebu_proto::ServerId;
use zebu_proto::quorum::{DiskRoom, Notification, Packet};

use crate::encoded_txn::EncodedTxn;

/// A connection between a leader and a learner, on either side. The network layer numbers accepted
/// connections, the peer numbers dialed ones. A process never reuses an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

impl LinkId {
    /// The id of an accepted connection. Accepted connections have even ids, dialed ones odd ids.
    pub const fn accepted(count: u64) -> LinkId {
        LinkId(count * 2)
    }

    /// The id of a dialed connection. Accepted connections have even ids, dialed ones odd ids.
    pub const fn dialed(count: u64) -> LinkId {
        LinkId(count * 2 + 1)
    }

    /// Whether the other server opened the connection.
    pub const fn is_accepted(self) -> bool {
        self.0.is_multiple_of(2)
    }
}

/// The id of an append or a command. Ids ascend, and the disk works in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// The number of a ping of a leader, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PingNumber(pub u64);

/// The result of a read from the transaction log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRead {
    /// At least one transaction, without gaps, starting directly after the requested position. The range may
    /// be incomplete.
    Entries(Vec<EncodedTxn>),
    /// The log does not reach back far enough, has a gap, or the range is too large.
    Unavailable,
}

/// An event of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerEvent {
    /// An election notification was received.
    Notification {
        /// The sender.
        from: ServerId,
        /// The vote of the sender.
        notification: Notification,
    },
    /// A dialed connection is established.
    Dialed {
        /// The connection.
        link: LinkId,
    },
    /// A connection could not be established.
    DialFailed {
        /// The connection.
        link: LinkId,
    },
    /// A learner connected to the quorum port.
    Accepted {
        /// Its connection.
        link: LinkId,
    },
    /// An observer connected to the observer master port.
    ObserverAccepted {
        /// Its connection.
        link: LinkId,
    },
    /// A packet was received.
    Packet {
        /// The connection.
        link: LinkId,
        /// The packet.
        packet: Packet,
    },
    /// The snapshot after a SNAP packet was received completely and is valid.
    SnapshotReceived {
        /// The connection.
        link: LinkId,
    },
    /// A part of a snapshot was received or sent, and more follows. Both sides restart their timeouts.
    SnapshotProgress {
        /// The connection.
        link: LinkId,
    },
    /// A connection is closed. It produces no further events.
    LinkDown {
        /// The connection.
        link: LinkId,
    },
    /// Packets left the send queue of a connection.
    Sent {
        /// The connection.
        link: LinkId,
        /// The sum of their [`crate::packet_weight`]s.
        weight: usize,
    },
    /// A snapshot stream was sent completely.
    SnapshotSent {
        /// The connection.
        link: LinkId,
    },
    /// The disk finished an append or a command, and all earlier ones.
    Persisted {
        /// The id of the last finished one.
        io: IoId,
    },
    /// The log does not contain the target of a truncation. The log was not changed.
    TruncateRefused {
        /// The refused command.
        io: IoId,
    },
    /// The room on the own disk, as often as it was looked at.
    DiskRoom {
        /// The room.
        room: DiskRoom,
    },
    /// The result of a [`crate::PeerEffect::ReadLog`].
    LogRead {
        /// The connection of the learner.
        link: LinkId,
        /// The result.
        read: LogRead,
    },
}
