//! The own disk of a peer: its room, the latency of its appends, and the hand-overs of this server. A server
//! with a bad disk lets another one lead, and so does a server whose operator asks for it.

use zebu_proto::quorum::DiskRoom;

use crate::election::Candidacy;
use crate::latency::LatencyProbe;

/// The pause between two hand-overs because of a full disk, in milliseconds. The election may choose this
/// server again, if no other has its history.
const FULL_PAUSE_MS: i64 = 10_000;

/// The pause between two hand-overs because of a slow disk, in milliseconds.
const SLOW_PAUSE_MS: i64 = 600_000;

/// How long a server yields in elections after an operator asked it to hand over, in milliseconds. Longer
/// than an election takes.
const ASKED_PAUSE_MS: i64 = 30_000;

/// The reason of a hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOverReason {
    /// The own disk has less room than `disk.stop`.
    FullDisk,
    /// The own disk is much slower than those of the followers.
    SlowDisk,
    /// An operator asked for it.
    Asked,
}

/// Why a server does not hand over its leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOverRefusal {
    /// It does not lead.
    NotLeader,
    /// It begins to lead, or another hand-over runs.
    NotReady,
    /// No other voter is synchronized and has room on its disk.
    NoSuccessor,
}

impl HandOverReason {
    /// The word for logs.
    pub const fn word(self) -> &'static str {
        match self {
            HandOverReason::FullDisk => "full disk",
            HandOverReason::SlowDisk => "slow disk",
            HandOverReason::Asked => "asked by an operator",
        }
    }
}

/// The own disk, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStatus {
    /// The room.
    pub room: DiskRoom,
    /// The 99th percentile of the appends over ten seconds, in milliseconds; `None` without an append.
    pub append_p99_ms: Option<i64>,
    /// Hand-overs because of a full disk.
    pub full_hand_overs: u64,
    /// Hand-overs because of a slow disk.
    pub slow_hand_overs: u64,
}

/// The hand-overs for one reason.
#[derive(Clone, Copy, Debug, Default)]
struct HandOvers {
    count: u64,
    last_ms: Option<i64>,
}

impl HandOvers {
    fn is_recent(&self, pause_ms: i64, now_ms: i64) -> bool {
        self.last_ms.is_some_and(|last_ms| now_ms < last_ms + pause_ms)
    }
}

/// The state of the own disk.
#[derive(Debug, Default)]
pub(crate) struct DiskHealth {
    pub(crate) room: DiskRoom,
    /// From the submission of an append to its end.
    pub(crate) appends: LatencyProbe,
    full: HandOvers,
    slow: HandOvers,
    asked: HandOvers,
}

impl DiskHealth {
    /// Whether this server should lead. After a hand-over because of a slow disk it should not for a while:
    /// a disk without load looks fast. After a request of an operator another server must win the election.
    pub(crate) fn candidacy(&self, now_ms: i64) -> Candidacy {
        if self.room == DiskRoom::Full
            || self.slow.is_recent(SLOW_PAUSE_MS, now_ms)
            || self.asked.is_recent(ASKED_PAUSE_MS, now_ms)
        {
            Candidacy::Yields
        } else {
            Candidacy::Normal
        }
    }

    /// Whether a hand-over for this reason is allowed now.
    pub(crate) fn may_hand_over(&self, reason: HandOverReason, now_ms: i64) -> bool {
        match reason {
            HandOverReason::FullDisk => !self.full.is_recent(FULL_PAUSE_MS, now_ms),
            HandOverReason::SlowDisk => !self.slow.is_recent(SLOW_PAUSE_MS, now_ms),
            HandOverReason::Asked => true,
        }
    }

    pub(crate) fn record_hand_over(&mut self, reason: HandOverReason, now_ms: i64) {
        let hand_overs = match reason {
            HandOverReason::FullDisk => &mut self.full,
            HandOverReason::SlowDisk => &mut self.slow,
            HandOverReason::Asked => &mut self.asked,
        };
        *hand_overs = HandOvers { count: hand_overs.count + 1, last_ms: Some(now_ms) };
    }

    pub(crate) fn status(&self) -> DiskStatus {
        DiskStatus {
            room: self.room,
            append_p99_ms: self.appends.p99_ms(),
            full_hand_overs: self.full.count,
            slow_hand_overs: self.slow.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_a_bad_disk_yields() {
        let mut health = DiskHealth::default();
        assert_eq!(health.candidacy(0), Candidacy::Normal);
        health.room = DiskRoom::Low;
        assert_eq!(health.candidacy(0), Candidacy::Normal);
        health.room = DiskRoom::Full;
        assert_eq!(health.candidacy(0), Candidacy::Yields);
        health.room = DiskRoom::Enough;
        health.record_hand_over(HandOverReason::SlowDisk, 5);
        assert_eq!(health.candidacy(SLOW_PAUSE_MS + 4), Candidacy::Yields);
        assert_eq!(health.candidacy(SLOW_PAUSE_MS + 5), Candidacy::Normal);
    }

    #[test]
    fn each_reason_has_its_pause() {
        let mut health = DiskHealth::default();
        health.record_hand_over(HandOverReason::FullDisk, 0);
        assert!(!health.may_hand_over(HandOverReason::FullDisk, FULL_PAUSE_MS - 1));
        assert!(health.may_hand_over(HandOverReason::FullDisk, FULL_PAUSE_MS));
        assert!(health.may_hand_over(HandOverReason::SlowDisk, 0));
        health.record_hand_over(HandOverReason::SlowDisk, 0);
        assert!(!health.may_hand_over(HandOverReason::SlowDisk, SLOW_PAUSE_MS - 1));
        let DiskStatus { full_hand_overs, slow_hand_overs, .. } = health.status();
        assert_eq!((full_hand_overs, slow_hand_overs), (1, 1));
    }

    #[test]
    fn a_server_yields_for_a_while_after_an_operator_asked() {
        let mut health = DiskHealth::default();
        health.record_hand_over(HandOverReason::Asked, 7);
        assert_eq!(health.candidacy(7 + ASKED_PAUSE_MS - 1), Candidacy::Yields);
        assert_eq!(health.candidacy(7 + ASKED_PAUSE_MS), Candidacy::Normal);
        assert!(health.may_hand_over(HandOverReason::Asked, 8));
        assert_eq!(health.status(), DiskStatus::default());
    }
}
