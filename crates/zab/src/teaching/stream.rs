//! What flows to a learner: its cursor moves through the history as fast as it takes things. Commits go before
//! new proposals; one that has fallen behind the memory is fed from the log.

use std::collections::BTreeMap;

use zebu_proto::quorum::Packet;
use zebu_proto::{ServerId, Zxid};

use super::learner_link::{Cursor, Kind, LearnerLink, Phase, Reading, Step as LearnerStep};
use crate::action::Action;
use crate::entry::Entry;
use crate::event::LinkId;
use crate::history::History;
use crate::weight;

/// What comes next on a connection.
enum Next {
    Send(Packet),
    ReadLog { after: Zxid },
    Nothing,
}

/// A transaction that is wanted.
enum Found {
    Entry(Entry),
    /// The log has it.
    InLog,
    None,
}

/// What a cursor moves along.
pub(crate) struct Course<'a> {
    pub(crate) history: &'a History,
    pub(crate) epoch: u32,
    /// The end of what may be committed to learners.
    pub(crate) decided: Zxid,
    /// The end of what the state holds.
    pub(crate) delivered: Zxid,
    pub(crate) config: &'a str,
    /// Configurations that took effect, with whom they made the leader.
    pub(crate) activated: &'a BTreeMap<Zxid, ServerId>,
    /// How much may wait on a connection.
    pub(crate) window: usize,
    /// The last transaction that is known to be longer than every learner reads.
    pub(crate) oversize: Option<Zxid>,
}

impl LearnerLink {
    /// Sends a packet whatever waits already.
    pub(crate) fn send(&mut self, link: LinkId, packet: Packet, out: &mut Vec<Action>) {
        self.waiting += weight(&packet);
        out.push(Action::Send { link, packet });
    }

    /// Sends a packet behind the commit of a transaction.
    pub(crate) fn answer(
        &mut self,
        link: LinkId,
        after: Zxid,
        packet: Packet,
        course: &Course<'_>,
        out: &mut Vec<Action>,
    ) {
        if let LearnerStep::Flowing(_, cursor) = &mut self.step {
            cursor.answers.push_back((after, packet));
            self.pump(link, course, out);
        }
    }

    /// Sends what a learner can take.
    pub(crate) fn pump(&mut self, link: LinkId, course: &Course<'_>, out: &mut Vec<Action>) {
        let LearnerStep::Flowing(identity, cursor) = &mut self.step else { return };
        while self.waiting < course.window {
            match cursor.next(identity.kind, course) {
                Next::Send(packet) => {
                    self.waiting += weight(&packet);
                    out.push(Action::Send { link, packet });
                }
                Next::ReadLog { after } => {
                    cursor.reading = Reading::Asked;
                    out.push(Action::ReadLog { link, after, up_to: course.history.floor() });
                    return;
                }
                Next::Nothing => return,
            }
        }
    }
}

impl Course<'_> {
    /// Whether a learner that has everything up to here lacks a transaction that it may be unable to read, and that a
    /// snapshot holds.
    pub(crate) fn has_oversize_after(&self, last: Zxid) -> bool {
        self.oversize.is_some_and(|oversize| last < oversize && oversize <= self.delivered)
    }

    fn commit(&self, zxid: Zxid) -> Packet {
        match self.activated.get(&zxid) {
            Some(&designated_leader) => Packet::CommitAndActivate { zxid, designated_leader },
            None => Packet::Commit { zxid },
        }
    }
}

impl Cursor {
    fn next(&mut self, kind: Kind, course: &Course<'_>) -> Next {
        match self.phase {
            Phase::Catching { up_to } => self.catch_up(kind, up_to, course),
            Phase::AwaitingAck { .. } | Phase::Accepted => match kind {
                Kind::Follower => self.propose(course),
                Kind::Observer => Next::Nothing,
            },
            Phase::UpToDate => {
                if let Some((after, _)) = self.answers.front()
                    && *after <= self.committed
                    && let Some((_, packet)) = self.answers.pop_front()
                {
                    return Next::Send(packet);
                }
                match kind {
                    Kind::Follower if self.committed < self.proposed.min(course.decided) => {
                        // Behind the initial history all transactions are of this epoch, without a hole.
                        self.committed = next_zxid(self.committed, course.epoch);
                        Next::Send(course.commit(self.committed))
                    }
                    Kind::Follower => self.propose(course),
                    Kind::Observer => self.inform(course.decided, course),
                }
            }
        }
    }

    /// Decided transactions, each with its commit; then the word that this is the history.
    fn catch_up(&mut self, kind: Kind, up_to: Zxid, course: &Course<'_>) -> Next {
        if self.committed < self.proposed {
            self.committed = self.proposed;
            return Next::Send(Packet::Commit { zxid: self.committed });
        }
        if self.proposed < up_to {
            return match kind {
                Kind::Follower => self.propose(course),
                Kind::Observer => self.inform(up_to, course),
            };
        }
        self.phase = Phase::AwaitingAck { up_to };
        self.acked = self.proposed;
        Next::Send(Packet::NewLeader {
            zxid: Zxid::new(course.epoch, 0),
            config: Some(course.config.as_bytes().into()),
        })
    }

    fn propose(&mut self, course: &Course<'_>) -> Next {
        match self.find(self.proposed, course.history) {
            Found::Entry(Entry { zxid, bytes }) => {
                self.proposed = zxid;
                Next::Send(Packet::Proposal { zxid, entry: bytes })
            }
            Found::InLog => Next::ReadLog { after: self.proposed },
            Found::None => Next::Nothing,
        }
    }

    fn inform(&mut self, up_to: Zxid, course: &Course<'_>) -> Next {
        if self.proposed >= up_to {
            return Next::Nothing;
        }
        match self.find(self.proposed, course.history) {
            Found::Entry(Entry { zxid, bytes }) if zxid <= up_to => {
                self.proposed = zxid;
                self.committed = zxid;
                // During synchronisation the configuration comes with the word that this is the history.
                match course.activated.get(&zxid) {
                    Some(&designated_leader) if self.phase == Phase::UpToDate => {
                        Next::Send(Packet::InformAndActivate { zxid, designated_leader, entry: bytes })
                    }
                    _ => Next::Send(Packet::Inform { zxid, entry: bytes }),
                }
            }
            Found::InLog => Next::ReadLog { after: self.proposed },
            Found::Entry(_) | Found::None => Next::Nothing,
        }
    }

    /// The transaction behind `after`, from what was read or from memory.
    fn find(&mut self, after: Zxid, history: &History) -> Found {
        if let Reading::Here(entries) = &mut self.reading {
            while entries.front().is_some_and(|entry| entry.zxid <= after) {
                entries.pop_front();
            }
            if let Some(entry) = entries.pop_front() {
                return Found::Entry(entry);
            }
            self.reading = Reading::Nothing;
        }
        if after >= history.floor() {
            return history.after(after).cloned().map_or(Found::None, Found::Entry);
        }
        match self.reading {
            Reading::Asked => Found::None,
            Reading::Nothing | Reading::Here(_) => Found::InLog,
        }
    }
}

/// The zxid behind another one, where all that follow are of this epoch.
pub(crate) fn next_zxid(zxid: Zxid, epoch: u32) -> Zxid {
    if zxid.epoch() == epoch { Zxid(zxid.0 + 1) } else { Zxid::new(epoch, 1) }
}
