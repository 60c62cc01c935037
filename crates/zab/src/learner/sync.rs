//! Synchronization at a learner: by DIFF, TRUNC or SNAP. A snapshot reaches the disk only after NEWLEADER;
//! an interrupted transfer leaves no trace.

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;

use super::{Learner, LearnerProgress, LearnerStep, ReceivingDiff, SnapshotTail};
use crate::action::{Action, DiskCommand, LinkCloseReason, PeerEffect};
use crate::encoded_txn::EncodedTxn;
use crate::event::IoId;
use crate::history::is_next_zxid;
use crate::peer_context::PeerContext;
use crate::settings::DiskTrust;
use crate::step_down::StepDown;
use crate::sync_need::SyncNeed;
use crate::zab_state::ZabState;

impl Learner {
    /// Handles the first packet of a synchronization, which names its kind.
    pub(super) fn begin_sync(
        &mut self,
        packet: Packet,
        context: &mut PeerContext<'_>,
    ) -> Result<(), StepDown> {
        let LearnerStep::AwaitingSync { epoch } = self.step else {
            return Err(self.unexpected_packet(&packet));
        };
        check_epoch(epoch, &packet)?;
        match packet {
            // The leader cannot handle a learner that needs a snapshot. Without a history the learner gets
            // one.
            Packet::Diff { .. } | Packet::Trunc { .. } if context.state.sync_need != SyncNeed::Diff => {
                let io = context.state.disk.submit(context.now_ms);
                context.out.push(Action::Disk(DiskCommand::Quarantine { io }));
                self.step = LearnerStep::Quarantining { io };
            }
            // The zxid of a DIFF is the leader's last one. It does not change the own history.
            Packet::Diff { .. } => {
                self.step = LearnerStep::ReceivingDiff(ReceivingDiff {
                    epoch,
                    committed: context.state.history.last(),
                });
            }
            Packet::Trunc { zxid } => {
                if zxid < context.state.committed() {
                    let committed = context.state.committed();
                    return Err(StepDown::for_reason(LinkCloseReason::TruncatesCommitted {
                        to: zxid,
                        committed,
                    }));
                }
                if context.state.is_ahead_of_disk() {
                    // There is no context.state between disk and memory to truncate to.
                    context.state.request_rewind();
                    return Err(StepDown::for_reason(LinkCloseReason::RoleEnded));
                }
                let io = context.state.disk.submit(context.now_ms);
                context.out.push(Action::Disk(DiskCommand::Truncate { io, to: zxid }));
                self.step = LearnerStep::Truncating { io, epoch, to: zxid };
            }
            Packet::Snap { zxid } => self.step = LearnerStep::ReceivingSnapshot { epoch, zxid },
            // The leader pings silent learners.
            Packet::Ping { .. } => {}
            other => return Err(self.unexpected_packet(&other)),
        }
        Ok(())
    }

    /// Moves the own data aside, if the leader had its quorum without this server.
    pub(crate) fn quarantine_data(&mut self, context: &mut PeerContext<'_>) -> bool {
        let LearnerStep::Serving { epoch, .. } = self.step else { return false };
        if self.established_epoch != Some(i64::from(epoch)) || context.state.is_ahead_of_disk() {
            return false;
        }
        context.out.push(Action::StopServing);
        for link in self.observer_master.take().iter().flat_map(|observer_master| observer_master.links()) {
            context.out.push(Action::Peer(PeerEffect::Close { link, reason: LinkCloseReason::RoleEnded }));
        }
        context.state.discard_leader_replies();
        let io = context.state.disk.submit(context.now_ms);
        context.out.push(Action::Disk(DiskCommand::Quarantine { io }));
        self.step = LearnerStep::Quarantining { io };
        true
    }

    pub(super) fn truncated(&mut self, state: &mut ZabState) {
        if let LearnerStep::Truncating { epoch, to, .. } = self.step {
            state.log_truncated(to);
            self.step = LearnerStep::ReceivingDiff(ReceivingDiff { epoch, committed: to });
        }
    }

    /// The log does not contain the target of the TRUNC, because it starts with a later snapshot. Only a new
    /// snapshot helps. Until it is here, history and vote stay: this server may be needed to elect a leader.
    pub(super) fn truncate_refused(
        &mut self,
        io: IoId,
        context: &mut PeerContext<'_>,
    ) -> Result<(), StepDown> {
        let LearnerStep::Truncating { io: waiting, epoch, to } = self.step else { return Ok(()) };
        if waiting != io {
            return Ok(());
        }
        context.state.sync_need = SyncNeed::Snapshot { epoch };
        if self.is_link_lost {
            return Err(StepDown::for_reason(LinkCloseReason::ConnectionLost));
        }
        // Reconnecting keeps this server in the quorum of the leader. An election would withdraw it.
        self.reconnect(LinkCloseReason::CannotTruncate(to), context);
        Ok(())
    }

    pub(super) fn snapshot_received(&mut self) -> Result<(), StepDown> {
        let LearnerStep::ReceivingSnapshot { epoch, zxid } = self.step else { return Ok(()) };
        self.step = LearnerStep::ReceivingSnapshotTail(SnapshotTail::new(epoch, zxid));
        Ok(())
    }

    /// Handles a packet after a snapshot. Transactions are kept until NEWLEADER, or loaded early.
    pub(super) fn handle_snapshot_tail(
        &mut self,
        packet: Packet,
        context: &mut PeerContext<'_>,
    ) -> Result<(), StepDown> {
        let LearnerStep::ReceivingSnapshotTail(snapshot_tail) = &mut self.step else {
            return Err(self.unexpected_packet(&packet));
        };
        check_epoch(snapshot_tail.epoch, &packet)?;
        match packet {
            Packet::Proposal { zxid, entry } => snapshot_tail.push(EncodedTxn { zxid, bytes: entry }),
            Packet::Commit { zxid } | Packet::CommitAndActivate { zxid, .. } => {
                let result = snapshot_tail.commit(zxid);
                snapshot_tail.load_early(self.link, context.state.settings.history, context.out);
                result
            }
            Packet::Inform { zxid, entry } | Packet::InformAndActivate { zxid, entry, .. } => {
                let result = snapshot_tail
                    .push(EncodedTxn { zxid, bytes: entry })
                    .and_then(|()| snapshot_tail.commit(zxid));
                snapshot_tail.load_early(self.link, context.state.settings.history, context.out);
                result
            }
            Packet::NewLeader { zxid, config } => {
                if zxid != Zxid::new(snapshot_tail.epoch, 0) {
                    return Err(StepDown::for_reason(LinkCloseReason::UnknownZxid(zxid)));
                }
                self.announced_config =
                    context.state.observe_config_from_leader(config.as_deref(), context.out);
                let committed = snapshot_tail.committed_zxid();
                let epoch = snapshot_tail.epoch;
                let (tail, rest) = snapshot_tail.take_tail();
                let io = context.state.disk.submit(context.now_ms);
                let link = self.link;
                context.out.push(Action::Disk(DiskCommand::InstallSnapshot {
                    io,
                    link,
                    tail,
                    zxid: committed,
                }));
                self.step = LearnerStep::InstallingSnapshot { io, epoch, zxid: committed, uncommitted: rest };
                return Ok(());
            }
            Packet::Ping { .. } => return Ok(()),
            other => return Err(self.unexpected_packet(&other)),
        }
        .map_err(StepDown::for_reason)
    }

    pub(super) fn snapshot_installed(&mut self, context: &mut PeerContext<'_>) {
        let LearnerStep::InstallingSnapshot { epoch, zxid, uncommitted: rest, .. } = &mut self.step else {
            return;
        };
        let (epoch, zxid, rest) = (*epoch, *zxid, std::mem::take(rest));
        context
            .state
            .snapshot_installed(zxid, self.announced_config.as_ref().map(|announced| announced.version));
        for entry in rest {
            context.state.append(entry, context.now_ms, context.out);
        }
        self.save_new_leader(epoch, LearnerProgress { acked: zxid, committed: zxid }, context);
    }

    /// Handles a packet of a DIFF. Transactions are logged at once.
    pub(super) fn handle_diff_packet(
        &mut self,
        packet: Packet,
        context: &mut PeerContext<'_>,
    ) -> Result<(), StepDown> {
        let LearnerStep::ReceivingDiff(ReceivingDiff { epoch, committed }) = &mut self.step else {
            return Err(self.unexpected_packet(&packet));
        };
        check_epoch(*epoch, &packet)?;
        match packet {
            Packet::Proposal { zxid, entry } => append_proposal(EncodedTxn { zxid, bytes: entry }, context),
            Packet::Commit { zxid } | Packet::CommitAndActivate { zxid, .. } => {
                advance_commit(committed, zxid, context.state)
                    .inspect(|()| context.state.load_early(*committed, context.out))
            }
            Packet::Inform { zxid, entry } | Packet::InformAndActivate { zxid, entry, .. } => {
                append_proposal(EncodedTxn { zxid, bytes: entry }, context)
                    .and_then(|()| advance_commit(committed, zxid, context.state))
                    .inspect(|()| context.state.load_early(*committed, context.out))
            }
            Packet::NewLeader { zxid, config } => {
                if zxid != Zxid::new(*epoch, 0) {
                    return Err(StepDown::for_reason(LinkCloseReason::UnknownZxid(zxid)));
                }
                self.announced_config =
                    context.state.observe_config_from_leader(config.as_deref(), context.out);
                let progress = LearnerProgress { acked: *committed, committed: *committed };
                let epoch = *epoch;
                self.save_new_leader(epoch, progress, context);
                return Ok(());
            }
            Packet::Ping { .. } => return Ok(()),
            other => return Err(self.unexpected_packet(&other)),
        }
        .map_err(StepDown::for_reason)
    }

    /// NEWLEADER was received. The history becomes durable, then the epoch; then the learner acknowledges.
    fn save_new_leader(&mut self, epoch: u32, progress: LearnerProgress, context: &mut PeerContext<'_>) {
        if context.state.is_ahead_of_disk() {
            // The disk does not contain this history, and must not claim its epoch.
            context.state.accept_epoch_in_memory(epoch);
            self.step =
                LearnerStep::SavingNewLeader { io: context.state.disk.last_submitted(), epoch, progress };
            if context.state.disk.is_idle() {
                self.ack_new_leader(context);
            }
            return;
        }
        // The disk works in order: when the epoch is written, all earlier appends are durable.
        let saved = context.state.save_current_epoch(epoch, context.now_ms, context.out);
        let io = match context.state.trust {
            DiskTrust::Trusted => saved,
            DiskTrust::Untrusted => context.state.mark_trusted(context.now_ms, context.out),
        };
        self.step = LearnerStep::SavingNewLeader { io, epoch, progress };
    }
}

/// The history of a leader contains no epoch later than its own.
fn check_epoch(epoch: u32, packet: &Packet) -> Result<(), StepDown> {
    match packet {
        Packet::Snap { zxid }
        | Packet::Proposal { zxid, .. }
        | Packet::Inform { zxid, .. }
        | Packet::InformAndActivate { zxid, .. }
            if zxid.epoch() > epoch =>
        {
            Err(StepDown::for_reason(LinkCloseReason::UnknownZxid(*zxid)))
        }
        Packet::Request { .. }
        | Packet::Proposal { .. }
        | Packet::Ack { .. }
        | Packet::Commit { .. }
        | Packet::Ping { .. }
        | Packet::PingReply { .. }
        | Packet::Revalidate { .. }
        | Packet::Revalidated { .. }
        | Packet::Sync
        | Packet::Inform { .. }
        | Packet::CommitAndActivate { .. }
        | Packet::NewLeader { .. }
        | Packet::FollowerInfo { .. }
        | Packet::UpToDate
        | Packet::Diff { .. }
        | Packet::Trunc { .. }
        | Packet::Snap { .. }
        | Packet::ObserverInfo { .. }
        | Packet::LeaderInfo { .. }
        | Packet::AckEpoch { .. }
        | Packet::InformAndActivate { .. } => Ok(()),
    }
}

/// Appends the next transaction. A transaction that the history already contains is skipped.
pub(super) fn append_proposal(
    entry: EncodedTxn,
    context: &mut PeerContext<'_>,
) -> Result<(), LinkCloseReason> {
    let last = context.state.history.last();
    if entry.zxid <= last {
        let known = entry.zxid <= context.state.history.floor() || context.state.history.contains(entry.zxid);
        return if known { Ok(()) } else { Err(LinkCloseReason::Gap { after: last, found: entry.zxid }) };
    }
    if !is_next_zxid(last, entry.zxid) {
        return Err(LinkCloseReason::Gap { after: last, found: entry.zxid });
    }
    context.state.append(entry, context.now_ms, context.out);
    Ok(())
}

/// Advances the commit position to the next transaction. An earlier commit is skipped.
pub(super) fn advance_commit(
    committed: &mut Zxid,
    zxid: Zxid,
    state: &ZabState,
) -> Result<(), LinkCloseReason> {
    if zxid <= *committed {
        return Ok(());
    }
    let next = if *committed < state.history.floor() {
        None
    } else {
        state.history.after(*committed).map(|entry| entry.zxid)
    };
    if next != Some(zxid) {
        return Err(LinkCloseReason::UnknownZxid(zxid));
    }
    *committed = zxid;
    Ok(())
}
