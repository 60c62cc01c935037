//! The state of a server that is independent of its role.

use std::sync::Arc;

use zebu_metrics::SampleRun;
use zebu_proto::client::ConnectRequest;
use zebu_proto::quorum::DiskRoom;
use zebu_proto::{ErrorCode, Zxid};
use zebu_tree::Credentials;
use zebu_zab::PingNumber;

use super::batch::{BatchBuilder, SnapshotPace};
use super::{DigestMonitor, Drain};
use crate::audit::AuditTrail;
use crate::clock::Now;
use crate::connection::{Connections, DisconnectReason, ServingTerm};
use crate::consensus::{Consensus, EnsembleMember, RequestOrigin};
use crate::context::ServeContext;
use crate::freshness::ReadFences;
use crate::metrics::NodeMetrics;
use crate::notice::OperatorNotices;
use crate::pending_request::{AnsweredRequests, PendingRequest};
use crate::prepared_reply::{PreparedReply, ReplyZxid};
use crate::replica::Replica;
use crate::serving_mode::ServingMode;
use crate::session::SessionIdGenerator;
use crate::settings::{LocalSessionSupport, NodeSettings};
use crate::split_mix::SplitMix64;
use crate::throttle::{Admission, ConnectionThrottle, SessionRequest};

#[derive(Debug)]
pub(crate) struct NodeState {
    pub(crate) settings: NodeSettings,
    pub(crate) consensus: Consensus,
    pub(crate) session_ids: SessionIdGenerator,
    pub(crate) throttle: ConnectionThrottle,
    pub(crate) batch: BatchBuilder,
    pub(crate) random: SplitMix64,
    pub(crate) no_credentials: Credentials,
    /// Incremented each time that this server begins to serve.
    pub(crate) term: u32,
    /// Client requests that were answered or dropped since the last call of `take_completed`.
    pub(crate) completed_requests: AnsweredRequests,
    pub(crate) digest_monitor: DigestMonitor,
    pub(crate) notices: OperatorNotices,
    /// `None` without audit log.
    pub(crate) audit: Option<Box<AuditTrail>>,
    pub(crate) metrics: Arc<NodeMetrics>,
    /// Times of prepared writes that `take_effects` records.
    pub(crate) prep_queue_times: SampleRun,
    /// Reads that wait until the state is fresh enough.
    pub(crate) fences: ReadFences,
    /// `None` unless the server sends its clients away.
    pub(crate) drain: Option<Box<Drain>>,
    /// The room on the disk of this server.
    pub(crate) disk_room: DiskRoom,
}

impl NodeState {
    pub(crate) fn new(
        settings: NodeSettings,
        consensus: Consensus,
        replica: &Replica,
        now: Now,
    ) -> NodeState {
        let mut random = SplitMix64::new(settings.seed);
        let known = replica.tree.sessions();
        let ids = SessionIdGenerator::new(settings.server_id, now.wall_ms, &mut random, known);
        NodeState {
            consensus,
            throttle: ConnectionThrottle::new(settings.throttle.clone(), now.monotonic_ms),
            batch: BatchBuilder::new(&settings, &mut random),
            session_ids: ids,
            random,
            no_credentials: Credentials::default(),
            term: 0,
            completed_requests: AnsweredRequests::default(),
            digest_monitor: DigestMonitor::new(),
            notices: OperatorNotices::default(),
            audit: None,
            metrics: replica.metrics.clone(),
            prep_queue_times: SampleRun::default(),
            fences: ReadFences::default(),
            drain: None,
            disk_room: DiskRoom::Enough,
            settings,
        }
    }

    /// Whether this server may confirm a session or a sync. A resigning leader must not: the next leader may
    /// already have begun.
    pub(crate) fn can_confirm_sessions(&self) -> bool {
        self.consensus.next_zxid().is_some()
    }

    /// Whether clients stay connected when the leader ends.
    pub(crate) fn keeps_clients(&self) -> bool {
        self.settings.election_grace_ms > 0 && self.member().is_some()
    }

    /// Whether requests and connects must wait for the next leader, because this one hands over leadership.
    pub(crate) fn awaits_next_leader(&self) -> bool {
        self.keeps_clients() && !self.can_confirm_sessions()
    }

    /// Whether the tree may grow: the disk of a standalone server has room, or those of a quorum have.
    pub(crate) fn has_room_to_grow(&self) -> bool {
        match &self.consensus {
            Consensus::Standalone(_) => self.disk_room != DiskRoom::Full,
            Consensus::Member(member) => member.peer.quorum_has_room(),
        }
    }

    /// Records the room on the own disk. Snapshots come early when it lacks, because then old files can go.
    pub(crate) fn record_disk_room(&mut self, room: DiskRoom) {
        let before = std::mem::replace(&mut self.disk_room, room);
        match room {
            DiskRoom::Low if before == DiskRoom::Enough => self.batch.set_pace(SnapshotPace::Next),
            DiskRoom::Full if before != DiskRoom::Full => self.batch.set_pace(SnapshotPace::Early),
            DiskRoom::Enough | DiskRoom::Low if before == DiskRoom::Full => {
                self.batch.set_pace(SnapshotPace::Normal);
            }
            DiskRoom::Enough | DiskRoom::Low | DiskRoom::Full => {}
        }
    }

    /// Starts a leadership check. Returns the ping that a quorum must answer first; `None` if leadership is
    /// certain or the check is pointless. Only a ping that is sent after the request proves leadership: no
    /// local clock shows how long this machine was suspended.
    pub(crate) fn start_leadership_check(&mut self, now: Now) -> Option<PingNumber> {
        if !self.can_confirm_sessions() {
            return None;
        }
        let member = self.member_mut()?;
        let ping = member.peer.start_quorum_check(now.monotonic_ms, &mut member.pending_actions);
        (!member.peer.quorum_has_answered(ping)).then_some(ping)
    }

    /// Whether a request need not wait for this ping any more.
    pub(crate) fn is_leadership_confirmed(&self, ping: PingNumber) -> bool {
        !self.can_confirm_sessions()
            || self.member().is_none_or(|member| member.peer.quorum_has_answered(ping))
    }

    pub(crate) fn member_mut(&mut self) -> Option<&mut EnsembleMember> {
        match &mut self.consensus {
            Consensus::Standalone(_) => None,
            Consensus::Member(member) => Some(member),
        }
    }

    pub(crate) fn member(&self) -> Option<&EnsembleMember> {
        match &self.consensus {
            Consensus::Standalone(_) => None,
            Consensus::Member(member) => Some(member),
        }
    }

    /// Whether new sessions are local.
    pub(crate) fn local_sessions(&self) -> LocalSessionSupport {
        match self.consensus {
            Consensus::Standalone(_) => LocalSessionSupport::Off,
            Consensus::Member(_) => self.settings.local_sessions,
        }
    }

    /// The serving term for a new connection.
    pub(crate) fn serving_term(&self, mode: ServingMode) -> ServingTerm {
        ServingTerm { mode, term: self.term, keeps_requests: self.keeps_clients() }
    }

    /// Returns the negotiated timeout of a connecting client, or the reason to close its connection. A
    /// refusal without a session closes the connection: the C client would take a rejection for a session
    /// with timeout zero. `contained` is the latest zxid whose transactions the state contains for certain.
    pub(crate) fn admit(
        &mut self,
        request: &ConnectRequest,
        contained: Zxid,
        now: Now,
    ) -> Result<i32, DisconnectReason> {
        let arrival = match (request.session_id, self.local_sessions()) {
            (0, LocalSessionSupport::Off) => SessionRequest::New,
            (0, LocalSessionSupport::WithoutUpgrade | LocalSessionSupport::WithUpgrade) => {
                SessionRequest::NewLocal
            }
            _ => {
                self.metrics.sessions_resumed.increment();
                SessionRequest::Resume
            }
        };
        self.metrics.token_deficit.record(self.throttle.deficit());
        if self.throttle.admit(arrival, now.monotonic_ms, self.random.fraction()) == Admission::Refused {
            return Err(DisconnectReason::Throttled);
        }
        if request.last_zxid_seen > contained.0 {
            return Err(DisconnectReason::AheadOfServer);
        }
        let NodeSettings { session_timeout_ms_min, session_timeout_ms_max, .. } = self.settings;
        Ok(request.timeout_ms.clamp(session_timeout_ms_min, session_timeout_ms_max))
    }

    /// Whether a request has waited too long and is not executed.
    pub(crate) fn is_stale(&self, received_ms: i64, now: Now) -> bool {
        let wait_ms_max = self.settings.throttled_op_wait_ms;
        wait_ms_max > 0 && now.monotonic_ms - received_ms > wait_ms_max
    }

    /// Answers a request that is not executed.
    pub(crate) fn reply_error(
        &mut self,
        pending: PendingRequest,
        error: ErrorCode,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let PendingRequest { connection, slot, charged_bytes } = pending;
        self.completed_requests.add(charged_bytes);
        if error == ErrorCode::ThrottledOp {
            self.metrics.throttled_ops.increment();
        }
        if let Some(audit) = &mut self.audit {
            match error {
                // ZooKeeper writes no line for a request that it did not look at.
                ErrorCode::ThrottledOp => audit.discard(&pending),
                _ => audit.fail(&pending, context.now.wall_ms),
            }
        }
        context.connections.with(connection, |connection| {
            connection.set_slot_reply(slot, PreparedReply::header(ReplyZxid::Applied, Some(error)));
            context.replica.run_ready_requests(connection, context.now.monotonic_ms);
        });
    }

    /// Answers the closeSession of a local session. The connection is closed after the reply.
    pub(crate) fn ack_close(
        &mut self,
        PendingRequest { connection, slot, charged_bytes }: PendingRequest,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        self.completed_requests.add(charged_bytes);
        context.connections.with(connection, |connection| {
            let reply = PreparedReply::header(ReplyZxid::Applied, None).then_drain();
            connection.set_slot_reply(slot, reply);
            context.replica.run_ready_requests(connection, context.now.monotonic_ms);
        });
    }

    /// Counts a request that gets neither a reply nor an audit line.
    pub(crate) fn drop_request(&mut self, pending: &PendingRequest) {
        self.completed_requests.add(pending.charged_bytes);
        self.metrics.stale_requests.increment();
        if let Some(audit) = &mut self.audit {
            audit.discard(pending);
        }
    }

    /// Drops a request without a reply: the connection is closed, and the client retries elsewhere.
    pub(crate) fn abort_request(&mut self, origin: RequestOrigin, connections: &mut impl Connections) {
        self.abort_request_with(DisconnectReason::NotServing, origin, connections);
    }

    pub(crate) fn abort_request_with(
        &mut self,
        reason: DisconnectReason,
        origin: RequestOrigin,
        connections: &mut impl Connections,
    ) {
        let connection = match origin {
            RequestOrigin::Request(pending) => {
                self.drop_request(&pending);
                pending.connection
            }
            RequestOrigin::Connect { connection, .. } => connection,
            RequestOrigin::NoClient => return,
        };
        connections.with(connection, |connection| connection.close(reason));
    }
}
