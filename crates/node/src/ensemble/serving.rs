//! When a member begins and ends to serve. A role begins with the tree as it is and leaves nothing behind.

use zebu_proto::quorum::Packet;
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{LinkId, Serving};

use super::orders::Order;
use crate::agreement::Decided;
use crate::clock::Moment;
use crate::core::{Node, Role, Snapshots};
use crate::deciding::Decider;
use crate::lane::{CloseReason, Lanes, Phase, Upstream};
use crate::learning::Learner;
use crate::replica::Replica;

impl Node {
    /// Takes up a role. Everything that was decided before is applied.
    pub(crate) fn begin_serving(
        &mut self,
        serving: Serving,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        self.desk.term += 1;
        self.order(Order::Serve(serving));
        self.role = match serving {
            Serving::Leading { .. } => {
                let mut decider = Decider::new(&self.desk, Upstream::Leading, replica, now);
                decider.close_orphans(&mut self.desk, replica, lanes, now);
                Role::Deciding(Box::new(decider))
            }
            Serving::Following { .. } | Serving::Observing { .. } => {
                Role::Learning(Box::new(Learner::new(&self.desk)))
            }
        };
    }

    /// Gives up the role: every client is closed, and nothing is kept of what was asked for.
    pub(crate) fn stop_serving(&mut self, lanes: &mut impl Lanes) {
        let Some(member) = self.desk.member() else { return };
        member.decided.retain(|decided| match decided {
            Decided::Serve(_) | Decided::FromLearner { .. } => false,
            Decided::Transaction(_) | Decided::Broken(_) | Decided::StreamSnapshot { .. } => true,
        });
        for lane in std::mem::take(&mut member.lanes) {
            lanes.with(lane, |lane| {
                // Who has said farewell still gets the last answer.
                if lane.phase != Phase::Draining || lane.waiting() > 0 {
                    lane.close(CloseReason::NotServing);
                }
            });
        }
        match std::mem::replace(&mut self.role, Role::Idle) {
            Role::Deciding(decider) => decider.give_up(&mut self.desk, lanes),
            Role::Learning(learner) => learner.give_up(&mut self.desk, lanes),
            Role::Reading(_) => {}
            Role::Idle => return,
        }
        self.order(Order::StopServing);
    }

    /// Takes a learner's packet, at once or when this server has come so far.
    pub(crate) fn hear_learner(
        &mut self,
        link: LinkId,
        server: ServerId,
        packet: Packet,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        match (&mut self.role, self.desk.member()) {
            (Role::Deciding(decider), _) => {
                decider.hear_learner(&mut self.desk, link, packet, replica, lanes, now);
            }
            (Role::Idle, Some(member)) if member.is_about_to_serve() => {
                member.decided.push_back(Decided::FromLearner { link, server, packet });
            }
            // It spoke to a leader that is none any more.
            (Role::Idle | Role::Reading(_) | Role::Learning(_), _) => {}
        }
    }

    /// Takes the leader's packet, which stands behind the transaction `after`.
    pub(crate) fn hear_leader(
        &mut self,
        packet: Packet,
        after: Zxid,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        match (&mut self.role, packet) {
            (Role::Learning(learner), packet) => {
                learner.hear_leader(&mut self.desk, packet, after, replica, lanes, now);
            }
            // It is still applying what was decided before it serves.
            (Role::Idle, Packet::Ping { zxid }) => {
                if let Some(member) = self.desk.member() {
                    member.tell_leader(Packet::PingReply { zxid, touched: Vec::new() });
                }
            }
            (Role::Idle | Role::Reading(_) | Role::Deciding(_), _) => {}
        }
    }

    /// The tree of a member that does not serve may hold what was never decided.
    pub(crate) fn snapshots(&self) -> Snapshots {
        match self.role {
            Role::Deciding(_) | Role::Learning(_) => Snapshots::Allowed,
            Role::Reading(_) | Role::Idle => Snapshots::Forbidden,
        }
    }
}
