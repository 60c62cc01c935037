//! What the leader says to a learner beside transactions. Its answers stand behind the transactions that they speak
//! of; those may be committed and not applied yet, and then the answers wait for them.

use zebu_proto::quorum::Packet;
use zebu_proto::{SessionId, Zxid};

use super::session::{Returning, turn_away};
use super::{Learner, tell};
use crate::clock::Moment;
use crate::core::{Desk, answer_sync};
use crate::lane::{CloseReason, LaneId, Lanes};
use crate::replica::Replica;

/// An answer, and the last transaction before it.
#[derive(Debug)]
pub(super) struct Told {
    after: Zxid,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    /// This sync is done.
    Synced { lane: LaneId, slot: u64 },
    /// The session lives; this connection may have it.
    Valid { session: SessionId, returning: Returning },
}

impl Told {
    pub(super) fn syncing(&self) -> Option<(LaneId, u64)> {
        match self.answer {
            Answer::Synced { lane, slot } => Some((lane, slot)),
            Answer::Valid { .. } => None,
        }
    }
}

impl Learner {
    /// Takes a packet that is not agreement's business. It stands behind the transaction `after`.
    pub(crate) fn hear_leader(
        &mut self,
        desk: &mut Desk,
        packet: Packet,
        after: Zxid,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        match packet {
            Packet::Ping { zxid } => {
                let touched = self.take_touched(desk.settings.tick_ms, lanes, now);
                tell(desk, Packet::PingReply { zxid, touched });
            }
            Packet::Sync => {
                if let Some((lane, slot)) = self.syncing.pop_front() {
                    let answer = Answer::Synced { lane, slot };
                    self.tell(desk, Told { after, answer }, replica, lanes, now);
                }
            }
            Packet::Revalidated { session, valid } => match self.next_returning(session) {
                Some(returning) if valid => {
                    let answer = Answer::Valid { session, returning };
                    self.tell(desk, Told { after, answer }, replica, lanes, now);
                }
                Some(returning) => turn_away(returning, lanes),
                None => {}
            },
            // Whatever else a leader may say is agreement's business.
            _ => {}
        }
    }

    fn tell(&mut self, desk: &mut Desk, told: Told, replica: &Replica, lanes: &mut impl Lanes, now: Moment) {
        self.told.push_back(told);
        self.release(desk, replica, lanes, now);
    }

    /// The first answer that the tree has reached. A leader may speak of a session that it has begun to make global
    /// before that is decided; such a session holds up its own answer only.
    fn next_reached(&self, replica: &Replica) -> Option<usize> {
        let is_in_the_making = |told: &Told| match told.answer {
            Answer::Valid { session, .. } => self.forwarding.is_making(session),
            Answer::Synced { .. } => false,
        };
        let reached = self.told.iter().take_while(|told| told.after <= replica.last_zxid());
        reached.map(is_in_the_making).position(|is_in_the_making| !is_in_the_making)
    }

    /// Passes on the answers that the tree has reached.
    pub(super) fn release(
        &mut self,
        desk: &mut Desk,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        while let Some(index) = self.next_reached(replica) {
            let Some(Told { answer, .. }) = self.told.remove(index) else { return };
            match answer {
                Answer::Synced { lane, slot } => {
                    desk.answered += 1;
                    lanes.with(lane, |lane| {
                        if lane.is_idle() {
                            // It was closed meanwhile.
                        } else if lane.is_first(slot) {
                            answer_sync(lane, slot, replica, now.monotonic_ms);
                        } else {
                            lane.close(CloseReason::AnsweredOutOfOrder);
                        }
                    });
                }
                Answer::Valid { session, returning } => {
                    self.welcome(desk, session, returning, replica, lanes, now);
                }
            }
        }
    }
}
