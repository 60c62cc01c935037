//! What a member is whatever its role: its history, its promises, its disk, what it knows to be committed.

use std::collections::VecDeque;

use zebu_proto::quorum::Packet;
use zebu_proto::{ServerId, Zxid};

use crate::action::Action;
use crate::disk_queue::DiskQueue;
use crate::election::Standing;
use crate::entry::Entry;
use crate::event::IoId;
use crate::history::History;
use crate::membership::Activation;
use crate::settings::{PeerSettings, Recovered, Trust};
use crate::volatile::Rewinding;
use crate::wanted::Wanted;

/// The part of a member that outlives its roles.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) settings: PeerSettings,
    pub(crate) history: History,
    pub(crate) disk: DiskQueue,
    pub(crate) accepted_epoch: i64,
    pub(crate) current_epoch: i64,
    pub(crate) trust: Trust,
    /// The configurations, if they may change.
    pub(crate) dynamic: Option<Activation>,
    /// Who leads next without an election, when the present role has ended.
    pub(crate) next_leader: Option<ServerId>,
    /// When this work is done, the disk may be relied on again, whatever the role is by then.
    trusting: Option<IoId>,
    /// What is not on disk is being given up.
    pub(crate) rewinding: Rewinding,
    /// What it wants of its next leader.
    pub(crate) wanted: Wanted,
    /// The epoch that the disk names as accepted.
    pub(crate) saved_epoch: i64,
    /// The last transaction that is known to be committed.
    committed: Zxid,
    /// The last transaction that was handed out.
    delivered: Zxid,
    /// Answers of the leader, each with the last transaction that was committed before it. Their number is bounded
    /// by the requests that clients have on their way.
    answers: VecDeque<(Zxid, Packet)>,
    /// The last transaction that is known to be longer than every learner reads: from a leader without that limit.
    pub(crate) oversize: Option<Zxid>,
}

impl Member {
    pub(crate) fn new(mut settings: PeerSettings, recovered: Recovered) -> Member {
        let dynamic = settings.dynamic.take().map(Activation::new);
        let mut member = Member {
            history: History::new(settings.history, recovered.last, recovered.proven),
            disk: DiskQueue::new(recovered.last),
            accepted_epoch: recovered.accepted_epoch,
            current_epoch: recovered.current_epoch,
            trust: recovered.trust,
            trusting: None,
            rewinding: Rewinding::No,
            wanted: Wanted::Rest,
            saved_epoch: recovered.current_epoch,
            committed: Zxid::ZERO,
            delivered: recovered.last,
            answers: VecDeque::new(),
            oversize: None,
            dynamic,
            next_leader: None,
            settings,
        };
        member.adopt_committed();
        member
    }

    /// What it brings into an election: what a restart would find. The disk must have finished.
    pub(crate) fn standing(&self) -> Standing {
        assert!(self.disk.is_idle(), "a vote names what the disk holds, and the disk is still at work");
        let last_zxid = match self.trust {
            Trust::Trusted => self.history.last(),
            Trust::Untrusted => Zxid(-1),
        };
        Standing { last_zxid, current_epoch: self.current_epoch }
    }

    pub(crate) fn committed(&self) -> Zxid {
        self.committed
    }

    pub(crate) fn delivered(&self) -> Zxid {
        self.delivered
    }

    /// Remembers a transaction that is longer than every learner reads.
    pub(crate) fn note_length(&mut self, entry: &Entry) {
        if entry.bytes.len() > self.settings.proposal_bytes_max {
            self.oversize = self.oversize.max(Some(entry.zxid));
        }
    }

    /// Puts a transaction at the end of the history and, unless this observer has none, into the log.
    pub(crate) fn append(&mut self, entry: Entry, now_ms: i64, out: &mut Vec<Action>) {
        self.note_length(&entry);
        if self.is_volatile() || !self.keeps_log() {
            self.history.append(entry.clone());
            self.notice(&entry, out);
            return;
        }
        let io = self.disk.append(entry.zxid, now_ms);
        self.history.append(entry.clone());
        self.notice(&entry, out);
        out.push(Action::Append { io, entry });
    }

    pub(crate) fn save_accepted_epoch(&mut self, epoch: u32, now_ms: i64, out: &mut Vec<Action>) -> IoId {
        assert!(i64::from(epoch) > self.accepted_epoch, "a promise is never taken back");
        self.accepted_epoch = i64::from(epoch);
        let io = self.disk.order(now_ms);
        out.push(Action::SaveAcceptedEpoch { io, epoch });
        io
    }

    pub(crate) fn save_current_epoch(&mut self, epoch: u32, now_ms: i64, out: &mut Vec<Action>) -> IoId {
        assert!(
            i64::from(epoch) >= self.current_epoch || self.trust == Trust::Untrusted,
            "an accepted history is never left for an older one"
        );
        assert!(i64::from(epoch) <= self.accepted_epoch, "an epoch is promised before it is accepted");
        self.current_epoch = i64::from(epoch);
        self.saved_epoch = self.current_epoch;
        let io = self.disk.order(now_ms);
        out.push(Action::SaveCurrentEpoch { io, epoch });
        io
    }

    /// What is on disk may be relied on again.
    pub(crate) fn mark_trusted(&mut self, now_ms: i64, out: &mut Vec<Action>) -> IoId {
        let io = self.disk.order(now_ms);
        out.push(Action::MarkTrusted { io });
        self.trusting = Some(io);
        io
    }

    /// Everything up to here is decided.
    pub(crate) fn commit(&mut self, up_to: Zxid, out: &mut Vec<Action>) {
        assert!(
            up_to <= self.history.last(),
            "{up_to} is committed, but the log ends at {}",
            self.history.last()
        );
        self.committed = self.committed.max(up_to);
        self.deliver(out);
    }

    /// The disk has done some work.
    pub(crate) fn persisted(&mut self, io: IoId, out: &mut Vec<Action>) {
        self.disk.persisted(io);
        if self.trusting.is_some_and(|io| self.disk.has_done(io)) {
            self.trusting = None;
            self.trust = Trust::Trusted;
        }
        self.rewound();
        self.deliver(out);
    }

    /// Hands out what is committed and in the own log: the state never holds what the log lacks, except that of an
    /// observer without one.
    fn deliver(&mut self, out: &mut Vec<Action>) {
        let kept = if self.is_volatile() { self.history.last() } else { self.disk.durable() };
        let end = self.committed.min(kept);
        while self.delivered < end {
            let Some(entry) = self.history.after(self.delivered) else { break };
            if entry.zxid > end {
                break;
            }
            self.delivered = entry.zxid;
            out.push(Action::Deliver(entry.clone()));
            self.pass_answers(out);
        }
    }

    /// Hands out early what is in the own log, if it is more than may stay in memory. For a learner that gets its
    /// leader's history, up to `given`: none of it is decided before the leader says so.
    pub(crate) fn load_early(&mut self, given: Zxid, out: &mut Vec<Action>) {
        let kept = if self.is_volatile() { self.history.last() } else { self.disk.durable() };
        let end = given.min(kept);
        while self.history.is_over_limits() && self.delivered < end {
            let Some(entry) = self.history.after(self.delivered) else { break };
            if entry.zxid > end {
                break;
            }
            self.delivered = entry.zxid;
            out.push(Action::Load(entry.clone()));
            self.history.trim(self.delivered);
        }
    }

    /// Takes an answer of the leader that stands behind the commit of `after`. It is handed out directly behind that
    /// transaction: a client's next write may be the transaction that follows.
    pub(crate) fn answer_behind(&mut self, after: Zxid, packet: Packet, out: &mut Vec<Action>) {
        self.answers.push_back((after, packet));
        self.pass_answers(out);
    }

    /// The connection to the leader has ended: its answers concern no client any more.
    pub(crate) fn forget_answers(&mut self) {
        self.answers.clear();
    }

    fn pass_answers(&mut self, out: &mut Vec<Action>) {
        while self.answers.front().is_some_and(|(after, _)| *after <= self.delivered) {
            let Some((after, packet)) = self.answers.pop_front() else { return };
            out.push(Action::FromLeader { packet, after });
        }
    }

    /// Forgets what the limits do not allow to keep. Comes last, when everybody has taken what is new.
    pub(crate) fn trim(&mut self) {
        self.history.trim(self.delivered);
    }

    /// The log was cut: state, history and disk end here.
    pub(crate) fn truncated(&mut self, to: Zxid) {
        self.history.truncate(to);
        self.disk.log_ends_at(to);
        self.delivered = self.delivered.min(to);
        self.oversize = self.oversize.filter(|oversize| *oversize <= to);
        self.wanted = Wanted::Rest;
        self.forget_pending_behind(to);
    }

    /// It knows only what its disk knows, which ends here. What was decided behind it will be told again.
    pub(crate) fn recall(&mut self, end: Zxid) {
        self.committed = self.committed.min(end);
        self.current_epoch = self.saved_epoch;
    }

    /// A whole state has taken the place of the history. The version is that of the configuration which the leader has
    /// announced with it.
    pub(crate) fn installed(&mut self, zxid: Zxid, announced: Option<i64>) {
        self.wanted = Wanted::Rest;
        self.history.restart(zxid);
        self.disk.log_ends_at(zxid);
        self.delivered = zxid;
        self.forget_pending_but(announced, zxid);
    }

    /// Everything was set aside.
    pub(crate) fn emptied(&mut self) {
        self.installed(Zxid::ZERO, None);
        self.committed = Zxid::ZERO;
        self.trust = Trust::Untrusted;
        self.trusting = None;
    }
}
