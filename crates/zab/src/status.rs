//! What a member and its learners are doing, for reports. It holds no state of its own.

use zebu_proto::quorum::PeerState;
use zebu_proto::{ServerId, Zxid};

use crate::event::LinkId;

/// What a member is doing, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it tells others in elections.
    pub state: PeerState,
    /// Whom it follows; itself if it leads.
    pub leader: Option<ServerId>,
    /// The epoch that it has promised.
    pub accepted_epoch: i64,
    /// The epoch whose history it has accepted.
    pub current_epoch: i64,
    /// The last transaction of its log.
    pub logged: Zxid,
    /// The last transaction of its log that is durable.
    pub durable: Zxid,
    /// Bytes of transactions in memory, for learners or not delivered yet.
    pub history_bytes: usize,
    /// The last transaction that is known to be committed.
    pub committed: Zxid,
    /// Whom it learns from: its leader, or a follower that serves observers.
    pub master: Option<ServerId>,
    /// Who learns from it: if it leads, its learners; if it follows, the observers that it serves.
    pub learners: Vec<LearnerStatus>,
}

/// A learner, as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnerStatus {
    /// Its connection.
    pub link: LinkId,
    /// Who it is.
    pub server: ServerId,
    /// Whether it has all that it needs to serve.
    pub synced: bool,
    /// The last transaction that it has acknowledged.
    pub acked: Zxid,
}
