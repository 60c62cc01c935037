//! What a server keeps whatever its role is.

use zebu_proto::client::ConnectRequest;
use zebu_proto::{ErrorCode, Zxid};
use zebu_tree::Credentials;
use zebu_zab::PingNumber;

use super::DigestCheck;
use super::batch::BatchBuilder;
use crate::agreement::{Agreement, Member, Origin};
use crate::clock::Moment;
use crate::lane::{Answer, CloseReason, HeaderZxid, LaneId, Lanes, Service, Then, Upstream};
use crate::notice::Notices;
use crate::random::Random;
use crate::replica::Replica;
use crate::session::SessionIds;
use crate::settings::{LocalSessionSupport, NodeSettings};
use crate::throttle::{Admission, Arrival, ConnectionThrottle};

#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) settings: NodeSettings,
    pub(crate) agreement: Agreement,
    pub(crate) ids: SessionIds,
    pub(crate) throttle: ConnectionThrottle,
    pub(crate) batch: BatchBuilder,
    pub(crate) random: Random,
    pub(crate) nobody: Credentials,
    /// Counts the times that this server began to serve.
    pub(crate) term: u64,
    /// Requests of clients that were answered or given up since somebody asked.
    pub(crate) answered: usize,
    pub(crate) digests: DigestCheck,
    pub(crate) notices: Notices,
}

impl Desk {
    pub(crate) fn new(settings: NodeSettings, agreement: Agreement, replica: &Replica, now: Moment) -> Desk {
        let mut random = Random::new(settings.seed);
        let known = replica.tree.sessions();
        let ids = SessionIds::new(settings.server_id, now.wall_ms, &mut random, known);
        Desk {
            agreement,
            throttle: ConnectionThrottle::new(settings.throttle.clone(), now.monotonic_ms),
            batch: BatchBuilder::new(&settings, &mut random),
            ids,
            random,
            nobody: Credentials::default(),
            term: 0,
            answered: 0,
            digests: DigestCheck::new(),
            notices: Notices::default(),
            settings,
        }
    }

    /// Whether this server may say that a session lives, or that it has seen everything: not while it hands over,
    /// because the next leader may have begun already, who does not know of it.
    pub(crate) fn can_confirm(&self) -> bool {
        self.agreement.next_zxid().is_some()
    }

    /// The ping that a quorum has to answer before it is certain that this server leads; `None` if it is certain now, or
    /// if there will be no answer at all. Only a ping that leaves after the question proves it: no clock of this machine
    /// can tell how long the machine stood still.
    pub(crate) fn doubt(&mut self, now: Moment) -> Option<PingNumber> {
        if !self.can_confirm() {
            return None;
        }
        let member = self.member()?;
        let ping = member.peer.ask_quorum(now.monotonic_ms, &mut member.wanted);
        (!member.peer.has_answered(ping)).then_some(ping)
    }

    /// Whether there is no need to wait for a ping any more.
    pub(crate) fn is_answered(&self, ping: PingNumber) -> bool {
        !self.can_confirm() || self.member_ref().is_none_or(|member| member.peer.has_answered(ping))
    }

    pub(crate) fn member(&mut self) -> Option<&mut Member> {
        match &mut self.agreement {
            Agreement::Standalone(_) => None,
            Agreement::Member(member) => Some(member),
        }
    }

    pub(crate) fn member_ref(&self) -> Option<&Member> {
        match &self.agreement {
            Agreement::Standalone(_) => None,
            Agreement::Member(member) => Some(member),
        }
    }

    /// What new sessions are.
    pub(crate) fn local_sessions(&self) -> LocalSessionSupport {
        match self.agreement {
            Agreement::Standalone(_) => LocalSessionSupport::Off,
            Agreement::Member(_) => self.settings.local_sessions,
        }
    }

    /// What a connection is accepted into now.
    pub(crate) fn service(&self, upstream: Upstream) -> Service {
        Service { upstream, term: self.term }
    }

    /// The timeout that a connecting client gets, or why it is closed. A refusal without a session is a close,
    /// never a rejection: the C client would take a rejected new session for one with timeout zero.
    pub(crate) fn admit(
        &mut self,
        request: &ConnectRequest,
        applied: Zxid,
        now: Moment,
    ) -> Result<i32, CloseReason> {
        let arrival = match (request.session_id, self.local_sessions()) {
            (0, LocalSessionSupport::Off) => Arrival::New,
            (0, LocalSessionSupport::WithoutUpgrade | LocalSessionSupport::WithUpgrade) => Arrival::NewLocal,
            _ => Arrival::Resume,
        };
        if self.throttle.admit(arrival, now.monotonic_ms, self.random.fraction()) == Admission::Refused {
            return Err(CloseReason::Throttled);
        }
        if request.last_zxid_seen > applied.0 {
            return Err(CloseReason::AheadOfServer);
        }
        let NodeSettings { session_timeout_ms_min, session_timeout_ms_max, .. } = self.settings;
        Ok(request.timeout_ms.clamp(session_timeout_ms_min, session_timeout_ms_max))
    }

    /// Whether a request has waited for so long that it is not carried out.
    pub(crate) fn is_stale(&self, received_ms: i64, now: Moment) -> bool {
        let wait_ms_max = self.settings.throttled_op_wait_ms;
        wait_ms_max > 0 && now.monotonic_ms - received_ms > wait_ms_max
    }

    /// Answers a request that is not carried out.
    pub(crate) fn refuse(
        &mut self,
        (lane, slot): (LaneId, u64),
        error: ErrorCode,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        self.answered += 1;
        lanes.with(lane, |lane| {
            let answer = Answer::Header { zxid: HeaderZxid::Applied, error: Some(error) };
            lane.answer_slot(slot, answer, Then::Continue);
            replica.drain_ready(lane, now.monotonic_ms);
        });
    }

    /// Answers a client whose session has ended without a transaction; the connection ends behind the answer.
    pub(crate) fn bid_farewell(
        &mut self,
        (lane, slot): (LaneId, u64),
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        self.answered += 1;
        lanes.with(lane, |lane| {
            let answer = Answer::Header { zxid: HeaderZxid::Applied, error: None };
            lane.answer_slot(slot, answer, Then::Drain);
            replica.drain_ready(lane, now.monotonic_ms);
        });
    }

    /// Whoever waits for this will get no answer: the connection is closed, and the client asks elsewhere.
    pub(crate) fn give_up(&mut self, origin: Origin, lanes: &mut impl Lanes) {
        self.give_up_because(CloseReason::NotServing, origin, lanes);
    }

    pub(crate) fn give_up_because(&mut self, reason: CloseReason, origin: Origin, lanes: &mut impl Lanes) {
        let lane = match origin {
            Origin::Request { lane, .. } => {
                self.answered += 1;
                lane
            }
            Origin::Connect { lane, .. } => lane,
            Origin::Nobody => return,
        };
        lanes.with(lane, |lane| lane.close(reason));
    }
}
