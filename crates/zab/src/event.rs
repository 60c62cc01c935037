//! What happened to a member: messages, connections, the disk. Time comes beside it.

use zebu_proto::ServerId;
use zebu_proto::quorum::{Notification, Packet};

use crate::entry::Entry;

/// A connection between a leader and a learner, on either side. The edge numbers those that it accepts, the
/// peer those that it dials; a number is used once in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

impl LinkId {
    /// Links that are accepted have even numbers, dialled ones odd.
    pub const fn accepted(count: u64) -> LinkId {
        LinkId(count * 2)
    }

    /// Links that are accepted have even numbers, dialled ones odd.
    pub const fn dialed(count: u64) -> LinkId {
        LinkId(count * 2 + 1)
    }

    /// Whether the other side has connected.
    pub const fn is_accepted(self) -> bool {
        self.0.is_multiple_of(2)
    }
}

/// Work of the disk. Numbers grow, and the work is done in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// The place of a ping among those of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PingNumber(pub u64);

/// What was found when the log was asked for old transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRead {
    /// Without a hole, the first directly behind the transaction that was asked for. Not all that was asked
    /// for need be in it, but at least one is.
    Entries(Vec<Entry>),
    /// The log does not reach back so far, or not without a hole.
    Unavailable,
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message of the election.
    Notification {
        /// Who sent it.
        from: ServerId,
        /// What it says.
        notification: Notification,
    },
    /// The connection to the leader that was asked for is there.
    Dialed {
        /// Which.
        link: LinkId,
    },
    /// The connection to the leader that was asked for cannot be made.
    DialFailed {
        /// Which.
        link: LinkId,
    },
    /// A learner has connected.
    Accepted {
        /// Its connection.
        link: LinkId,
    },
    /// An observer has connected at the port where followers serve observers.
    ObserverAccepted {
        /// Its connection.
        link: LinkId,
    },
    /// A packet came.
    Packet {
        /// On which connection.
        link: LinkId,
        /// What.
        packet: Packet,
    },
    /// What follows a SNAP packet is here as a whole, and it is a state.
    SnapshotReceived {
        /// On which connection.
        link: LinkId,
    },
    /// A part of a whole state has come, or has left, and more follows. Whoever waits for it has no reason to lose
    /// patience.
    SnapshotMoves {
        /// On which connection.
        link: LinkId,
    },
    /// A connection is gone. Nothing comes from it any more.
    LinkDown {
        /// Which.
        link: LinkId,
    },
    /// Packets left for the network: there is room for more.
    Sent {
        /// On which connection.
        link: LinkId,
        /// The sum of their [`crate::weight`]s.
        weight: usize,
    },
    /// The state that was to be streamed is on its way as a whole.
    SnapshotSent {
        /// On which connection.
        link: LinkId,
    },
    /// The disk has done this work and everything before it.
    Persisted {
        /// The last.
        io: IoId,
    },
    /// The log has no transaction to truncate to. Nothing was changed.
    TruncateRefused {
        /// The work that was refused.
        io: IoId,
    },
    /// The answer to [`crate::Action::ReadLog`].
    LogRead {
        /// For which connection.
        link: LinkId,
        /// What was found.
        read: LogRead,
    },
}
