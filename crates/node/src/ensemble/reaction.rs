//! What a member does about what its peer wants: most becomes an order for whoever runs it, some is for its role,
//! and whatever speaks of the state waits until the state is there.

use zebu_proto::Zxid;
use zebu_zab::{Action, Entry, LinkId};

use super::orders::{DiskOrder, Order};
use crate::agreement::{Agreement, Decided, read};
use crate::clock::Moment;
use crate::core::{Desk, Node, Role};
use crate::deciding::TakenUp;
use crate::lane::Lanes;
use crate::replica::Replica;

impl Node {
    /// Does what the peer wants until it wants nothing more.
    pub(crate) fn settle(&mut self, replica: &Replica, lanes: &mut impl Lanes, now: Moment) {
        self.mind_solitude(lanes, now);
        loop {
            while let Some(member) = self.desk.member()
                && !member.wanted.is_empty()
            {
                let spare = std::mem::take(&mut member.spare);
                let mut actions = std::mem::replace(&mut member.wanted, spare);
                for action in actions.drain(..) {
                    self.react(action, replica, lanes, now);
                }
                if let Some(member) = self.desk.member() {
                    member.spare = actions;
                }
            }
            // What was just heard may be what others wait for.
            let taken_up = match &mut self.role {
                Role::Deciding(decider) => decider.take_up(&mut self.desk, replica, lanes, now),
                Role::Learning(_) | Role::Reading(_) | Role::Idle => TakenUp::Nothing,
            };
            if taken_up == TakenUp::Nothing {
                return;
            }
        }
    }

    fn react(&mut self, action: Action, replica: &Replica, lanes: &mut impl Lanes, now: Moment) {
        match action {
            Action::Notify { to, notification } => self.order(Order::Notify { to, notification }),
            Action::Dial { link, to, door } => self.order(Order::Dial { link, to, door }),
            Action::Send { link, packet } => self.order(Order::Send { link, packet }),
            Action::Close { link, reason } => {
                self.forget_stream(link);
                self.order(Order::Close { link, reason });
            }
            Action::Report(finding) => self.order(Order::Report(finding)),
            Action::StreamSnapshot { link, zxid } => {
                self.in_turn(Decided::StreamSnapshot { link, zxid }, replica, lanes, now);
            }
            Action::ReadLog { link, after, up_to, purpose } => {
                self.order(Order::ReadLog { link, after, up_to, purpose });
            }
            Action::Append { io, entry } => {
                let Desk { agreement, batch, .. } = &mut self.desk;
                if let Agreement::Member(member) = agreement {
                    batch.append_payload(entry.zxid, &entry.bytes);
                    member.orders.appended(io);
                }
            }
            Action::Truncate { io, to } => {
                self.forget_decided_behind(to, lanes);
                self.order_disk(DiskOrder::Truncate { io, to });
            }
            Action::InstallSnapshot { io, link, tail, zxid } => {
                self.forget_decided(lanes);
                self.desk.digests.state_received();
                self.order_disk(DiskOrder::InstallSnapshot { io, link, tail, zxid });
            }
            Action::DiscardSnapshot { link } => self.order(Order::DiscardSnapshot { link }),
            Action::SetAside { io } => {
                self.forget_decided(lanes);
                self.desk.digests.state_received();
                self.order_disk(DiskOrder::SetAside { io });
            }
            Action::MarkTrusted { io } => self.order_disk(DiskOrder::MarkTrusted { io }),
            Action::SaveAcceptedEpoch { io, epoch } => {
                self.order_disk(DiskOrder::SaveAcceptedEpoch { io, epoch });
            }
            Action::SaveCurrentEpoch { io, epoch } => {
                self.order_disk(DiskOrder::SaveCurrentEpoch { io, epoch });
            }
            Action::Remember { configuration } => self.order(Order::Remember { configuration }),
            Action::Locate { configuration } => self.order(Order::Locate { configuration }),
            Action::Activate { configuration } => self.order(Order::Activate { configuration }),
            Action::Deliver(entry) | Action::Load(entry) => self.deliver(&entry),
            Action::Serve(serving) => self.in_turn(Decided::Serve(serving), replica, lanes, now),
            Action::StopServing => self.stop_serving(lanes),
            Action::FromLearner { link, server, packet } => {
                self.hear_learner(link, server, packet, replica, lanes, now);
            }
            Action::LearnerLost { link } => {
                if let Role::Deciding(decider) = &mut self.role {
                    decider.lose_learner(link);
                }
            }
            Action::FromLeader { packet, after } => self.hear_leader(packet, after, replica, lanes, now),
        }
    }

    pub(crate) fn order(&mut self, order: Order) {
        if let Some(member) = self.desk.member() {
            member.orders.push(order);
        }
    }

    fn order_disk(&mut self, order: DiskOrder) {
        let snapshots = self.snapshots();
        let Desk { agreement, batch, random, .. } = &mut self.desk;
        if let Agreement::Member(member) = agreement {
            member.orders.push_disk(order, batch, random, snapshots);
        }
    }

    /// A transaction is decided and on disk. Those of this leader are known, with who waits for them.
    fn deliver(&mut self, entry: &Entry) {
        let own = match &mut self.role {
            Role::Deciding(decider) => decider.next_up_to(entry.zxid),
            Role::Learning(_) | Role::Reading(_) | Role::Idle => None,
        };
        let decided = match own {
            Some(proposal) => {
                let zxid = proposal.entry.header.zxid;
                assert_eq!(zxid, entry.zxid, "what a leader has proposed is decided in order");
                Decided::Transaction(proposal)
            }
            None => read(entry),
        };
        if let Some(member) = self.desk.member() {
            member.decided.push_back(decided);
        }
    }

    /// Begins something that needs the state as it is now: at once if nothing is left to apply.
    fn in_turn(&mut self, decided: Decided, replica: &Replica, lanes: &mut impl Lanes, now: Moment) {
        let Some(member) = self.desk.member() else { return };
        if !member.decided.is_empty() {
            member.decided.push_back(decided);
            return;
        }
        match decided {
            Decided::Serve(serving) => self.begin_serving(serving, replica, lanes, now),
            Decided::StreamSnapshot { link, zxid } => self.order(Order::StreamSnapshot { link, zxid }),
            Decided::Transaction(_) | Decided::Broken(_) | Decided::FromLearner { .. } => {
                unreachable!("{decided:?} goes its own way")
            }
        }
    }

    /// Another state takes the place of the present one: what was decided before is part of it, or of nothing.
    fn forget_decided(&mut self, lanes: &mut impl Lanes) {
        let Some(member) = self.desk.member() else { return };
        for decided in std::mem::take(&mut member.decided) {
            if let Decided::Transaction(proposal) = decided {
                self.desk.give_up(proposal.origin, lanes);
            }
        }
    }

    /// An observer without a log goes back to what is on disk: what it has not applied yet comes again.
    fn forget_decided_behind(&mut self, to: Zxid, lanes: &mut impl Lanes) {
        let Some(member) = self.desk.member() else { return };
        let is_behind = |decided: &Decided| matches!(decided, Decided::Transaction(proposal) if proposal.entry.header.zxid > to);
        let (behind, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut member.decided).into_iter().partition(is_behind);
        member.decided = rest.into();
        for decided in behind {
            if let Decided::Transaction(proposal) = decided {
                self.desk.give_up(proposal.origin, lanes);
            }
        }
    }

    fn forget_stream(&mut self, closed: LinkId) {
        if let Some(member) = self.desk.member() {
            member.decided.retain(
                |decided| !matches!(decided, Decided::StreamSnapshot { link, .. } if *link == closed),
            );
        }
    }
}
