//! Discovery with an observer: OBSERVERINFO, LEADERINFO, ACKEPOCH. The epoch is that of the leader.

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};

use super::ObserverMaster;
use crate::action::{Action, LinkCloseReason};
use crate::event::LinkId;
use crate::learner_handler::{HandlerStep, LearnerIdentity, LearnerPosition, admit};
use crate::peer_context::PeerContext;
use crate::role::Role;

impl ObserverMaster {
    /// Handles OBSERVERINFO.
    pub(super) fn handle_observer_info(
        &mut self,
        link: LinkId,
        info: LearnerInfo,
        context: &mut PeerContext<'_>,
    ) -> Result<(), LinkCloseReason> {
        let settings = &context.state.settings;
        admit(info.server, Role::Observer, self.observers.values(), context.state)?;
        let Some(observer) = self.observers.get_mut(&link) else { return Ok(()) };
        if info.config_version > settings.config_version {
            return Err(LinkCloseReason::NewerConfig(info.config_version));
        }
        if info.protocol < LEARNER_PROTOCOL || !matches!(observer.step, HandlerStep::Unidentified) {
            return Err(LinkCloseReason::UnexpectedPacket {
                step: observer.step.name(),
                packet: "OBSERVERINFO",
            });
        }
        observer.step =
            HandlerStep::EpochProposed(LearnerIdentity { server: info.server, role: Role::Observer });
        observer.zebu = info.zebu;
        let packet = Packet::LeaderInfo {
            zxid: Zxid::new(self.epoch, 0),
            protocol: LEARNER_PROTOCOL,
            zebu: self.leader_zebu,
        };
        observer.send(packet, context.out);
        self.close_older_links(link, context.out);
        Ok(())
    }

    /// Closes older connections of an observer that has reconnected.
    fn close_older_links(&mut self, link: LinkId, out: &mut Vec<Action>) {
        let server = self.observers.get(&link).and_then(|observer| observer.step.identity());
        let is_older = |other: &LinkId| {
            let identity = self.observers.get(other).and_then(|observer| observer.step.identity());
            *other != link && identity.is_some() && identity == server
        };
        let older: Vec<LinkId> = self.links().filter(is_older).collect();
        for other in older {
            self.close_on_error(other, Err(LinkCloseReason::Replaced), out);
        }
    }

    /// Handles ACKEPOCH.
    pub(super) fn handle_ack_epoch(
        &mut self,
        link: LinkId,
        last: Zxid,
        context: &mut PeerContext<'_>,
    ) -> Result<(), LinkCloseReason> {
        let Some(observer) = self.observers.get_mut(&link) else { return Ok(()) };
        let HandlerStep::EpochProposed(identity) = observer.step else {
            return Err(LinkCloseReason::UnexpectedPacket { step: observer.step.name(), packet: "ACKEPOCH" });
        };
        observer.step = HandlerStep::EpochAcked(identity, LearnerPosition { last });
        self.synchronize(link, context);
        Ok(())
    }

    /// Starts the synchronization of an observer. An observer that is ahead of this server in the same epoch
    /// waits until this server has caught up. Its transactions are committed and must not be truncated.
    pub(super) fn synchronize(&mut self, link: LinkId, context: &mut PeerContext<'_>) {
        let step = self.observers.get(&link).map(|observer| &observer.step);
        if let Some(HandlerStep::EpochAcked(_, position)) = step {
            let is_ahead = position.last > context.state.committed() && position.last.epoch() == self.epoch;
            if !is_ahead || position.last.counter() == 0 {
                self.with_observer(link, context.state, |observer, view| {
                    observer.synchronize(view, context.out)
                });
            }
        }
    }
}
