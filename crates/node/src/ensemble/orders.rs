//! What a member wants of whoever runs it: links, the network, the disk. Nothing is done here; the order of
//! orders is the order in which they are to be begun.

use zebu_proto::quorum::{Notification, Packet};
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{CloseReason, Configuration, Door, Entry, Finding, IoId, LinkId, LogPurpose, Serving};

use crate::core::LogBatch;

/// Something to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Order {
    /// Send a message of the election. A newer one to the same server replaces one that has not left yet.
    Notify {
        /// To whom.
        to: ServerId,
        /// What.
        notification: Notification,
    },
    /// Connect to a server.
    Dial {
        /// The number of the connection.
        link: LinkId,
        /// To whom.
        to: ServerId,
        /// At which of its ports.
        door: Door,
    },
    /// Send a packet.
    Send {
        /// On which connection.
        link: LinkId,
        /// What.
        packet: Packet,
    },
    /// Close a connection. No event comes from it any more.
    Close {
        /// Which.
        link: LinkId,
        /// Why.
        reason: CloseReason,
    },
    /// Send the whole state, as it is now or later, behind the SNAP packet that was sent before. A link that is
    /// closed meanwhile needs nothing.
    StreamSnapshot {
        /// On which connection.
        link: LinkId,
        /// The last transaction that the state must hold; it does when this is handed out.
        zxid: Zxid,
    },
    /// Read old transactions from the log; a [`zebu_zab::Event::LogRead`] answers.
    ReadLog {
        /// For which connection.
        link: LinkId,
        /// The ones behind this.
        after: Zxid,
        /// The last one that is wanted.
        up_to: Zxid,
        /// What it is read for.
        purpose: LogPurpose,
    },
    /// What came on a connection behind a SNAP is not needed any more.
    DiscardSnapshot {
        /// The connection.
        link: LinkId,
    },
    /// Work for the disk.
    Disk(DiskOrder),
    /// A configuration was proposed: keep it for a restart.
    Remember {
        /// Which.
        configuration: Box<Configuration>,
    },
    /// A configuration was proposed elsewhere: where its members are, should one of them be elected. Nothing else
    /// about it counts here.
    Locate {
        /// Which.
        configuration: Box<Configuration>,
    },
    /// A configuration takes effect: from now on these are the members.
    Activate {
        /// Which.
        configuration: Box<Configuration>,
    },
    /// Tell the operator.
    Report(Finding),
    /// Clients may come.
    Serve(Serving),
    /// Clients may come that are content with reads.
    ServeReadOnly,
    /// Clients are closed, and none may come.
    StopServing,
}

/// Work for the disk, done in the order in which it comes. [`zebu_zab::Event::Persisted`] tells that it is done.
#[derive(Debug, PartialEq, Eq)]
pub enum DiskOrder {
    /// Append to the log and sync.
    Append {
        /// The work, and all appends before it that are in the same batch.
        io: IoId,
        /// What.
        batch: LogBatch,
    },
    /// Cut the log behind a transaction, and drop snapshots that hold more. If the state holds more too, load it
    /// again from the disk.
    Truncate {
        /// The work.
        io: IoId,
        /// The last transaction that stays.
        to: Zxid,
    },
    /// Apply `tail` to the state that came on a connection, then make it the only one: durable, in place of log
    /// and snapshots, and in memory.
    InstallSnapshot {
        /// The work.
        io: IoId,
        /// The connection.
        link: LinkId,
        /// What came behind the state, up to `zxid`. The first ones may be in it already.
        tail: Vec<Entry>,
        /// The last transaction of the result.
        zxid: Zxid,
    },
    /// Move log and snapshots out of the way and begin with an empty state. Leave a mark, so that a restart knows
    /// that this server may not vote.
    SetAside {
        /// The work.
        io: IoId,
    },
    /// Remove that mark.
    MarkTrusted {
        /// The work.
        io: IoId,
    },
    /// Write the accepted epoch.
    SaveAcceptedEpoch {
        /// The work.
        io: IoId,
        /// The epoch.
        epoch: u32,
    },
    /// Write the current epoch.
    SaveCurrentEpoch {
        /// The work.
        io: IoId,
        /// The epoch.
        epoch: u32,
    },
}
