//! Synchronization of one learner: the choice between DIFF, TRUNC and SNAP, and UPTODATE at the end.

use std::collections::VecDeque;

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;

use super::handler::{
    HandlerStep, LearnerHandler, LearnerIdentity, LearnerPosition, LogFetch, ReplicationProgress, SyncPhase,
};
use super::replication::ReplicationView;
use super::sync_strategy::{SyncStrategy, choose_sync};
use crate::action::{Action, LinkCloseReason, LogPurpose, PeerEffect};
use crate::event::{LinkId, LogRead};

impl LearnerHandler {
    /// Starts the synchronization of a learner that has acked the epoch.
    pub(crate) fn synchronize(&mut self, link: LinkId, view: &ReplicationView<'_>, out: &mut Vec<Action>) {
        let HandlerStep::EpochAcked(identity, position) = self.step else { return };
        if view.has_oversize_after(position.last) {
            return self.send_snapshot(link, identity, view, out);
        }
        match choose_sync(view.history, view.committable, position.last) {
            SyncStrategy::Diff { after } => {
                self.send(link, Packet::Diff { zxid: view.committable }, out);
                self.start_replication(link, identity, after, LogFetch::Idle, view, out);
            }
            SyncStrategy::Truncate { to } => {
                self.send(link, Packet::Trunc { zxid: to }, out);
                self.start_replication(link, identity, to, LogFetch::Idle, view, out);
            }
            SyncStrategy::DiffFromLog { after, entries_max } => {
                self.step = HandlerStep::CheckingLog(identity, LearnerPosition { last: after });
                let (up_to, purpose) = (view.history.floor(), LogPurpose::BeginDiff { entries_max });
                out.push(Action::Peer(PeerEffect::ReadLog { link, after, up_to, purpose }));
            }
            SyncStrategy::Snapshot => self.send_snapshot(link, identity, view, out),
        }
    }

    fn send_snapshot(
        &mut self,
        link: LinkId,
        identity: LearnerIdentity,
        view: &ReplicationView<'_>,
        out: &mut Vec<Action>,
    ) {
        let zxid = view.delivered;
        self.step = HandlerStep::SendingSnapshot(identity, zxid);
        self.send(link, Packet::Snap { zxid }, out);
        out.push(Action::Peer(PeerEffect::StreamSnapshot { link, zxid }));
    }

    /// The snapshot was sent. Transactions that were committed since its start follow before NEWLEADER.
    pub(crate) fn snapshot_sent(&mut self, link: LinkId, view: &ReplicationView<'_>, out: &mut Vec<Action>) {
        if let HandlerStep::SendingSnapshot(identity, zxid) = self.step {
            self.start_replication(link, identity, zxid, LogFetch::Idle, view, out);
        }
    }

    /// A read from the log has finished.
    pub(crate) fn log_read(
        &mut self,
        link: LinkId,
        read: LogRead,
        view: &ReplicationView<'_>,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkCloseReason> {
        match (&mut self.step, read) {
            (HandlerStep::CheckingLog(identity, position), LogRead::Entries(_))
                if view.has_oversize_after(position.last) =>
            {
                let identity = *identity;
                self.send_snapshot(link, identity, view, out);
            }
            (HandlerStep::Replicating(_, progress), LogRead::Entries(_))
                if view.has_oversize_after(progress.proposed) =>
            {
                return Err(LinkCloseReason::NeedsSnapshot);
            }
            (HandlerStep::CheckingLog(identity, position), LogRead::Entries(entries)) => {
                let (identity, after) = (*identity, position.last);
                self.send(link, Packet::Diff { zxid: view.committable }, out);
                self.start_replication(
                    link,
                    identity,
                    after,
                    LogFetch::Ready(VecDeque::from(entries)),
                    view,
                    out,
                );
            }
            (HandlerStep::CheckingLog(identity, _), LogRead::Unavailable) => {
                let identity = *identity;
                self.send_snapshot(link, identity, view, out);
            }
            (HandlerStep::Replicating(_, progress), LogRead::Entries(entries)) => {
                progress.log_fetch = LogFetch::Ready(VecDeque::from(entries));
                self.send_pending(link, view, out);
            }
            (HandlerStep::Replicating(..), LogRead::Unavailable) => {
                return Err(LinkCloseReason::NeedsSnapshot);
            }
            _ => {}
        }
        Ok(())
    }

    fn start_replication(
        &mut self,
        link: LinkId,
        identity: LearnerIdentity,
        after: Zxid,
        log_fetch: LogFetch,
        view: &ReplicationView<'_>,
        out: &mut Vec<Action>,
    ) {
        self.step = HandlerStep::Replicating(
            identity,
            ReplicationProgress { log_fetch, ..ReplicationProgress::new(after, view.committable) },
        );
        self.send_pending(link, view, out);
    }

    /// Sends UPTODATE to a learner that has acked NEWLEADER.
    pub(crate) fn send_up_to_date(
        &mut self,
        link: LinkId,
        view: &ReplicationView<'_>,
        out: &mut Vec<Action>,
    ) {
        if let HandlerStep::Replicating(_, progress) = &mut self.step
            && progress.phase == SyncPhase::NewLeaderAcked
        {
            progress.phase = SyncPhase::UpToDate;
            self.send(link, Packet::UpToDate, out);
            self.send_pending(link, view, out);
        }
    }
}
