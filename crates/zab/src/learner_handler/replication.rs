//! Replication to one learner. The position of the learner advances as fast as the send window allows.
//! Commits go before new proposals. A learner behind the history in memory is served from the log.

use std::collections::BTreeMap;

use zebu_proto::quorum::Packet;
use zebu_proto::{ServerId, Zxid};

use super::handler::{HandlerStep, LearnerHandler, LearnerReply, LogFetch, ReplicationProgress, SyncPhase};
use crate::action::{Action, LinkCloseReason, LogPurpose, PeerEffect};
use crate::encoded_txn::EncodedTxn;
use crate::history::History;
use crate::packet_weight;
use crate::role::Role;

/// The number of replies that may wait for one learner. Each is a SYNC or a revalidation, so the number
/// bounds the bytes.
const REPLIES_MAX: usize = 1 << 18;

/// The next packet for a connection.
enum NextPacket {
    Send(Packet),
    ReadLog { after: Zxid },
    None,
}

/// The result of a lookup in the history.
enum HistoryLookup {
    Entry(EncodedTxn),
    /// The transaction is in the log only.
    InLog,
    NotYet,
}

/// The history and the settings that a learner handler needs.
pub(crate) struct ReplicationView<'a> {
    pub(crate) history: &'a History,
    pub(crate) epoch: u32,
    /// The last transaction that learners may commit.
    pub(crate) committable: Zxid,
    /// The last transaction of the state.
    pub(crate) delivered: Zxid,
    pub(crate) config: &'a str,
    /// The activated configs, each with its designated leader.
    pub(crate) activated_configs: &'a BTreeMap<Zxid, ServerId>,
    /// The weight above which a send queue gets no further packets.
    pub(crate) send_window: usize,
    /// The last transaction that is larger than every learner can read.
    pub(crate) oversize: Option<Zxid>,
}

impl LearnerHandler {
    /// Sends a packet, whatever the send queue holds.
    pub(crate) fn send(&mut self, packet: Packet, out: &mut Vec<Action>) {
        self.in_flight_weight += packet_weight(&packet);
        out.push(Action::Peer(PeerEffect::Send { link: self.link, packet }));
    }

    /// Sends a reply when its transaction is committed. Refuses it if too many replies wait, because the
    /// learner does not read them.
    pub(crate) fn send_after_commit(
        &mut self,
        reply: LearnerReply,
        view: &ReplicationView<'_>,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkCloseReason> {
        if let HandlerStep::Replicating(identity, progress) = &mut self.step {
            if progress.replies.len() >= REPLIES_MAX {
                let (server, what) = (identity.server, "replies wait to be sent to it");
                return Err(LinkCloseReason::RelayFull { server, limit: REPLIES_MAX, what });
            }
            progress.replies.push_back(reply);
            self.send_pending(view, out);
        }
        Ok(())
    }

    /// Sends as much as the send window allows.
    pub(crate) fn send_pending(&mut self, view: &ReplicationView<'_>, out: &mut Vec<Action>) {
        let HandlerStep::Replicating(identity, progress) = &mut self.step else { return };
        while self.in_flight_weight < view.send_window {
            match progress.next_packet(identity.role, view) {
                NextPacket::Send(packet) => {
                    self.in_flight_weight += packet_weight(&packet);
                    out.push(Action::Peer(PeerEffect::Send { link: self.link, packet }));
                }
                NextPacket::ReadLog { after } => {
                    progress.log_fetch = LogFetch::Requested;
                    let (up_to, purpose) = (view.history.floor(), LogPurpose::Continue);
                    out.push(Action::Peer(PeerEffect::ReadLog { link: self.link, after, up_to, purpose }));
                    return;
                }
                NextPacket::None => return,
            }
        }
    }
}

impl ReplicationView<'_> {
    /// Whether a learner with this last transaction lacks an oversize one that the snapshot contains.
    pub(crate) fn has_oversize_after(&self, last: Zxid) -> bool {
        self.oversize.is_some_and(|oversize| last < oversize && oversize <= self.delivered)
    }

    fn commit_packet(&self, zxid: Zxid) -> Packet {
        match self.activated_configs.get(&zxid) {
            Some(&designated_leader) => Packet::CommitAndActivate { zxid, designated_leader },
            None => Packet::Commit { zxid },
        }
    }
}

impl ReplicationProgress {
    fn next_packet(&mut self, role: Role, view: &ReplicationView<'_>) -> NextPacket {
        match self.phase {
            SyncPhase::SendingDiff { up_to } => self.next_diff_packet(role, up_to, view),
            SyncPhase::AwaitingNewLeaderAck { .. } | SyncPhase::NewLeaderAcked => match role {
                Role::Participant => self.next_proposal(view),
                Role::Observer => NextPacket::None,
            },
            SyncPhase::UpToDate => {
                if self.replies.front().is_some_and(|reply| reply.after <= self.committed)
                    && let Some(reply) = self.replies.pop_front()
                {
                    return NextPacket::Send(reply.packet);
                }
                match role {
                    Role::Participant if self.committed < self.proposed.min(view.committable) => {
                        // After the initial history all transactions have this epoch, without gaps.
                        self.committed = next_zxid(self.committed, view.epoch);
                        NextPacket::Send(view.commit_packet(self.committed))
                    }
                    Role::Participant => self.next_proposal(view),
                    Role::Observer => self.next_inform(view.committable, view),
                }
            }
        }
    }

    /// The next packet of a DIFF: each transaction with its commit, then NEWLEADER.
    fn next_diff_packet(&mut self, role: Role, up_to: Zxid, view: &ReplicationView<'_>) -> NextPacket {
        if self.committed < self.proposed {
            self.committed = self.proposed;
            return NextPacket::Send(Packet::Commit { zxid: self.committed });
        }
        if self.proposed < up_to {
            return match role {
                Role::Participant => self.next_proposal(view),
                Role::Observer => self.next_inform(up_to, view),
            };
        }
        self.phase = SyncPhase::AwaitingNewLeaderAck { up_to };
        self.acked = self.proposed;
        NextPacket::Send(Packet::NewLeader {
            zxid: Zxid::new(view.epoch, 0),
            config: Some(view.config.as_bytes().into()),
        })
    }

    fn next_proposal(&mut self, view: &ReplicationView<'_>) -> NextPacket {
        match self.lookup(self.proposed, view.history) {
            HistoryLookup::Entry(EncodedTxn { zxid, bytes }) => {
                self.proposed = zxid;
                NextPacket::Send(Packet::Proposal { zxid, entry: bytes })
            }
            HistoryLookup::InLog => NextPacket::ReadLog { after: self.proposed },
            HistoryLookup::NotYet => NextPacket::None,
        }
    }

    fn next_inform(&mut self, up_to: Zxid, view: &ReplicationView<'_>) -> NextPacket {
        if self.proposed >= up_to {
            return NextPacket::None;
        }
        match self.lookup(self.proposed, view.history) {
            HistoryLookup::Entry(EncodedTxn { zxid, bytes }) if zxid <= up_to => {
                self.proposed = zxid;
                self.committed = zxid;
                // During synchronization the config comes with NEWLEADER.
                match view.activated_configs.get(&zxid) {
                    Some(&designated_leader) if self.phase == SyncPhase::UpToDate => {
                        NextPacket::Send(Packet::InformAndActivate { zxid, designated_leader, entry: bytes })
                    }
                    _ => NextPacket::Send(Packet::Inform { zxid, entry: bytes }),
                }
            }
            HistoryLookup::InLog => NextPacket::ReadLog { after: self.proposed },
            HistoryLookup::Entry(_) | HistoryLookup::NotYet => NextPacket::None,
        }
    }

    /// The transaction after `after`, from the log read or from memory.
    fn lookup(&mut self, after: Zxid, history: &History) -> HistoryLookup {
        if let LogFetch::Ready(entries) = &mut self.log_fetch {
            while entries.front().is_some_and(|entry| entry.zxid <= after) {
                entries.pop_front();
            }
            if let Some(entry) = entries.pop_front() {
                return HistoryLookup::Entry(entry);
            }
            self.log_fetch = LogFetch::Idle;
        }
        if after >= history.floor() {
            return history.after(after).cloned().map_or(HistoryLookup::NotYet, HistoryLookup::Entry);
        }
        match self.log_fetch {
            LogFetch::Requested => HistoryLookup::NotYet,
            LogFetch::Idle | LogFetch::Ready(_) => HistoryLookup::InLog,
        }
    }
}

/// The zxid after another one, if all later transactions have this epoch.
pub(crate) fn next_zxid(zxid: Zxid, epoch: u32) -> Zxid {
    if zxid.epoch() == epoch { Zxid(zxid.0 + 1) } else { Zxid::new(epoch, 1) }
}
