//! What is answered without a transaction, but not before the transactions that were on the way when it came are
//! applied.

use zebu_proto::Zxid;
use zebu_proto::client::connect::ReadOnlyField;

use super::Decider;
use crate::agreement::Origin;
use crate::clock::Moment;
use crate::core::{Desk, answer_sync};
use crate::lane::{LaneId, LaneSession, Lanes};
use crate::replica::Replica;

#[derive(Debug)]
pub(super) struct Waiting {
    after: Zxid,
    whom: Whom,
}

#[derive(Debug)]
enum Whom {
    /// A connection that takes up a session again. Some transactions may be writes of the session's former
    /// connection; the client must not read a state in which they have neither happened nor failed.
    Resuming { lane: LaneId, session: LaneSession, read_only: ReadOnlyField },
    /// A sync.
    Syncing { lane: LaneId, slot: u64 },
}

impl Waiting {
    pub(super) fn origin(&self) -> Origin {
        match self.whom {
            Whom::Resuming { lane, read_only, .. } => Origin::Connect { lane, read_only },
            Whom::Syncing { lane, slot } => Origin::Request { lane, slot },
        }
    }
}

impl Decider {
    /// Hands a session to a connection when everything that is on the way is applied.
    pub(super) fn accept_in_turn(
        &mut self,
        desk: &mut Desk,
        (lane, session, read_only): (LaneId, LaneSession, ReadOnlyField),
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        self.in_turn(desk, Whom::Resuming { lane, session, read_only }, replica, lanes, now);
    }

    /// Answers a sync when everything that is proposed is applied.
    pub(super) fn sync(
        &mut self,
        desk: &mut Desk,
        (lane, slot): (LaneId, u64),
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        self.in_turn(desk, Whom::Syncing { lane, slot }, replica, lanes, now);
    }

    fn in_turn(
        &mut self,
        desk: &mut Desk,
        whom: Whom,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let waiting = Waiting { after: self.last, whom };
        if self.last <= replica.last_zxid() {
            self.serve(desk, waiting, replica, lanes, now);
        } else {
            self.waiting.push_back(waiting);
        }
    }

    /// Answers those that waited for nothing behind `applied`.
    pub(super) fn release(
        &mut self,
        desk: &mut Desk,
        applied: Zxid,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        while self.waiting.front().is_some_and(|waiting| waiting.after <= applied) {
            let Some(waiting) = self.waiting.pop_front() else { return };
            self.serve(desk, waiting, replica, lanes, now);
        }
    }

    fn serve(
        &mut self,
        desk: &mut Desk,
        waiting: Waiting,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        if !desk.can_confirm() {
            desk.give_up(waiting.origin(), lanes);
            return;
        }
        match waiting.whom {
            Whom::Resuming { lane, session, read_only } => {
                self.accept(desk, (lane, session, read_only), lanes, now);
            }
            Whom::Syncing { lane, slot } => {
                desk.answered += 1;
                lanes.with(lane, |lane| answer_sync(lane, slot, replica, now.monotonic_ms));
            }
        }
    }
}
