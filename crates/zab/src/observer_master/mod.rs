//! The observer master: a follower that serves observers to relieve the leader. It synchronizes them, sends
//! commits, and forwards requests of their clients to the leader. It takes no part in discovery or commits.

mod handshake;
mod liveness;
mod relay;
mod session_owners;
mod to_leader;

use std::collections::BTreeMap;

use zebu_proto::quorum::{Packet, PeerAnnouncement};
use zebu_proto::{ServerId, SessionId, Zxid};

use crate::action::{Action, LinkCloseReason, PeerEffect};
use crate::event::{LinkId, PeerEvent};
use crate::learner_handler::{HandlerStep, LearnerHandler, LearnerReply, ReplicationView, SyncPhase};
use crate::packet_name::packet_name;
use crate::packet_weight;
use crate::peer_context::PeerContext;
use crate::status::LearnerStatus;
use crate::zab_state::ZabState;
use relay::{RequestRelay, Requester};
use session_owners::{PacketSender, SessionOwners};
use to_leader::ToLeader;

/// The observers of a follower, while it serves.
#[derive(Debug)]
pub(crate) struct ObserverMaster {
    /// The epoch of the leader.
    epoch: u32,
    /// The connection to the leader.
    leader_link: LinkId,
    /// What the leader has told about itself: an observer asks for the leader, not for this server.
    leader_zebu: Option<PeerAnnouncement>,
    observers: BTreeMap<LinkId, LearnerHandler>,
    relay: RequestRelay,
    owners: SessionOwners,
    to_leader: ToLeader,
    next_ping_ms: i64,
    /// The configs that were activated since this server follows, each with its designated leader.
    activated_configs: BTreeMap<Zxid, ServerId>,
}

impl ObserverMaster {
    pub(crate) fn new(
        epoch: u32,
        leader: LinkId,
        leader_zebu: Option<PeerAnnouncement>,
        context: &PeerContext<'_>,
    ) -> ObserverMaster {
        ObserverMaster {
            epoch,
            leader_link: leader,
            // Without an announcement of its own, this server passes for Apache ZooKeeper.
            leader_zebu: leader_zebu.filter(|_| context.state.settings.announcement.is_some()),
            observers: BTreeMap::new(),
            relay: RequestRelay::default(),
            owners: SessionOwners::default(),
            to_leader: ToLeader::default(),
            next_ping_ms: context.now_ms + (context.state.settings.tick_ms / 2).max(1),
            activated_configs: BTreeMap::new(),
        }
    }

    /// An observer connected.
    pub(crate) fn accept_observer(&mut self, link: LinkId, now_ms: i64) {
        self.observers.insert(link, LearnerHandler::new(link, now_ms));
    }

    /// All connections, for closing them when the role ends.
    pub(crate) fn links(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.observers.keys().copied()
    }

    pub(crate) fn status(&self) -> Vec<LearnerStatus> {
        self.observers.values().filter_map(LearnerHandler::status).collect()
    }

    /// Handles an event of an observer's connection, and ignores others.
    pub(crate) fn handle(&mut self, event: PeerEvent, context: &mut PeerContext<'_>) {
        match event {
            PeerEvent::LinkDown { link } => drop(self.observers.remove(&link)),
            PeerEvent::Packet { link, packet } => {
                if let Some(observer) = self.observers.get_mut(&link) {
                    observer.last_heard_ms = context.now_ms;
                    let result = self.handle_packet(link, packet, context);
                    self.close_on_error(link, result, context.out);
                }
            }
            PeerEvent::Sent { link, weight } if link == self.leader_link => self.to_leader.left(weight),
            PeerEvent::Sent { link, weight } => {
                if let Some(observer) = self.observers.get_mut(&link) {
                    observer.record_sent(weight, context.now_ms);
                }
                self.with_observer(link, context.state, |observer, view| {
                    observer.send_pending(view, context.out)
                });
            }
            PeerEvent::SnapshotProgress { link } => {
                if let Some(observer) = self.observers.get_mut(&link) {
                    observer.last_heard_ms = context.now_ms;
                }
            }
            PeerEvent::SnapshotSent { link } => {
                self.with_observer(link, context.state, |observer, view| {
                    observer.last_heard_ms = context.now_ms;
                    observer.snapshot_sent(view, context.out);
                });
            }
            PeerEvent::LogRead { link, read } => {
                let result = self.with_observer(link, context.state, |observer, view| {
                    observer.log_read(read, view, context.out)
                });
                self.close_on_error(link, result.unwrap_or(Ok(())), context.out);
            }
            PeerEvent::Notification { .. }
            | PeerEvent::Dialed { .. }
            | PeerEvent::DialFailed { .. }
            | PeerEvent::Accepted { .. }
            | PeerEvent::ObserverAccepted { .. }
            | PeerEvent::SnapshotReceived { .. }
            | PeerEvent::Persisted { .. }
            | PeerEvent::TruncateRefused { .. }
            | PeerEvent::DiskRoom { .. } => {}
        }
    }

    fn handle_packet(
        &mut self,
        link: LinkId,
        packet: Packet,
        context: &mut PeerContext<'_>,
    ) -> Result<(), LinkCloseReason> {
        match packet {
            Packet::ObserverInfo { info, .. } => self.handle_observer_info(link, info, context),
            Packet::AckEpoch { last, .. } => self.handle_ack_epoch(link, last, context),
            Packet::Ack { zxid } => self.handle_ack(link, zxid, context),
            Packet::PingReply { touched, .. } => {
                let server = self.server_of(link);
                self.relay.record_touches(server, touched)
            }
            Packet::Request { .. } | Packet::Revalidate { .. } => {
                self.forward_to_leader(link, packet, context)
            }
            other => Err(self.unexpected_packet(link, &other)),
        }
    }

    /// Forwards a request of an observer to the leader, or refuses it if its session has moved.
    fn forward_to_leader(
        &mut self,
        link: LinkId,
        packet: Packet,
        context: &mut PeerContext<'_>,
    ) -> Result<(), LinkCloseReason> {
        if !self.observers.get(&link).is_some_and(LearnerHandler::is_up_to_date) {
            return Err(self.unexpected_packet(link, &packet));
        }
        let server = self.server_of(link);
        self.relay.has_room_for(server, &packet)?;
        let requester = Requester::Observer(link);
        let settings = &context.state.settings;
        let patience_ms = settings.sync_limit * settings.tick_ms;
        let sender = PacketSender { requester, server, now_ms: context.now_ms, patience_ms };
        let packet = self.owners.check(packet, sender)?;
        self.to_leader.put_relayed(server, packet_weight(&packet))?;
        self.relay.record_from_observer(link, &packet);
        self.owners.record(requester, &packet);
        context.out.push(Action::Peer(PeerEffect::Send { link: self.leader_link, packet }));
        Ok(())
    }

    /// Prepares a packet of this server for the leader. A ping reply also carries the touched sessions of
    /// the observers. A request whose session has moved to an observer is refused.
    pub(crate) fn prepare_for_leader(&mut self, packet: Packet) -> Packet {
        let packet = self.owners.check_own(packet);
        self.relay.record_own(&packet);
        self.owners.record(Requester::ThisServer, &packet);
        let packet = match packet {
            Packet::PingReply { zxid, touched, room } => {
                Packet::PingReply { zxid, touched: self.relay.take_touched(touched), room }
            }
            other => other,
        };
        self.goes_to_leader(&packet);
        packet
    }

    /// Records a packet of this server in the send queue to the leader.
    pub(crate) fn goes_to_leader(&mut self, packet: &Packet) {
        self.to_leader.put_own(packet_weight(packet));
    }

    /// Passes a reply of the leader to an observer, after the commit of `after`. Returns it if it is for
    /// this server.
    pub(crate) fn route_reply(
        &mut self,
        packet: Packet,
        after: Zxid,
        context: &mut PeerContext<'_>,
    ) -> Option<Packet> {
        let requester = self.relay.requester_of(&packet);
        if let Packet::Revalidated { session, valid: false } = packet {
            self.owners.invalid(session, requester.map_or(Requester::ThisServer, Requester::Observer));
        }
        let Some(link) = requester else { return Some(packet) };
        let result = self.with_observer(link, context.state, |observer, view| {
            observer.send_after_commit(LearnerReply { after, packet }, view, context.out)
        });
        self.close_on_error(link, result.unwrap_or(Ok(())), context.out);
        None
    }

    /// A session has ended.
    pub(crate) fn session_ended(&mut self, session: SessionId) {
        self.owners.remove(session);
    }

    /// Records a config that is being activated, with its designated leader.
    pub(crate) fn record_activation(&mut self, zxid: Zxid, leader: ServerId) {
        self.activated_configs.insert(zxid, leader);
    }

    /// The commit position advanced: sends commits to all observers, and synchronizes observers that were
    /// ahead.
    pub(crate) fn handle_commit(&mut self, context: &mut PeerContext<'_>) {
        let links: Vec<LinkId> = self.links().collect();
        for link in links {
            self.with_observer(link, context.state, |observer, view| {
                observer.send_pending(view, context.out)
            });
            self.synchronize(link, context);
        }
    }

    fn handle_ack(
        &mut self,
        link: LinkId,
        zxid: Zxid,
        context: &mut PeerContext<'_>,
    ) -> Result<(), LinkCloseReason> {
        let Some(observer) = self.observers.get_mut(&link) else { return Ok(()) };
        let HandlerStep::Replicating(_, progress) = &mut observer.step else {
            return Err(LinkCloseReason::UnexpectedPacket { step: observer.step.name(), packet: "ACK" });
        };
        if zxid.counter() != 0 {
            // An observer acknowledges only NEWLEADER and UPTODATE. Another ack is a protocol error.
            return Err(LinkCloseReason::UnknownZxid(zxid));
        }
        if let SyncPhase::AwaitingNewLeaderAck { up_to } = progress.phase {
            progress.phase = SyncPhase::NewLeaderAcked;
            progress.acked = progress.acked.max(up_to);
            self.with_observer(link, context.state, |observer, view| {
                observer.send_up_to_date(view, context.out)
            });
        }
        Ok(())
    }

    fn with_observer<R>(
        &mut self,
        link: LinkId,
        state: &ZabState,
        f: impl FnOnce(&mut LearnerHandler, &ReplicationView<'_>) -> R,
    ) -> Option<R> {
        let view = ReplicationView {
            history: &state.history,
            epoch: self.epoch,
            committable: state.committed(),
            delivered: state.delivered(),
            config: &state.settings.config,
            activated_configs: &self.activated_configs,
            send_window: state.settings.send_window,
            oversize: state.oversize,
        };
        self.observers.get_mut(&link).map(|observer| f(observer, &view))
    }

    /// The id of an observer; -1 before it is identified.
    fn server_of(&self, link: LinkId) -> ServerId {
        let identity = self.observers.get(&link).and_then(|observer| observer.step.identity());
        identity.map_or(ServerId(-1), |identity| identity.server)
    }

    fn unexpected_packet(&self, link: LinkId, packet: &Packet) -> LinkCloseReason {
        let step = self.observers.get(&link).map_or("unknown connection", |observer| observer.step.name());
        LinkCloseReason::UnexpectedPacket { step, packet: packet_name(packet) }
    }

    fn close_on_error(&mut self, link: LinkId, result: Result<(), LinkCloseReason>, out: &mut Vec<Action>) {
        if let Err(reason) = result
            && self.observers.remove(&link).is_some()
        {
            out.push(Action::Peer(PeerEffect::Close { link, reason }));
        }
    }
}
