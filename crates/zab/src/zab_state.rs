//! The state of a peer that every role shares: history, epochs, disk queue, config, commit position.

use std::collections::VecDeque;

use zebu_proto::quorum::Packet;
use zebu_proto::{ServerId, Zxid};

use crate::action::{Action, DiskCommand};
use crate::disk_health::DiskHealth;
use crate::disk_queue::DiskQueue;
use crate::election::{Candidacy, LoggedState};
use crate::encoded_txn::EncodedTxn;
use crate::event::IoId;
use crate::history::History;
use crate::membership::ReconfigState;
use crate::memory_only::Rewind;
use crate::settings::{DiskTrust, PeerSettings, RecoveredHistory};
use crate::sync_need::SyncNeed;

/// The state of a peer that outlives its roles.
#[derive(Debug)]
pub(crate) struct ZabState {
    pub(crate) settings: PeerSettings,
    pub(crate) history: History,
    pub(crate) disk: DiskQueue,
    pub(crate) accepted_epoch: i64,
    pub(crate) current_epoch: i64,
    pub(crate) trust: DiskTrust,
    /// The configs, if dynamic reconfiguration is enabled.
    pub(crate) reconfig: Option<ReconfigState>,
    /// The leader that follows without an election after the present role.
    pub(crate) designated_leader: Option<ServerId>,
    /// The id of the write after which the disk is trusted again, in any role.
    mark_trusted_io: Option<IoId>,
    /// The reload that discards transactions which exist only in memory.
    pub(crate) rewind: Rewind,
    /// The kind of synchronization that the next leader has to provide.
    pub(crate) sync_need: SyncNeed,
    /// The epoch in `currentEpoch` on disk.
    pub(crate) saved_epoch: i64,
    /// The last transaction that is known to be committed.
    committed: Zxid,
    /// The last transaction that was delivered.
    delivered: Zxid,
    /// Replies of the leader, each with the last transaction that was committed before it. The pending
    /// requests of clients bound their number.
    leader_replies: VecDeque<(Zxid, Packet)>,
    /// The last transaction that is larger than every learner can read. A leader without that limit proposed
    /// it.
    pub(crate) oversize: Option<Zxid>,
    /// Room and latency of the own disk.
    pub(crate) disk_health: DiskHealth,
}

impl ZabState {
    pub(crate) fn new(mut settings: PeerSettings, recovered: RecoveredHistory) -> ZabState {
        let reconfig = settings.dynamic_config.take().map(ReconfigState::new);
        let mut state = ZabState {
            history: History::new(settings.history, recovered.last, recovered.contiguous_from),
            disk: DiskQueue::new(recovered.last),
            accepted_epoch: recovered.accepted_epoch,
            current_epoch: recovered.current_epoch,
            trust: recovered.trust,
            mark_trusted_io: None,
            rewind: Rewind::None,
            sync_need: SyncNeed::Diff,
            saved_epoch: recovered.current_epoch,
            committed: Zxid::ZERO,
            delivered: recovered.last,
            leader_replies: VecDeque::new(),
            oversize: None,
            disk_health: DiskHealth::default(),
            reconfig,
            designated_leader: None,
            settings,
        };
        state.apply_committed_config();
        state
    }

    /// The state for an election: what a restart would recover. The disk must be idle.
    pub(crate) fn logged_state(&self, candidacy: Candidacy) -> LoggedState {
        assert!(self.disk.is_idle(), "a vote names the data on disk, so the disk must be idle");
        let last_zxid = match self.trust {
            DiskTrust::Trusted => self.history.last(),
            DiskTrust::Untrusted => Zxid(-1),
        };
        LoggedState { last_zxid, current_epoch: self.current_epoch, candidacy }
    }

    pub(crate) fn committed(&self) -> Zxid {
        self.committed
    }

    pub(crate) fn delivered(&self) -> Zxid {
        self.delivered
    }

    /// Records a transaction that is larger than every learner can read.
    pub(crate) fn record_oversize(&mut self, entry: &EncodedTxn) {
        if entry.bytes.len() > self.settings.proposal_bytes_max {
            self.oversize = self.oversize.max(Some(entry.zxid));
        }
    }

    /// Appends a transaction to the history and, unless this observer has no log, to the log.
    pub(crate) fn append(&mut self, entry: EncodedTxn, now_ms: i64, out: &mut Vec<Action>) {
        self.record_oversize(&entry);
        if self.is_ahead_of_disk() || !self.writes_log() {
            self.history.append(entry.clone());
            self.observe_txn(&entry, out);
            return;
        }
        let io = self.disk.append(entry.zxid, now_ms);
        self.disk_health.appends.begin(entry.zxid, now_ms);
        self.history.append(entry.clone());
        self.observe_txn(&entry, out);
        out.push(Action::Append { io, entry });
    }

    pub(crate) fn save_accepted_epoch(&mut self, epoch: u32, now_ms: i64, out: &mut Vec<Action>) -> IoId {
        assert!(i64::from(epoch) > self.accepted_epoch, "the accepted epoch only grows");
        self.accepted_epoch = i64::from(epoch);
        let io = self.disk.submit(now_ms);
        out.push(Action::Disk(DiskCommand::SaveAcceptedEpoch { io, epoch }));
        io
    }

    pub(crate) fn save_current_epoch(&mut self, epoch: u32, now_ms: i64, out: &mut Vec<Action>) -> IoId {
        assert!(
            i64::from(epoch) >= self.current_epoch || self.trust == DiskTrust::Untrusted,
            "the current epoch of a trusted server never decreases"
        );
        assert!(
            i64::from(epoch) <= self.accepted_epoch,
            "the current epoch never exceeds the accepted epoch"
        );
        self.current_epoch = i64::from(epoch);
        self.saved_epoch = self.current_epoch;
        let io = self.disk.submit(now_ms);
        out.push(Action::Disk(DiskCommand::SaveCurrentEpoch { io, epoch }));
        io
    }

    /// Marks the data on disk as trusted.
    pub(crate) fn mark_trusted(&mut self, now_ms: i64, out: &mut Vec<Action>) -> IoId {
        let io = self.disk.submit(now_ms);
        out.push(Action::Disk(DiskCommand::MarkTrusted { io }));
        self.mark_trusted_io = Some(io);
        io
    }

    /// Everything up to `up_to` is committed.
    pub(crate) fn commit(&mut self, up_to: Zxid, out: &mut Vec<Action>) {
        assert!(
            up_to <= self.history.last(),
            "{up_to} is committed, but the log ends at {}",
            self.history.last()
        );
        self.committed = self.committed.max(up_to);
        self.deliver(out);
    }

    /// The disk finished an append or a command.
    pub(crate) fn persisted(&mut self, io: IoId, out: &mut Vec<Action>) {
        self.disk.mark_persisted(io);
        if self.mark_trusted_io.is_some_and(|io| self.disk.has_done(io)) {
            self.mark_trusted_io = None;
            self.trust = DiskTrust::Trusted;
        }
        self.finish_rewind();
        self.deliver(out);
    }

    /// Delivers transactions that are committed and durable in the own log. The state never contains a
    /// transaction that the log lacks, except on an observer without a log.
    fn deliver(&mut self, out: &mut Vec<Action>) {
        let kept = if self.is_ahead_of_disk() { self.history.last() } else { self.disk.durable() };
        let end = self.committed.min(kept);
        while self.delivered < end {
            let Some(entry) = self.history.after(self.delivered) else { break };
            if entry.zxid > end {
                break;
            }
            self.delivered = entry.zxid;
            out.push(Action::Deliver(entry.clone()));
            self.deliver_leader_replies(out);
        }
    }

    /// Loads durable transactions early if they exceed the memory limit. A learner calls it during
    /// synchronization, up to `given`. They are not committed before the leader sends UPTODATE, so the server
    /// closes the connections of its clients for it. Only bytes count here: a learner that reaches the next
    /// leader late often has more transactions to receive than are kept for other learners.
    pub(crate) fn load_early(&mut self, given: Zxid, out: &mut Vec<Action>) {
        self.history.trim(self.delivered);
        let kept = if self.is_ahead_of_disk() { self.history.last() } else { self.disk.durable() };
        let end = given.min(kept);
        while self.history.is_over_bytes() && self.delivered < end {
            let Some(entry) = self.history.after(self.delivered) else { break };
            if entry.zxid > end {
                break;
            }
            self.delivered = entry.zxid;
            out.push(Action::Load(entry.clone()));
            self.history.trim(self.delivered);
        }
    }

    /// Queues a reply of the leader that follows the commit of `after`. It is emitted directly after that
    /// transaction, because a client's next write may be the next one.
    pub(crate) fn reply_after_commit(&mut self, after: Zxid, packet: Packet, out: &mut Vec<Action>) {
        self.leader_replies.push_back((after, packet));
        self.deliver_leader_replies(out);
    }

    /// Discards the replies of the leader, because their connection has ended.
    pub(crate) fn discard_leader_replies(&mut self) {
        self.leader_replies.clear();
    }

    fn deliver_leader_replies(&mut self, out: &mut Vec<Action>) {
        while self.leader_replies.front().is_some_and(|(after, _)| *after <= self.delivered) {
            let Some((after, packet)) = self.leader_replies.pop_front() else { return };
            out.push(Action::FromLeader { packet, after });
        }
    }

    /// Trims the history to its limits. It runs last, after all learner handlers have read new transactions.
    pub(crate) fn trim(&mut self) {
        self.history.trim(self.delivered);
    }

    /// The log was truncated: state, history and disk end at `to`.
    pub(crate) fn log_truncated(&mut self, to: Zxid) {
        self.history.truncate(to);
        self.disk.reset_log_end(to);
        self.delivered = self.delivered.min(to);
        self.oversize = self.oversize.filter(|oversize| *oversize <= to);
        self.sync_need = SyncNeed::Diff;
        self.drop_pending_after(to);
    }

    /// Only the data on disk remains, which ends at `end`. The next leader sends later committed
    /// transactions again.
    pub(crate) fn reset_to_disk(&mut self, end: Zxid) {
        self.committed = self.committed.min(end);
        self.current_epoch = self.saved_epoch;
    }

    /// A snapshot replaced the history. `announced` is the version of the config that the leader sent with
    /// NEWLEADER.
    pub(crate) fn snapshot_installed(&mut self, zxid: Zxid, announced: Option<i64>) {
        self.sync_need = SyncNeed::Diff;
        self.history.reset_to(zxid);
        self.disk.reset_log_end(zxid);
        self.delivered = zxid;
        self.drop_pending_except(announced, zxid);
    }

    /// All data was moved aside.
    pub(crate) fn data_quarantined(&mut self) {
        self.snapshot_installed(Zxid::ZERO, None);
        self.committed = Zxid::ZERO;
        self.trust = DiskTrust::Untrusted;
        self.mark_trusted_io = None;
    }
}
