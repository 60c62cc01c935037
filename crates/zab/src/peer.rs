//! A server of an ensemble: it looks for a leader, leads, follows or observes. The elector lives as long as
//! the peer. A role ends with its connections. The next election starts when the disk is idle, so a vote
//! names exactly what a restart would recover.

mod role_changes;

use zebu_proto::quorum::{Notification, Packet, PeerAnnouncement, ServerState};
use zebu_proto::{ServerId, SessionId, Zxid};

use crate::action::{Action, LinkCloseReason, PeerEffect, ServingRole};
use crate::disk_health::HandOverRefusal;
use crate::election::{Candidacy, Elector};
use crate::encoded_txn::EncodedTxn;
use crate::event::{LinkId, LogRead, PeerEvent, PingNumber};
use crate::leader::Leader;
use crate::learner::Learner;
use crate::learner_handler::LearnerReply;
use crate::membership::Configuration;
use crate::observer_master::ObserverMaster;
use crate::peer_context::PeerContext;
use crate::settings::{DiskTrust, PeerSettings, RecoveredHistory};
use crate::status::PeerStatus;
use crate::step_down::StepDown;
use crate::zab_state::ZabState;
use role_changes::next_link;

/// A server of an ensemble.
#[derive(Debug)]
pub struct Peer {
    state: ZabState,
    elector: Elector,
    role: ActiveRole,
    /// The number of connections that were dialed.
    links_dialed: u64,
    /// The number of times this server became an observer.
    observe_attempts: u64,
    /// Whether [`Peer::resign`] was called.
    is_stopping: bool,
}

/// The activity of the peer.
#[derive(Debug)]
enum ActiveRole {
    /// Waits for the disk, or for a delay, before the next election.
    AwaitingDisk {
        until_ms: i64,
        /// The leader whose connection was lost.
        lost_leader: Option<ServerId>,
    },
    /// In an election.
    Looking,
    /// Elected as leader.
    Leading(Box<Leader>),
    /// Follower or observer.
    Learning(Box<Learner>),
    /// Stopped after [`Peer::resign`].
    Stopped,
}

impl Peer {
    /// Starts the first election.
    pub fn new(
        settings: PeerSettings,
        recovered: RecoveredHistory,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Peer {
        let state = ZabState::new(settings, recovered);
        let mut effects = Vec::new();
        let elector = Elector::new(
            state.elector_settings(),
            state.logged_state(Candidacy::Normal),
            now_ms,
            &mut effects,
        );
        let mut peer = Peer {
            state,
            elector,
            role: ActiveRole::Looking,
            links_dialed: 0,
            observe_attempts: 0,
            is_stopping: false,
        };
        peer.apply_election_effects(effects, now_ms, out);
        peer
    }

    /// Handles an event.
    pub fn handle(&mut self, event: PeerEvent, now_ms: i64, out: &mut Vec<Action>) {
        if let PeerEvent::Persisted { io } = event {
            self.state.persisted(io, out);
            let durable = self.state.disk.durable();
            self.state.disk_health.appends.finish(durable, now_ms);
        }
        if let PeerEvent::DiskRoom { room } = event {
            self.state.disk_health.room = room;
        }
        if let PeerEvent::LogRead { read: LogRead::Entries(entries), .. } = &event {
            entries.iter().for_each(|entry| self.state.record_oversize(entry));
        }
        if let PeerEvent::TruncateRefused { io } = event {
            self.state.disk.mark_persisted(io);
            self.state.handle_rewind_refused(io, now_ms, out);
        }
        let result = match (&mut self.role, event) {
            (ActiveRole::Stopped, PeerEvent::Notification { .. }) => Ok(()),
            (ActiveRole::Learning(learner), PeerEvent::ObserverAccepted { link }) => {
                learner.accept_observer(link, &mut PeerContext { state: &mut self.state, now_ms, out });
                Ok(())
            }
            (_, PeerEvent::ObserverAccepted { link }) => {
                out.push(Action::Peer(PeerEffect::Close { link, reason: LinkCloseReason::NotFollowing }));
                Ok(())
            }
            (ActiveRole::Looking, PeerEvent::Notification { notification, .. })
                if self.state.adopt_newer(&notification, out) =>
            {
                // The voters have changed: the election restarts with a new vote.
                self.look_for_leader(None, now_ms, out);
                Ok(())
            }
            (_, PeerEvent::Notification { from, notification }) => {
                self.state.learn_addresses(from, &notification, out);
                let mut effects = Vec::new();
                self.elector.handle_notification(from, &notification, now_ms, &mut effects);
                let abandoned = self.is_abandoned_by(from, &notification);
                self.apply_election_effects(effects, now_ms, out);
                if abandoned { Err(StepDown::for_reason(LinkCloseReason::OtherLeader)) } else { Ok(()) }
            }
            (ActiveRole::Leading(leader), event) => {
                leader.handle(event, &mut PeerContext { state: &mut self.state, now_ms, out })
            }
            (_, PeerEvent::Accepted { link }) => {
                out.push(Action::Peer(PeerEffect::Close { link, reason: LinkCloseReason::NotLeading }));
                Ok(())
            }
            (ActiveRole::Learning(learner), event) => {
                learner.handle(event, &mut PeerContext { state: &mut self.state, now_ms, out })
            }
            (ActiveRole::AwaitingDisk { .. } | ActiveRole::Looking | ActiveRole::Stopped, _) => Ok(()),
        };
        self.after_event(result, now_ms, out);
    }

    /// Does the work that is due now.
    pub fn timeout(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let result = match &mut self.role {
            ActiveRole::AwaitingDisk { .. } | ActiveRole::Stopped => Ok(()),
            ActiveRole::Looking => {
                let mut effects = Vec::new();
                self.elector.timeout(now_ms, &mut effects);
                self.apply_election_effects(effects, now_ms, out);
                Ok(())
            }
            ActiveRole::Leading(leader) => {
                leader.timeout(&mut PeerContext { state: &mut self.state, now_ms, out })
            }
            ActiveRole::Learning(learner) => {
                let links_dialed = &mut self.links_dialed;
                let context = &mut PeerContext { state: &mut self.state, now_ms, out };
                learner.timeout(|| next_link(links_dialed), context)
            }
        };
        self.after_event(result, now_ms, out);
    }

    /// The next time at which [`Peer::timeout`] has work to do.
    pub fn next_deadline(&self) -> i64 {
        match &self.role {
            ActiveRole::AwaitingDisk { until_ms, .. } if self.state.disk.is_idle() => *until_ms,
            ActiveRole::AwaitingDisk { .. } | ActiveRole::Stopped => i64::MAX,
            ActiveRole::Looking => self.elector.next_deadline().unwrap_or(i64::MAX),
            ActiveRole::Leading(leader) => leader.deadline(),
            ActiveRole::Learning(learner) => learner.deadline(&self.state),
        }
    }

    /// The zxid for the next proposal. `None` if this server does not lead, or if the epoch has no counter
    /// left and the leader resigns.
    pub fn next_zxid(&self) -> Option<Zxid> {
        match &self.role {
            ActiveRole::Leading(leader) => leader.next_zxid(&self.state),
            ActiveRole::AwaitingDisk { .. }
            | ActiveRole::Looking
            | ActiveRole::Learning(_)
            | ActiveRole::Stopped => None,
        }
    }

    /// Proposes a transaction with the zxid that [`Peer::next_zxid`] returned.
    pub fn propose(&mut self, entry: EncodedTxn, now_ms: i64, out: &mut Vec<Action>) {
        match &mut self.role {
            ActiveRole::Leading(leader) => {
                leader.propose(entry, &mut PeerContext { state: &mut self.state, now_ms, out })
            }
            ActiveRole::AwaitingDisk { .. }
            | ActiveRole::Looking
            | ActiveRole::Learning(_)
            | ActiveRole::Stopped => panic!("only a leader proposes"),
        }
    }

    /// The last proposal of this leader, or the last transaction of its initial history.
    pub fn last_proposed(&self) -> Zxid {
        self.state.history.last()
    }

    /// Sends a packet to a learner after the commit of `after`.
    pub fn reply_to_learner(&mut self, link: LinkId, after: Zxid, packet: Packet, out: &mut Vec<Action>) {
        if let ActiveRole::Leading(leader) = &mut self.role {
            leader.send_after_commit(link, LearnerReply { after, packet }, &self.state, out);
        }
    }

    /// Whether a quorum has answered a ping sent at `since_ms` or later. Until then no other leader was
    /// established.
    pub fn has_quorum_since(&self, since_ms: i64) -> bool {
        matches!(&self.role, ActiveRole::Leading(leader) if leader.has_quorum_since(since_ms))
    }

    /// Starts a quorum check. Once [`Peer::quorum_has_answered`] is true, no other leader was established at
    /// the time of this call.
    pub fn start_quorum_check(&mut self, now_ms: i64, out: &mut Vec<Action>) -> PingNumber {
        match &mut self.role {
            ActiveRole::Leading(leader) => {
                leader.start_quorum_check(&mut PeerContext { state: &mut self.state, now_ms, out })
            }
            ActiveRole::AwaitingDisk { .. }
            | ActiveRole::Looking
            | ActiveRole::Learning(_)
            | ActiveRole::Stopped => PingNumber(u64::MAX),
        }
    }

    /// Whether a quorum has answered this ping, or a later one.
    pub fn quorum_has_answered(&self, ping: PingNumber) -> bool {
        matches!(&self.role, ActiveRole::Leading(leader) if leader.quorum_has_answered(ping))
    }

    /// What the leader has told about itself; this server's own announcement if it leads.
    pub fn leader_announcement(&self) -> Option<PeerAnnouncement> {
        match &self.role {
            ActiveRole::Leading(_) => self.state.settings.announcement,
            ActiveRole::Learning(learner) => learner.leader_announcement(),
            ActiveRole::AwaitingDisk { .. } | ActiveRole::Looking | ActiveRole::Stopped => None,
        }
    }

    /// Sends a packet to the leader of this serving learner.
    pub fn send_to_leader(&mut self, packet: Packet, out: &mut Vec<Action>) {
        if let ActiveRole::Learning(learner) = &mut self.role {
            learner.send_to_leader(packet, self.state.disk_health.room, out);
        }
    }

    /// A session has ended. An observer master forgets which of its observers had it.
    pub fn session_ended(&mut self, session: SessionId) {
        if let ActiveRole::Learning(learner) = &mut self.role {
            learner.session_ended(session);
        }
    }

    /// Moves the data of this server aside because its state differs from the leader's, and requests a
    /// snapshot. This needs a leader that had its quorum without this server. Otherwise the leader's state
    /// may be the wrong one, and a quorum must not lose its data. Returns whether the data is moved aside.
    pub fn quarantine_data(&mut self, now_ms: i64, out: &mut Vec<Action>) -> bool {
        match &mut self.role {
            ActiveRole::Learning(learner) => {
                learner.quarantine_data(&mut PeerContext { state: &mut self.state, now_ms, out })
            }
            ActiveRole::AwaitingDisk { .. }
            | ActiveRole::Looking
            | ActiveRole::Leading(_)
            | ActiveRole::Stopped => false,
        }
    }

    /// Ends the role before the server stops. A leader first commits its proposals, then the other servers
    /// elect a new one.
    pub fn resign(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        self.is_stopping = true;
        let result = match &mut self.role {
            ActiveRole::Leading(leader) => leader.resign(&self.state),
            ActiveRole::AwaitingDisk { .. }
            | ActiveRole::Looking
            | ActiveRole::Learning(_)
            | ActiveRole::Stopped => Err(StepDown::for_reason(LinkCloseReason::Resigned)),
        };
        self.after_event(result, now_ms, out);
    }

    /// Hands over the leadership because an operator asks for it. This server goes on as a follower.
    ///
    /// # Errors
    /// See [`HandOverRefusal`].
    pub fn hand_over(&mut self, now_ms: i64, out: &mut Vec<Action>) -> Result<(), HandOverRefusal> {
        let ActiveRole::Leading(leader) = &mut self.role else { return Err(HandOverRefusal::NotLeader) };
        leader.hand_over_as_asked(&mut PeerContext { state: &mut self.state, now_ms, out })?;
        let ended = leader.finish_resignation(&self.state);
        self.after_event(ended, now_ms, out);
        Ok(())
    }

    /// Whether the tree may grow: a quorum of voters has room for it, as far as this leader knows.
    pub fn quorum_has_room(&self) -> bool {
        match &self.role {
            ActiveRole::Leading(leader) => leader.quorum_has_room(&self.state),
            ActiveRole::AwaitingDisk { .. }
            | ActiveRole::Looking
            | ActiveRole::Learning(_)
            | ActiveRole::Stopped => true,
        }
    }

    /// Whether [`Peer::resign`] is complete.
    pub fn has_resigned(&self) -> bool {
        matches!(self.role, ActiveRole::Stopped)
    }

    /// Whether this server is in an election and its recovered data is complete, so that it may serve reads.
    pub fn can_serve_read_only(&self) -> bool {
        matches!(self.role, ActiveRole::Looking) && self.state.trust == DiskTrust::Trusted
    }

    /// Whether the leader sees each move of a session between this learner and another server. It does not
    /// see moves between the servers behind one observer master.
    pub fn shows_moves(&self) -> bool {
        match &self.role {
            ActiveRole::Learning(learner) => {
                learner.observer_master().is_none() && learner.master() == learner.leader()
            }
            ActiveRole::AwaitingDisk { .. }
            | ActiveRole::Looking
            | ActiveRole::Leading(_)
            | ActiveRole::Stopped => false,
        }
    }

    /// The committed config, if dynamic reconfiguration is enabled.
    pub fn configuration(&self) -> Option<&Configuration> {
        self.state.configuration()
    }

    /// The proposed config that is not committed.
    pub fn pending_configuration(&self) -> Option<&Configuration> {
        self.state.pending_configuration()
    }

    /// Whether the synced followers of this leader are a quorum of a config.
    pub fn has_quorum_of(&self, configuration: &Configuration) -> bool {
        match &self.role {
            ActiveRole::Leading(leader) => leader.has_quorum_of(configuration, &self.state),
            ActiveRole::AwaitingDisk { .. }
            | ActiveRole::Looking
            | ActiveRole::Learning(_)
            | ActiveRole::Stopped => false,
        }
    }

    /// The status of the peer.
    pub fn status(&self) -> PeerStatus {
        let (leader, learners) = match &self.role {
            ActiveRole::Leading(leader) => (Some(self.state.settings.me), leader.status()),
            ActiveRole::Learning(learner) => {
                let observers = learner.observer_master().map(ObserverMaster::status);
                (Some(learner.leader()), observers.unwrap_or_default())
            }
            ActiveRole::AwaitingDisk { .. } | ActiveRole::Looking | ActiveRole::Stopped => (None, Vec::new()),
        };
        PeerStatus {
            state: match &self.role {
                ActiveRole::AwaitingDisk { .. } | ActiveRole::Looking | ActiveRole::Stopped => {
                    ServerState::Looking
                }
                ActiveRole::Leading(_) | ActiveRole::Learning(_) => self.elector.state(),
            },
            leader,
            master: match &self.role {
                ActiveRole::Learning(learner) => Some(learner.master()),
                ActiveRole::AwaitingDisk { .. }
                | ActiveRole::Looking
                | ActiveRole::Leading(_)
                | ActiveRole::Stopped => None,
            },
            accepted_epoch: self.state.accepted_epoch,
            current_epoch: self.state.current_epoch,
            logged: self.state.history.last(),
            durable: self.state.disk.durable(),
            history_bytes: self.state.history.bytes(),
            collected_bytes: match &self.role {
                ActiveRole::Learning(learner) => learner.collected_bytes(),
                ActiveRole::AwaitingDisk { .. }
                | ActiveRole::Looking
                | ActiveRole::Leading(_)
                | ActiveRole::Stopped => 0,
            },
            blocked_weight: match &self.role {
                ActiveRole::Learning(learner) => learner.blocked_weight(),
                ActiveRole::AwaitingDisk { .. }
                | ActiveRole::Looking
                | ActiveRole::Leading(_)
                | ActiveRole::Stopped => 0,
            },
            committed: self.state.committed(),
            disk: self.state.disk_health.status(),
            learners,
        }
    }

    /// Whether this server is without a role: in an election, or before one.
    pub fn is_looking(&self) -> bool {
        match &self.role {
            ActiveRole::AwaitingDisk { .. } | ActiveRole::Looking | ActiveRole::Stopped => true,
            ActiveRole::Leading(_) | ActiveRole::Learning(_) => false,
        }
    }

    /// The role in which it serves clients.
    pub fn serving(&self) -> Option<ServingRole> {
        match &self.role {
            ActiveRole::Leading(leader) => leader.serving(),
            ActiveRole::Learning(learner) => learner.serving(),
            ActiveRole::AwaitingDisk { .. } | ActiveRole::Looking | ActiveRole::Stopped => None,
        }
    }

    /// Whether a server that this leader needs for its quorum started a later election or follows another
    /// leader. It will not connect, so the leader need not wait for the time limit.
    fn is_abandoned_by(&mut self, from: ServerId, notification: &Notification) -> bool {
        let Peer { role, state, elector, .. } = self;
        match role {
            ActiveRole::Leading(leader) if state.settings.quorum.is_voter(from) => match notification.state {
                ServerState::Looking => {
                    notification.round > elector.round() && leader.lacks_quorum_without(from, state)
                }
                ServerState::Following if notification.leader != state.settings.me => {
                    leader.lost_to_other_leader([from, notification.leader], state)
                }
                ServerState::Following | ServerState::Leading | ServerState::Observing => false,
            },
            ActiveRole::Leading(_) => false,
            ActiveRole::AwaitingDisk { .. }
            | ActiveRole::Looking
            | ActiveRole::Learning(_)
            | ActiveRole::Stopped => false,
        }
    }
}
