//! Synchronization of one learner: the choice between DIFF, TRUNC and SNAP, and UPTODATE at the end.

use std::collections::VecDeque;

use zebu_proto::quorum::Packet;

use super::handler::{
    HandlerStep, LearnerHandler, LearnerIdentity, LearnerPosition, LogFetch, ReplicationProgress, SyncPhase,
};
use super::replication::ReplicationView;
use super::sync_strategy::{SyncStrategy, choose_sync};
use crate::action::{Action, LinkCloseReason, LogPurpose, PeerEffect};
use crate::event::LogRead;

impl LearnerHandler {
    /// Starts the synchronization of a learner that has acked the epoch.
    pub(crate) fn synchronize(&mut self, view: &ReplicationView<'_>, out: &mut Vec<Action>) {
        let HandlerStep::EpochAcked(identity, position) = self.step else { return };
        if view.has_oversize_after(position.last) {
            return self.send_snapshot(identity, view, out);
        }
        match choose_sync(view.history, view.committable, position.last) {
            SyncStrategy::Diff { after } => {
                self.send(Packet::Diff { zxid: view.committable }, out);
                let progress = ReplicationProgress::new(after, view.committable);
                self.start_replication(identity, progress, view, out);
            }
            SyncStrategy::Truncate { to } => {
                self.send(Packet::Trunc { zxid: to }, out);
                let progress = ReplicationProgress::new(to, view.committable);
                self.start_replication(identity, progress, view, out);
            }
            SyncStrategy::DiffFromLog { after, entries_max } => {
                self.step = HandlerStep::CheckingLog(identity, LearnerPosition { last: after });
                let (up_to, purpose) = (view.history.floor(), LogPurpose::BeginDiff { entries_max });
                out.push(Action::Peer(PeerEffect::ReadLog { link: self.link, after, up_to, purpose }));
            }
            SyncStrategy::Snapshot => self.send_snapshot(identity, view, out),
        }
    }

    fn send_snapshot(
        &mut self,
        identity: LearnerIdentity,
        view: &ReplicationView<'_>,
        out: &mut Vec<Action>,
    ) {
        let zxid = view.delivered;
        self.step = HandlerStep::SendingSnapshot(identity, zxid);
        self.send(Packet::Snap { zxid }, out);
        out.push(Action::Peer(PeerEffect::StreamSnapshot { link: self.link, zxid }));
    }

    /// The snapshot was sent. Transactions that were committed since its start follow before NEWLEADER.
    pub(crate) fn snapshot_sent(&mut self, view: &ReplicationView<'_>, out: &mut Vec<Action>) {
        if let HandlerStep::SendingSnapshot(identity, zxid) = self.step {
            let progress = ReplicationProgress::new(zxid, view.committable);
            self.start_replication(identity, progress, view, out);
        }
    }

    /// A read from the log has finished.
    pub(crate) fn log_read(
        &mut self,
        read: LogRead,
        view: &ReplicationView<'_>,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkCloseReason> {
        match (&mut self.step, read) {
            (HandlerStep::CheckingLog(identity, position), LogRead::Entries(_))
                if view.has_oversize_after(position.last) =>
            {
                let identity = *identity;
                self.send_snapshot(identity, view, out);
            }
            (HandlerStep::Replicating(_, progress), LogRead::Entries(_))
                if view.has_oversize_after(progress.proposed) =>
            {
                return Err(LinkCloseReason::NeedsSnapshot);
            }
            (HandlerStep::CheckingLog(identity, position), LogRead::Entries(entries)) => {
                let (identity, after) = (*identity, position.last);
                self.send(Packet::Diff { zxid: view.committable }, out);
                let progress = ReplicationProgress {
                    log_fetch: LogFetch::Ready(VecDeque::from(entries)),
                    ..ReplicationProgress::new(after, view.committable)
                };
                self.start_replication(identity, progress, view, out);
            }
            (HandlerStep::CheckingLog(identity, _), LogRead::Unavailable) => {
                let identity = *identity;
                self.send_snapshot(identity, view, out);
            }
            (HandlerStep::Replicating(_, progress), LogRead::Entries(entries)) => {
                progress.log_fetch = LogFetch::Ready(VecDeque::from(entries));
                self.send_pending(view, out);
            }
            (HandlerStep::Replicating(..), LogRead::Unavailable) => {
                return Err(LinkCloseReason::NeedsSnapshot);
            }
            // The learner is in another step since the read was requested.
            (
                HandlerStep::Unidentified
                | HandlerStep::AwaitingEpoch(_)
                | HandlerStep::EpochProposed(_)
                | HandlerStep::EpochAcked(..)
                | HandlerStep::SendingSnapshot(..),
                LogRead::Entries(_) | LogRead::Unavailable,
            ) => {}
        }
        Ok(())
    }

    fn start_replication(
        &mut self,
        identity: LearnerIdentity,
        progress: ReplicationProgress,
        view: &ReplicationView<'_>,
        out: &mut Vec<Action>,
    ) {
        self.step = HandlerStep::Replicating(identity, progress);
        self.send_pending(view, out);
    }

    /// Sends UPTODATE to a learner that has acked NEWLEADER.
    pub(crate) fn send_up_to_date(&mut self, view: &ReplicationView<'_>, out: &mut Vec<Action>) {
        if let HandlerStep::Replicating(_, progress) = &mut self.step
            && progress.phase == SyncPhase::NewLeaderAcked
        {
            progress.phase = SyncPhase::UpToDate;
            self.send(Packet::UpToDate, out);
            self.send_pending(view, out);
        }
    }
}
