//! How a peer changes its role: it applies the election's effects, enters a role, ends it, and looks for a
//! leader again when the disk is idle.

use zebu_proto::ServerId;
use zebu_proto::quorum::ServerState;

use super::{ActiveRole, Peer};
use crate::action::{Action, LinkCloseReason, PeerEffect, ServingRole};
use crate::election::{self, Candidacy, ElectionResult};
use crate::event::LinkId;
use crate::leader::Leader;
use crate::learner::{Learner, LearnerMasters, LearnerStart, hash3};
use crate::observer_master::ObserverMaster;
use crate::peer_context::PeerContext;
use crate::settings::{DiskTrust, PeerSettings};
use crate::step_down::{RetryDelay, StepDown};

/// The long delay before an election, in multiples of `retry_ms`.
const LONG_PAUSE_RETRIES: i64 = 8;

impl Peer {
    /// Executes the effects of the elector.
    pub(super) fn apply_election_effects(
        &mut self,
        effects: Vec<election::ElectionEffect>,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        let mut election_result = None;
        for effect in effects {
            match effect {
                election::ElectionEffect::Send { to, notification } => {
                    out.push(Action::Peer(PeerEffect::Notify { to, notification }))
                }
                election::ElectionEffect::Elected(elected) => election_result = Some(elected),
            }
        }
        if let Some(election_result) = election_result {
            let result = self.enter_role(election_result, now_ms, out);
            self.after_event(result, now_ms, out);
        }
    }

    fn enter_role(
        &mut self,
        election_result: ElectionResult,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), StepDown> {
        match election_result.state {
            ServerState::Leading => {
                let leader = Leader::new(&mut PeerContext { state: &mut self.state, now_ms, out })?;
                self.role = ActiveRole::Leading(Box::new(leader));
            }
            ServerState::Following => {
                let masters = LearnerMasters::leader_only(election_result.leader);
                self.start_learner(election_result, masters, LearnerStart { now_ms, pause_ms: 0 }, out);
            }
            ServerState::Observing => {
                self.observe_attempts += 1;
                let masters =
                    LearnerMasters::for_observer(election_result.leader, self.observe_attempts, &self.state);
                let pause_ms = self.random_delay(self.state.settings.observer.reconnect_delay_ms);
                self.start_learner(election_result, masters, LearnerStart { now_ms, pause_ms }, out);
            }
            ServerState::Looking => {}
        }
        Ok(())
    }

    fn start_learner(
        &mut self,
        election_result: ElectionResult,
        masters: LearnerMasters,
        start: LearnerStart,
        out: &mut Vec<Action>,
    ) {
        let link = next_link(&mut self.links_dialed);
        self.role = ActiveRole::Learning(Box::new(Learner::new(election_result, masters, link, start, out)));
    }

    /// A pseudo-random delay below `below_ms`, different for each attempt.
    fn random_delay(&self, below_ms: i64) -> i64 {
        let PeerSettings { me, observer: observing, .. } = &self.state.settings;
        let number =
            hash3(observing.seed, me.0 as u64, self.observe_attempts.wrapping_add(self.links_dialed << 32));
        if below_ms > 0 { (number % below_ms as u64) as i64 } else { 0 }
    }

    /// Runs after every event. It ends the role, tells the elector an established epoch, or starts the next
    /// election.
    pub(super) fn after_event(&mut self, result: Result<(), StepDown>, now_ms: i64, out: &mut Vec<Action>) {
        if let Err(end) = result {
            self.end_role(&end, now_ms, out);
        }
        if let Some(
            ServingRole::Leading { epoch }
            | ServingRole::Following { epoch, .. }
            | ServingRole::Observing { epoch, .. },
        ) = self.serving()
        {
            self.elector.set_established_epoch(i64::from(epoch));
        }
        if let Some(settings) = self.state.take_elector_update() {
            self.elector.reconfigure(settings);
        }
        self.state.trim();
        if let ActiveRole::AwaitingDisk { until_ms, lost_leader: lost } = self.role
            && until_ms <= now_ms
            && self.state.disk.is_idle()
            && !self.state.rewind_if_needed(now_ms, out)
        {
            self.role = ActiveRole::Looking;
            match self.state.designated_leader.take() {
                Some(leader) if self.may_follow_designated(leader) => {
                    let mut effects = Vec::new();
                    let logged_state = self.state.logged_state(Candidacy::Normal);
                    self.elector.set_designated_leader(leader, logged_state, &mut effects);
                    self.apply_election_effects(effects, now_ms, out);
                }
                _ => self.look_for_leader(lost, now_ms, out),
            }
        }
    }

    /// Starts an election. `lost` is the leader whose connection was lost.
    pub(super) fn look_for_leader(&mut self, lost: Option<ServerId>, now_ms: i64, out: &mut Vec<Action>) {
        if self.state.rewind_if_needed(now_ms, out) {
            self.role = ActiveRole::AwaitingDisk { until_ms: now_ms, lost_leader: lost };
            return;
        }
        if let Some(settings) = self.state.take_elector_update() {
            self.elector.reconfigure(settings);
        }
        let mut effects = Vec::new();
        let logged_state = self.state.logged_state(self.state.disk_health.candidacy(now_ms));
        self.elector.look_for_leader(logged_state, lost, now_ms, &mut effects);
        self.apply_election_effects(effects, now_ms, out);
    }

    /// Whether the designated leader can be adopted. This server itself only if it may lead.
    fn may_follow_designated(&self, leader: ServerId) -> bool {
        let me = self.state.settings.me;
        leader != me || (self.elector.may_lead(me) && self.state.trust == DiskTrust::Trusted)
    }

    pub(super) fn end_role(&mut self, end: &StepDown, now_ms: i64, out: &mut Vec<Action>) {
        if self.serving().is_some() {
            out.push(Action::StopServing);
        }
        match &self.role {
            ActiveRole::Leading(leader) => {
                for link in leader.links() {
                    out.push(Action::Peer(PeerEffect::Close { link, reason: end.reason.clone() }));
                }
            }
            ActiveRole::Learning(learner) => {
                let link = learner.link();
                out.push(Action::Peer(PeerEffect::Close { link, reason: end.reason.clone() }));
                out.push(Action::Peer(PeerEffect::DiscardSnapshot { link }));
                for link in learner.observer_master().into_iter().flat_map(ObserverMaster::links) {
                    out.push(Action::Peer(PeerEffect::Close { link, reason: LinkCloseReason::RoleEnded }));
                }
            }
            ActiveRole::AwaitingDisk { .. } | ActiveRole::Looking | ActiveRole::Stopped => {}
        }
        let lost = match &self.role {
            // A lost observer master does not mean that the leader is lost.
            ActiveRole::Learning(learner) => {
                Some(learner.leader()).filter(|leader| *leader == learner.master())
            }
            ActiveRole::AwaitingDisk { .. }
            | ActiveRole::Looking
            | ActiveRole::Leading(_)
            | ActiveRole::Stopped => None,
        };
        let wait_ms = self.election_delay();
        // A restart would not know an announced config, or one that is not in the log.
        self.state.drop_pending_after(self.state.history.last());
        self.state.drop_announced();
        self.state.discard_leader_replies();
        self.role = match end.retry_delay {
            _ if self.is_stopping => ActiveRole::Stopped,
            RetryDelay::None => ActiveRole::AwaitingDisk { until_ms: now_ms + wait_ms, lost_leader: lost },
            // The leader is reachable, but refused or failed this server.
            RetryDelay::Short => ActiveRole::AwaitingDisk {
                until_ms: now_ms + self.state.settings.retry_ms,
                lost_leader: None,
            },
            RetryDelay::Long => {
                let until_ms = now_ms + LONG_PAUSE_RETRIES * self.state.settings.retry_ms;
                ActiveRole::AwaitingDisk { until_ms, lost_leader: None }
            }
        };
    }

    /// Many observers may lose one master at the same time; a random delay spreads their elections. A
    /// designated leader needs no delay.
    fn election_delay(&self) -> i64 {
        match self.serving() {
            Some(ServingRole::Observing { .. }) if self.state.designated_leader.is_none() => {
                self.random_delay(self.state.settings.observer.election_delay_ms)
            }
            Some(_) | None => 0,
        }
    }
}

pub(super) fn next_link(links_dialed: &mut u64) -> LinkId {
    *links_dialed += 1;
    LinkId::dialed(*links_dialed)
}
