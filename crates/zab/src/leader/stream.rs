//! What flows to a learner: its cursor moves through the history as fast as it takes things. Commits go before
//! new proposals; one that has fallen behind the memory is fed from the log.

use std::collections::BTreeMap;

use zebu_proto::quorum::Packet;
use zebu_proto::{ServerId, Zxid};

use super::learner_link::{Cursor, Kind, Phase, Reading, Step as LearnerStep};
use super::{Leader, Step};
use crate::action::Action;
use crate::entry::Entry;
use crate::event::LinkId;
use crate::history::History;
use crate::member::Member;
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
struct Course<'a> {
    history: &'a History,
    epoch: u32,
    decided: Zxid,
    config: &'a str,
    /// Configurations that took effect, with whom they made the leader.
    activated: &'a BTreeMap<Zxid, ServerId>,
}

impl Leader {
    /// Sends a packet whatever waits already.
    pub(super) fn send(&mut self, link: LinkId, packet: Packet, out: &mut Vec<Action>) {
        if let Some(learner) = self.learners.get_mut(&link) {
            learner.waiting += weight(&packet);
            out.push(Action::Send { link, packet });
        }
    }

    pub(super) fn pump_all(&mut self, member: &Member, out: &mut Vec<Action>) {
        let links: Vec<LinkId> = self.links().collect();
        for link in links {
            self.pump(link, member, out);
        }
    }

    /// Sends what a learner can take.
    pub(super) fn pump(&mut self, link: LinkId, member: &Member, out: &mut Vec<Action>) {
        let Some(epoch) = self.epoch() else { return };
        let decided = self.decided(member);
        let config = match &self.step {
            Step::Synchronising(_) => member.last_seen_text(),
            _ => &member.settings.config,
        };
        let activated = &self.activated;
        let course = Course { history: &member.history, epoch, decided, config, activated };
        let Some(learner) = self.learners.get_mut(&link) else { return };
        let LearnerStep::Flowing(identity, cursor) = &mut learner.step else { return };
        while learner.waiting < member.settings.window {
            match cursor.next(identity.kind, &course) {
                Next::Send(packet) => {
                    learner.waiting += weight(&packet);
                    out.push(Action::Send { link, packet });
                }
                Next::ReadLog { after } => {
                    cursor.reading = Reading::Asked;
                    out.push(Action::ReadLog { link, after, up_to: member.history.floor() });
                    return;
                }
                Next::Nothing => return,
            }
        }
    }
}

impl Course<'_> {
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
pub(super) fn next_zxid(zxid: Zxid, epoch: u32) -> Zxid {
    if zxid.epoch() == epoch { Zxid(zxid.0 + 1) } else { Zxid::new(epoch, 1) }
}
