//! The effects of the node, executed in their order.

use zebu_node::{AfterAppend, Effect, ServeEffect};
use zebu_proto::quorum::Notification;
use zebu_zab::{ConfigEffect, DiskCommand, ObserverLog, PeerEffect, PeerEvent, ServingRole};

use super::{Process, Service, TreeOrigin, Work};
use crate::context::SimContext;
use crate::coverage::CoveredPath;
use crate::network::Host;
use crate::queue::SimEvent;

impl Process {
    pub(super) fn execute(&mut self, effect: Effect, core: &mut SimContext) {
        match effect {
            Effect::Peer(effect) => self.execute_peer(effect, core),
            Effect::Append { io, batch } => {
                if self.leads.is_some() {
                    core.checker.leader_appends(self.server, batch.last.0, self.turns);
                }
                let after = batch.after;
                self.work.push_back(Work::Append(batch, io));
                if after == AfterAppend::RollAndSnapshot {
                    self.begin_snapshot(core);
                }
            }
            Effect::Disk(command) => {
                let received = match &command {
                    DiskCommand::InstallSnapshot { link, .. } => self.received.remove(link),
                    _ => None,
                };
                self.work.push_back(Work::Command(command, received));
            }
            Effect::Config(ConfigEffect::PersistProposed { configuration }) => {
                self.remember(configuration, core);
            }
            Effect::Config(ConfigEffect::LearnAddresses { configuration }) => {
                self.locate(&configuration, core);
            }
            Effect::Config(ConfigEffect::Activate { configuration }) => self.activate(configuration, core),
            Effect::Report(finding) => core.trace_line(format_args!("s{} reports: {finding}", self.server)),
            Effect::Serve(ServeEffect::Serve(serving)) => self.serve(serving, core),
            Effect::Serve(ServeEffect::ServeReadOnly) => self.serve_read_only(core),
            Effect::Serve(ServeEffect::Stop) => self.stop_serving(core),
        }
    }

    fn execute_peer(&mut self, effect: PeerEffect, core: &mut SimContext) {
        match effect {
            PeerEffect::Notify { to, notification } => self.notify(to.0 as usize - 1, &notification, core),
            PeerEffect::Dial { link, to, port } => {
                let to = to.0 as usize - 1;
                if self.can_dial(to) {
                    self.dial(link, to, port, core);
                } else {
                    core.trace_line(format_args!("s{} does not know where s{to} is", self.server));
                    self.peer_event(PeerEvent::DialFailed { link });
                }
            }
            PeerEffect::Send { link, packet } => self.send_packet(link, packet, core),
            PeerEffect::Close { link, reason } => self.close_link(link, &reason, core),
            PeerEffect::PauseReading { link } => self.pause_reading(link, core),
            PeerEffect::ResumeReading { link } => self.resume_reading(link),
            PeerEffect::StreamSnapshot { link, .. } => self.send_snapshot(link),
            PeerEffect::ReadLog { link, after, up_to, purpose } => self.read_log(link, after, up_to, purpose),
            PeerEffect::LoadReceived { link, entries } => {
                // As in the server, a snapshot that cannot apply its transactions is missing at its
                // installation.
                if let Some(mut received) = self.received.remove(&link)
                    && received.load(entries).is_ok()
                {
                    self.received.insert(link, received);
                }
            }
            PeerEffect::DiscardSnapshot { link } => {
                self.received.remove(&link);
            }
        }
    }

    fn notify(&self, to: usize, notification: &Notification, core: &mut SimContext) {
        if !self.can_tell(to) {
            return;
        }
        let mut bytes = Vec::new();
        notification.encode(&mut bytes);
        let at = core.notification_due(Host(self.server), Host(to));
        core.trace_line(format_args!(
            "s{} votes to s{to}: {:?} for s{} at {} in round {}",
            self.server,
            notification.state,
            notification.leader.0.wrapping_sub(1),
            notification.zxid,
            notification.round
        ));
        if let Some(at) = at {
            core.push(at, SimEvent::Notification { from: self.server, to, bytes });
        }
    }

    fn stop_serving(&mut self, core: &mut SimContext) {
        core.trace_line(format_args!("s{} stops serving", self.server));
        // A snapshot that is being written continues: its transactions are committed.
        self.service = Service::Closed;
        self.roles += 1;
        self.had_led = self.leads.is_some();
        self.leads = None;
        core.checker.quiet.disturb_server(self.server, core.now);
    }

    fn serve_read_only(&mut self, core: &mut SimContext) {
        let last = self.replica.last_zxid();
        core.trace_line(format_args!("s{} serves reads only at {last}: {:?}", self.server, self.tree_origin));
        self.service = Service::ReadOnly(last);
        self.roles += 1;
        core.checker.quiet.disturb_server(self.server, core.now);
        core.count(CoveredPath::ReadOnlyService);
        if self.tree_origin == TreeOrigin::Loaded {
            core.count(CoveredPath::ReadOnlyLoadedLog);
        }
        let digest = self.replica.tree().digest();
        core.checker.serving_read_only(self.server, last.0, digest, self.tree_origin);
    }

    fn serve(&mut self, serving: ServingRole, core: &mut SimContext) {
        core.trace_line(format_args!("s{} serves: {serving:?} at {}", self.server, self.replica.last_zxid()));
        self.service = Service::Open;
        self.tree_origin = TreeOrigin::Committed;
        self.roles += 1;
        core.checker.quiet.disturb_server(self.server, core.now);
        if let ServingRole::Leading { epoch } = serving {
            self.leads = Some(epoch);
            core.counts.leaders += 1;
        }
        if matches!(serving, ServingRole::Observing { .. })
            && core.parameters.kinds.observer_log == ObserverLog::InMemory
        {
            core.count(CoveredPath::MemoryObserverSynced);
        }
        let last = self.replica.last_zxid().0;
        core.checker.serving(self.server, self.incarnation, serving, last);
        self.has_served = true;
        let metrics = self.replica.metrics();
        let carried_over = (metrics.connections_continued.total(), metrics.requests_repeated.total());
        if carried_over.0 > self.carried_over.0 {
            core.count(CoveredPath::ConnectionsContinued);
            if self.had_led {
                core.count(CoveredPath::LeaderClientsContinued);
            }
        }
        if carried_over.1 > self.carried_over.1 {
            core.count(CoveredPath::RequestsRepeated);
        }
        self.carried_over = carried_over;
        self.observed = None;
        self.show_state(core);
    }
}
