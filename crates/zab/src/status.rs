//! Status reports about a peer and its learners. The types hold no protocol state.

use zebu_proto::quorum::{DiskRoom, PeerAnnouncement, ServerState};
use zebu_proto::{ServerId, Zxid};

use crate::disk_health::DiskStatus;
use crate::event::LinkId;

/// The status of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The state in election notifications.
    pub state: ServerState,
    /// The leader; this server itself if it leads.
    pub leader: Option<ServerId>,
    /// The accepted epoch.
    pub accepted_epoch: i64,
    /// The current epoch.
    pub current_epoch: i64,
    /// The last transaction of the log.
    pub logged: Zxid,
    /// The last durable transaction of the log.
    pub durable: Zxid,
    /// The bytes of the transactions in memory.
    pub history_bytes: usize,
    /// The bytes of the transactions that were received after a snapshot and wait for its installation.
    pub collected_bytes: usize,
    /// The weight of the packets that a learner holds while its disk changes the history.
    pub blocked_weight: usize,
    /// The last transaction that is known to be committed.
    pub committed: Zxid,
    /// The server that this learner is connected to: the leader or an observer master.
    pub master: Option<ServerId>,
    /// The own disk.
    pub disk: DiskStatus,
    /// The learners of a leader, or the observers of an observer master.
    pub learners: Vec<LearnerStatus>,
}

/// The status of a learner, as seen by its learner handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnerStatus {
    /// The connection of the learner.
    pub link: LinkId,
    /// The id of the learner.
    pub server: ServerId,
    /// Whether the learner was sent UPTODATE.
    pub synced: bool,
    /// The last transaction that the learner has acknowledged.
    pub acked: Zxid,
    /// What a Zebu server has told about itself; `None` for another server.
    pub zebu: Option<PeerAnnouncement>,
    /// The room on its disk. A server that tells nothing counts as having enough.
    pub room: DiskRoom,
    /// The 99th percentile of its ACK latency over ten seconds, in milliseconds; `None` without an ACK.
    pub ack_p99_ms: Option<i64>,
    /// Whether its disk or network is much slower than the others'.
    pub slow: bool,
}
