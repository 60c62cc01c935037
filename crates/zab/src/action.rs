//! What a member wants done. The order of actions is the order in which they are to be begun; whatever has
//! to wait for the disk is not handed out before the disk has reported.

use std::fmt;

use zebu_proto::quorum::{Notification, Packet};
use zebu_proto::{ServerId, Zxid};

use crate::entry::Entry;
use crate::event::{IoId, LinkId};
use crate::finding::Finding;
use crate::membership::Configuration;

/// What a member that takes part does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// It leads.
    Leading {
        /// In this epoch.
        epoch: u32,
    },
    /// It follows.
    Following {
        /// Whom.
        leader: ServerId,
        /// In this epoch.
        epoch: u32,
    },
    /// It observes.
    Observing {
        /// Whom.
        leader: ServerId,
        /// In this epoch.
        epoch: u32,
    },
}

/// A port of a server where learners are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The quorum port, where the leader serves everybody.
    Quorum,
    /// Where followers serve observers.
    ObserverMaster,
}

/// What old transactions are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPurpose {
    /// The beginning of a DIFF. The answer is [`crate::LogRead::Unavailable`], and the learner gets a SNAP, unless the
    /// log holds everything that is wanted without a hole, and it is little enough.
    BeginDiff {
        /// A DIFF has at most so many transactions from the log. How many bytes is for the reader of the log to
        /// decide, by the size of a snapshot.
        entries_max: u64,
    },
    /// More for a learner that is being fed. It goes on where the last read for the connection ended.
    Continue,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
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
    /// Tell the operator.
    Report(Finding),
    /// Send the whole state, as it is now, behind the SNAP packet that was just sent.
    StreamSnapshot {
        /// On which connection.
        link: LinkId,
        /// The last transaction of the state.
        zxid: Zxid,
    },
    /// Read old transactions from the log; a [`crate::Event::LogRead`] answers.
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
    /// Append to the log and sync.
    Append {
        /// The work.
        io: IoId,
        /// What.
        entry: Entry,
    },
    /// Cut the log behind a transaction, and drop snapshots that hold more. If the state holds more too, load
    /// it again from the disk.
    Truncate {
        /// The work.
        io: IoId,
        /// The last transaction that stays.
        to: Zxid,
    },
    /// Apply transactions to the state that came on a connection, then make it the only one: durable, in place
    /// of log and snapshots, and in memory. A crash leaves all of the old history or all of this.
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
    /// What came on a connection behind a SNAP is not needed any more.
    DiscardSnapshot {
        /// The connection.
        link: LinkId,
    },
    /// Move log and snapshots out of the way and begin with an empty state. The accepted epoch stays. Leave a
    /// mark, so that a restart knows that this server may not vote.
    SetAside {
        /// The work.
        io: IoId,
    },
    /// Remove the mark that [`Action::SetAside`] has left.
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
    /// A configuration was proposed. Keep it for a restart; the log has it too.
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
    /// A transaction is committed and in the own log: apply it. They come in order, each once.
    Deliver(Entry),
    /// A transaction is in the own log and part of the history that the leader gives, which is not accepted yet: apply
    /// it now, so that it need not stay in memory. A server that restarted here would have it in its state too. It
    /// does not serve, and [`Action::Truncate`] may take the transaction back.
    Load(Entry),
    /// Begin to serve clients.
    Serve(Serving),
    /// Close all clients and forget what was asked. Comes when serving ends.
    StopServing,
    /// A learner said something that is not agreement's business: a request, a question about a session,
    /// sessions that were touched.
    FromLearner {
        /// On which connection.
        link: LinkId,
        /// Who it is.
        server: ServerId,
        /// What.
        packet: Packet,
    },
    /// A learner is gone.
    LearnerLost {
        /// Its connection.
        link: LinkId,
    },
    /// The leader said something that is not agreement's business: a ping, an answer about a session, the end
    /// of a sync. It stands directly behind the [`Action::Deliver`] of `after`.
    FromLeader {
        /// What.
        packet: Packet,
        /// The last transaction that the leader committed before it.
        after: Zxid,
    },
}

/// Why a connection was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// This server's role has ended.
    RoleEnded,
    /// Nobody leads here.
    NotLeading,
    /// This server does not serve observers now.
    NotFollowing,
    /// The other side is silent.
    Silent,
    /// A learner lacks what it should have had for long: its disk or the way to it is too slow.
    TooFarBehind {
        /// The learner.
        server: ServerId,
        /// The last transaction that it has acknowledged; if it is an observer, that it was sent.
        has: Zxid,
        /// The last transaction that it should have sooner or later.
        last: Zxid,
        /// For how long at least it has lacked something.
        behind_ms: i64,
    },
    /// The own disk has not finished a write of the log for too long.
    SlowDisk {
        /// For how long.
        ms: i64,
    },
    /// The other side has a newer connection.
    Replaced,
    /// The other side says that it is this server.
    OwnId(ServerId),
    /// The other side is not in the configuration, and as many as may learn from one server do already.
    TooManyUnlisted {
        /// Who it is.
        server: ServerId,
        /// How many may be there.
        limit: usize,
    },
    /// The other side knows a later history than this leader.
    AheadOfLeader {
        /// Its last transaction.
        last: Zxid,
        /// Its epoch.
        current_epoch: i64,
    },
    /// The leader's epoch is older than one that was promised.
    OldEpoch {
        /// The leader's.
        proposed: u32,
        /// The promised one.
        accepted: i64,
    },
    /// Transactions are missing.
    Gap {
        /// The last that is here.
        after: Zxid,
        /// The one that came.
        found: Zxid,
    },
    /// A committed transaction would be cut off.
    TruncatesCommitted {
        /// The last that would stay.
        to: Zxid,
        /// The last that is committed.
        committed: Zxid,
    },
    /// The history here cannot be cut at this transaction.
    CannotTruncate(Zxid),
    /// A packet that has no place here.
    OutOfPlace {
        /// What is going on.
        step: &'static str,
        /// What came.
        packet: &'static str,
    },
    /// Something about a transaction that was never sent.
    UnknownZxid(Zxid),
    /// It has fallen behind what memory and log still hold.
    HistoryGone,
    /// What came cannot be a configuration that this server may follow.
    NewerConfig(i64),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::RoleEnded => write!(f, "this server has changed its role"),
            CloseReason::NotLeading => write!(f, "this server does not lead"),
            CloseReason::NotFollowing => write!(f, "this server serves no observers: it follows nobody"),
            CloseReason::Silent => write!(f, "nothing was heard for too long"),
            CloseReason::TooFarBehind { server, has, last, behind_ms } => write!(
                f,
                "server {} has {has} of {last}, and lacks something for {behind_ms} ms, longer than syncLimit allows; \
                 it is synchronized again when it comes back. Look at its disk and the network",
                server.0
            ),
            CloseReason::SlowDisk { ms } => write!(
                f,
                "the own disk has not finished a write of the transaction log for {ms} ms, longer than syncLimit \
                 allows; this server follows again when it has. Look at the disk"
            ),
            CloseReason::Replaced => write!(f, "the same server has connected again"),
            CloseReason::OwnId(server) => {
                write!(f, "it has the id of this server, {}; each server needs its own in myid", server.0)
            }
            CloseReason::TooManyUnlisted { server, limit } => {
                write!(
                    f,
                    "server {} is not in the configuration, and {limit} such servers are served already",
                    server.0
                )
            }
            CloseReason::AheadOfLeader { last, current_epoch } => {
                write!(f, "it has a later history (epoch {current_epoch}, {last}) than this leader")
            }
            CloseReason::OldEpoch { proposed, accepted } => {
                write!(f, "epoch {proposed} is older than {accepted}, which was promised before")
            }
            CloseReason::Gap { after, found } => {
                write!(f, "transactions between {after} and {found} are missing")
            }
            CloseReason::TruncatesCommitted { to, committed } => {
                write!(f, "it would truncate to {to}, but {committed} is committed")
            }
            CloseReason::CannotTruncate(to) => {
                write!(f, "the history here cannot be truncated to {to}; it comes again for a whole state")
            }
            CloseReason::OutOfPlace { step, packet } => write!(f, "{packet} came during {step}"),
            CloseReason::UnknownZxid(zxid) => write!(f, "transaction {zxid} was never sent to it"),
            CloseReason::HistoryGone => {
                write!(f, "it is so far behind that only a whole state helps; it gets one when it comes back")
            }
            CloseReason::NewerConfig(version) => {
                write!(f, "it has configuration {version:#x}, which this leader does not know")
            }
        }
    }
}
