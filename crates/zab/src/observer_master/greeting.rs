//! From the connection of an observer to the beginning of its synchronisation. There is nothing to agree on: the
//! epoch is that of the leader.

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};

use super::ObserverMaster;
use crate::action::{Action, CloseReason};
use crate::event::LinkId;
use crate::member::Member;
use crate::teaching::{Identity, Kind, LearnerStep, Position, admit};

impl ObserverMaster {
    /// An observer says who it is.
    pub(super) fn introduce(
        &mut self,
        link: LinkId,
        info: LearnerInfo,
        member: &Member,
        out: &mut Vec<Action>,
    ) -> Result<(), CloseReason> {
        let settings = &member.settings;
        admit(info.server, Kind::Observer, self.observers.values(), member)?;
        let Some(observer) = self.observers.get_mut(&link) else { return Ok(()) };
        if info.config_version > settings.config_version {
            return Err(CloseReason::NewerConfig(info.config_version));
        }
        if info.protocol < LEARNER_PROTOCOL || !matches!(observer.step, LearnerStep::Stranger) {
            return Err(CloseReason::OutOfPlace { step: observer.step.name(), packet: "OBSERVERINFO" });
        }
        observer.step = LearnerStep::Promising(Identity { server: info.server, kind: Kind::Observer });
        let packet = Packet::LeaderInfo { zxid: Zxid::new(self.epoch, 0), protocol: LEARNER_PROTOCOL };
        observer.send(link, packet, out);
        self.replace_older(link, out);
        Ok(())
    }

    /// A server that comes again has given up its older connection, whatever that looks like from here.
    fn replace_older(&mut self, link: LinkId, out: &mut Vec<Action>) {
        let server = self.observers.get(&link).and_then(|observer| observer.step.identity());
        let is_older = |other: &LinkId| {
            let identity = self.observers.get(other).and_then(|observer| observer.step.identity());
            *other != link && identity.is_some() && identity == server
        };
        let older: Vec<LinkId> = self.links().filter(is_older).collect();
        for other in older {
            self.close_if_wrong(other, Err(CloseReason::Replaced), out);
        }
    }

    /// An observer says what it has.
    pub(super) fn begin(
        &mut self,
        link: LinkId,
        last: Zxid,
        member: &Member,
        out: &mut Vec<Action>,
    ) -> Result<(), CloseReason> {
        let Some(observer) = self.observers.get_mut(&link) else { return Ok(()) };
        let LearnerStep::Promising(identity) = observer.step else {
            return Err(CloseReason::OutOfPlace { step: observer.step.name(), packet: "ACKEPOCH" });
        };
        observer.step = LearnerStep::Promised(identity, Position { last });
        self.synchronise(link, member, out);
        Ok(())
    }

    /// Begins to bring an observer up to date, unless it has heard more of this epoch than this server: then it is
    /// this server that has to catch up, and nothing is taken back.
    pub(super) fn synchronise(&mut self, link: LinkId, member: &Member, out: &mut Vec<Action>) {
        let step = self.observers.get(&link).map(|observer| &observer.step);
        if let Some(LearnerStep::Promised(_, position)) = step {
            let is_ahead = position.last > member.committed() && position.last.epoch() == self.epoch;
            if !is_ahead || position.last.counter() == 0 {
                self.teach(link, member, |observer, course| observer.synchronise(link, course, out));
            }
        }
    }
}
