//! The actions of a peer. The caller starts them in their order. An action that depends on durable data is
//! emitted only after the disk has reported it.

use std::fmt;

use zebu_proto::quorum::{Notification, Packet};
use zebu_proto::{ServerId, SessionId, Zxid};

use crate::encoded_txn::EncodedTxn;
use crate::event::{IoId, LinkId};
use crate::membership::Configuration;
use crate::warning::PeerWarning;

/// The role in which a server serves clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServingRole {
    /// The server is the established leader.
    Leading {
        /// The epoch of this leader.
        epoch: u32,
    },
    /// The server is a follower that the leader has sent UPTODATE.
    Following {
        /// The leader of this follower.
        leader: ServerId,
        /// The epoch of the leader.
        epoch: u32,
    },
    /// The server is an observer that its master has sent UPTODATE.
    Observing {
        /// The leader of the ensemble.
        leader: ServerId,
        /// The epoch of the leader.
        epoch: u32,
    },
}

impl ServingRole {
    /// The epoch of the leader.
    pub fn epoch(self) -> u32 {
        let (ServingRole::Leading { epoch }
        | ServingRole::Following { epoch, .. }
        | ServingRole::Observing { epoch, .. }) = self;
        epoch
    }
}

/// The port on which a server accepts learners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnerPort {
    /// The quorum port, where the leader accepts followers and observers.
    Quorum,
    /// The observer master port, where a follower accepts observers.
    ObserverMaster,
}

/// The purpose of a read from the transaction log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPurpose {
    /// The start of a DIFF. The reader answers [`crate::LogRead::Unavailable`] if the log has a gap in the
    /// range or the range is too large. The learner then gets a SNAP.
    BeginDiff {
        /// The largest number of transactions that a DIFF takes from the log. The reader of the log limits
        /// the bytes, by the size of a snapshot.
        entries_max: u64,
    },
    /// The next part for a learner in replication. It continues where the last read for the connection
    /// ended.
    Continue,
}

/// An effect on the network between the servers. The runtime executes it unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerEffect {
    /// Send an election notification. A newer one to the same server replaces one that was not sent yet.
    Notify {
        /// The recipient.
        to: ServerId,
        /// The vote.
        notification: Notification,
    },
    /// Connect to a server.
    Dial {
        /// The id of the new connection.
        link: LinkId,
        /// The server.
        to: ServerId,
        /// The port of the server.
        port: LearnerPort,
    },
    /// Send a packet.
    Send {
        /// The connection.
        link: LinkId,
        /// The packet.
        packet: Packet,
    },
    /// Close a connection. It produces no further events.
    Close {
        /// The connection.
        link: LinkId,
        /// The reason, for the log.
        reason: LinkCloseReason,
    },
    /// Stop reading from a connection, because this learner holds enough packets for its disk. Packets that
    /// were read before are still delivered.
    PauseReading {
        /// The connection.
        link: LinkId,
    },
    /// Read from a connection again.
    ResumeReading {
        /// The connection.
        link: LinkId,
    },
    /// Stream a snapshot of the current state after the SNAP packet. The state may change meanwhile. If the
    /// connection closes, the stream ends without an error.
    StreamSnapshot {
        /// The connection.
        link: LinkId,
        /// The last transaction that the state must contain. It does so when the node emits the effect.
        zxid: Zxid,
    },
    /// Read transactions from the log. A [`crate::PeerEvent::LogRead`] answers.
    ReadLog {
        /// The connection of the learner that lacks the transactions.
        link: LinkId,
        /// The last transaction before the range.
        after: Zxid,
        /// The last transaction of the range.
        up_to: Zxid,
        /// The purpose of the read.
        purpose: LogPurpose,
    },
    /// Apply transactions to the snapshot that was received on a connection, to free their memory. The
    /// snapshot becomes this server's state only with [`DiskCommand::InstallSnapshot`].
    LoadReceived {
        /// The connection.
        link: LinkId,
        /// Transactions that followed the snapshot. The snapshot may already contain the first ones.
        entries: Vec<EncodedTxn>,
    },
    /// Discard the snapshot that was received on a connection.
    DiscardSnapshot {
        /// The connection.
        link: LinkId,
    },
}

/// A command for the disk other than an append. The disk executes appends and commands in the order of
/// submission. [`crate::PeerEvent::Persisted`] reports completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskCommand {
    /// Truncate the log after a transaction, and delete snapshots that contain later ones. If the state
    /// contains later ones too, reload it from the disk.
    Truncate {
        /// The id of the command.
        io: IoId,
        /// The last transaction that remains.
        to: Zxid,
    },
    /// Apply `tail` to the snapshot that was received on a connection, then make the result the only state,
    /// durable and in memory. It replaces log and snapshots. A crash leaves either the old history or the
    /// new one, complete.
    InstallSnapshot {
        /// The id of the command.
        io: IoId,
        /// The connection.
        link: LinkId,
        /// The transactions that followed the snapshot, up to `zxid`. The snapshot may already contain the
        /// first ones.
        tail: Vec<EncodedTxn>,
        /// The last transaction of the result.
        zxid: Zxid,
    },
    /// Move log and snapshots aside and start with an empty state. The accepted epoch stays. A marker on the
    /// disk keeps this server from voting after a restart.
    Quarantine {
        /// The id of the command.
        io: IoId,
    },
    /// Remove the marker that [`DiskCommand::Quarantine`] wrote.
    MarkTrusted {
        /// The id of the command.
        io: IoId,
    },
    /// Write `acceptedEpoch`.
    SaveAcceptedEpoch {
        /// The id of the command.
        io: IoId,
        /// The accepted epoch.
        epoch: u32,
    },
    /// Write `currentEpoch`.
    SaveCurrentEpoch {
        /// The id of the command.
        io: IoId,
        /// The current epoch.
        epoch: u32,
    },
}

/// An effect on the config outside the log: files, addresses, ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigEffect {
    /// A config was proposed. Persist it for a restart; the log contains it too.
    PersistProposed {
        /// The proposed config.
        configuration: Box<Configuration>,
    },
    /// A config was proposed on another server. Learn the addresses of its servers, because one of them may
    /// be elected.
    LearnAddresses {
        /// The proposed config.
        configuration: Box<Configuration>,
    },
    /// A config takes effect.
    Activate {
        /// The new config.
        configuration: Box<Configuration>,
    },
}

/// An action of a peer. The node passes the first four groups on and handles the others itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// An effect on the network.
    Peer(PeerEffect),
    /// A command for the disk.
    Disk(DiskCommand),
    /// An effect on the config.
    Config(ConfigEffect),
    /// Log a warning for the operator.
    Report(PeerWarning),
    /// Append to the transaction log and sync it.
    Append {
        /// The id of the append.
        io: IoId,
        /// The transaction.
        entry: EncodedTxn,
    },
    /// Apply a transaction that is committed and durable in the own log. Each transaction comes once, in
    /// zxid order.
    Deliver(EncodedTxn),
    /// Apply a durable transaction of a history that this learner has not accepted yet, to free its memory.
    /// A restart would apply it too. The server does not serve yet, and [`DiskCommand::Truncate`] may remove
    /// the transaction again.
    Load(EncodedTxn),
    /// Start to serve clients.
    Serve(ServingRole),
    /// Stop serving: close all client connections and drop their requests.
    StopServing,
    /// A packet of a learner that the node handles: a request, a session revalidation or touched sessions.
    FromLearner {
        /// The connection of the learner.
        link: LinkId,
        /// The learner.
        server: ServerId,
        /// The packet.
        packet: Packet,
    },
    /// The connection to a serving learner ended.
    LearnerLost {
        /// The connection of the learner.
        link: LinkId,
    },
    /// A packet of the leader that the node handles: a ping, a revalidation result or the end of a sync. It
    /// follows directly after the [`Action::Deliver`] of `after`.
    FromLeader {
        /// The packet.
        packet: Packet,
        /// The last transaction that the leader committed before it sent the packet.
        after: Zxid,
    },
}

/// The reason for closing a connection between servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkCloseReason {
    /// This server left its role.
    RoleEnded,
    /// This server resigned: it is stopping, or the epoch of this leader has no zxid left.
    Resigned,
    /// An activated config changes the role or the leader of this server.
    ConfigChanged,
    /// This leader has no quorum, or its disk is blocked.
    NoQuorum,
    /// A voter that this leader needs for a quorum started a later election or follows another leader.
    OtherLeader,
    /// The leader could not be reached within the connect limit.
    LeaderUnreachable,
    /// The connection to the leader was lost.
    ConnectionLost,
    /// A learner connected to a server that is not the leader.
    NotLeading,
    /// An observer connected to a server that is not an observer master.
    NotFollowing,
    /// The other server sent nothing within the limit.
    TimedOut,
    /// A learner has lacked a transaction for longer than syncLimit: its disk or its network is too slow.
    TooFarBehind {
        /// The learner.
        server: ServerId,
        /// The last transaction that it has acknowledged; for an observer, the last one that was sent to it.
        has: Zxid,
        /// The last transaction that it is expected to have.
        last: Zxid,
        /// Milliseconds for which it has lagged, at least.
        behind_ms: i64,
    },
    /// The own disk has not finished a write within syncLimit.
    SlowDisk {
        /// Milliseconds since the write was submitted.
        ms: i64,
    },
    /// The other server opened a newer connection.
    Replaced,
    /// The other server uses the id of this server.
    OwnId(ServerId),
    /// The other server is not in the config, and the limit of such learners is reached.
    TooManyUnlisted {
        /// The learner.
        server: ServerId,
        /// The largest number of learners that are not in the config.
        limit: usize,
    },
    /// The learner has a later history than this leader.
    AheadOfLeader {
        /// The last transaction of the learner.
        last: Zxid,
        /// The current epoch of the learner.
        current_epoch: i64,
    },
    /// The epoch of the leader is older than the accepted epoch of this server.
    OldEpoch {
        /// The epoch of the leader.
        proposed: u32,
        /// The accepted epoch of this server.
        accepted: i64,
    },
    /// A transaction does not follow the last one of the history.
    Gap {
        /// The last transaction of the history.
        after: Zxid,
        /// The transaction that was received.
        found: Zxid,
    },
    /// A TRUNC would remove a committed transaction.
    TruncatesCommitted {
        /// The target of the TRUNC.
        to: Zxid,
        /// The last committed transaction.
        committed: Zxid,
    },
    /// The log of this server does not contain the target of a TRUNC.
    CannotTruncate(Zxid),
    /// A packet that the protocol does not allow in the current step.
    UnexpectedPacket {
        /// The current step.
        step: &'static str,
        /// The name of the packet.
        packet: &'static str,
    },
    /// A packet names a transaction that the protocol does not allow here.
    UnknownZxid(Zxid),
    /// The learner lacks transactions that neither memory nor log can provide.
    NeedsSnapshot,
    /// A learner has reached a limit of the packets that this server keeps for it.
    RelayFull {
        /// The learner.
        server: ServerId,
        /// The limit.
        limit: usize,
        /// The kind of packets that are limited.
        what: &'static str,
    },
    /// An observer keeps sending requests of a session that another server of its master has.
    MovedSession {
        /// The observer.
        server: ServerId,
        /// The session.
        session: SessionId,
    },
    /// The learner has a newer config than this server.
    NewerConfig(i64),
}

impl fmt::Display for LinkCloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkCloseReason::RoleEnded => write!(f, "this server left its role"),
            LinkCloseReason::Resigned => {
                write!(f, "this server resigned: it is stopping, or its epoch has no zxid left")
            }
            LinkCloseReason::ConfigChanged => {
                write!(f, "the activated config changes the role or the leader of this server")
            }
            LinkCloseReason::NoQuorum => write!(f, "this leader has no quorum, or its disk is blocked"),
            LinkCloseReason::OtherLeader => {
                write!(f, "a voter that this leader needs started a later election or follows another leader")
            }
            LinkCloseReason::LeaderUnreachable => {
                write!(f, "the leader is not reachable; check the network and the leader's log")
            }
            LinkCloseReason::ConnectionLost => write!(f, "the connection to the leader was lost"),
            LinkCloseReason::NotLeading => write!(f, "this server is not the leader"),
            LinkCloseReason::NotFollowing => {
                write!(f, "this server is not a follower and serves no observers")
            }
            LinkCloseReason::TimedOut => {
                write!(f, "the other server sent nothing within the limit; check it and the network")
            }
            LinkCloseReason::TooFarBehind { server, has, last, behind_ms } => write!(
                f,
                "server {} has lagged for {behind_ms} ms, longer than syncLimit: it has {has} of {last}; \
                 it is synchronized when it reconnects; check its disk and the network",
                server.0
            ),
            LinkCloseReason::SlowDisk { ms } => write!(
                f,
                "the disk of this server has not finished a write for {ms} ms, longer than syncLimit; \
                 it follows again when the write is done; check the disk"
            ),
            LinkCloseReason::Replaced => write!(f, "the same server opened a newer connection"),
            LinkCloseReason::OwnId(server) => {
                write!(
                    f,
                    "the learner has the id of this server, {}; each server needs its own myid",
                    server.0
                )
            }
            LinkCloseReason::TooManyUnlisted { server, limit } => write!(
                f,
                "server {} is not in the config, and {limit} such servers are connected; add it to the config",
                server.0
            ),
            LinkCloseReason::AheadOfLeader { last, current_epoch } => {
                write!(f, "the learner has a later history (epoch {current_epoch}, {last}) than this leader")
            }
            LinkCloseReason::OldEpoch { proposed, accepted } => {
                write!(f, "epoch {proposed} of the leader is older than the accepted epoch {accepted}")
            }
            LinkCloseReason::Gap { after, found } => {
                write!(f, "transactions between {after} and {found} are missing")
            }
            LinkCloseReason::TruncatesCommitted { to, committed } => {
                write!(f, "a TRUNC to {to} would remove the committed transaction {committed}")
            }
            LinkCloseReason::CannotTruncate(to) => {
                write!(
                    f,
                    "the log does not contain {to}, the target of a TRUNC; this server reconnects for a SNAP"
                )
            }
            LinkCloseReason::UnexpectedPacket { step, packet } => {
                write!(f, "unexpected packet {packet} (step: {step})")
            }
            LinkCloseReason::UnknownZxid(zxid) => write!(f, "unexpected transaction {zxid}"),
            LinkCloseReason::NeedsSnapshot => {
                write!(f, "the log cannot bring the learner up to date; it gets a SNAP when it reconnects")
            }
            LinkCloseReason::RelayFull { server, limit, what } => {
                write!(f, "server {} exceeds a limit: {limit} {what}", server.0)
            }
            LinkCloseReason::MovedSession { server, session } => write!(
                f,
                "server {} keeps sending requests of session {:#x}, which has moved; its clients reconnect",
                server.0, session.0
            ),
            LinkCloseReason::NewerConfig(version) => {
                write!(f, "the learner has config version {version:#x}, newer than the one of this server")
            }
        }
    }
}
