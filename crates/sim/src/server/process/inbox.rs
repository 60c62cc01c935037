//! The pending events of the node. The core of a real server takes all pending events as one batch: first
//! those of peers and the disk, then the requests of clients. Connections read the tree in between. The
//! sender of an event may be gone, or may have another role, when the event is processed.

use zebu_node::{AnsweredRequests, ConnectionId, Effect, Node, Now};
use zebu_runtime::{DiskEvent, Edge, ExclusiveWork, SharedWork, config_to_show};
use zebu_tree::Tree;
use zebu_zab::PeerEvent;

use super::{Death, PlannedStop, Process, TreeOrigin};
use crate::context::SimContext;
use crate::queue::{SimEvent, VirtualTime};

/// An event that is processed before client requests.
#[derive(Debug)]
pub(super) enum Urgent {
    Peer(PeerEvent),
    Disk(DiskEvent),
}

/// The events that the node has not processed yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    urgent: Vec<Urgent>,
    events: Vec<zebu_node::ClientEvent>,
    /// When the node processes them.
    turn_at: Option<VirtualTime>,
}

impl Inbox {
    pub(super) fn urgent(&mut self, urgent: Urgent) {
        self.urgent.push(urgent);
    }

    pub(super) fn event(&mut self, event: zebu_node::ClientEvent) {
        self.events.push(event);
    }

    fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.events.is_empty()
    }
}

impl Process {
    /// Schedules the node after an event: at once, or after a while together with later events.
    pub(crate) fn settle(&mut self, core: &mut SimContext) -> Result<(), Death> {
        if core.parameters.turn == 0 {
            return self.take_turn(core);
        }
        self.pump_clients(core);
        self.schedule_feeds(core);
        self.flush_links(core);
        self.schedule_turn(core);
        self.check_power()
    }

    fn schedule_turn(&mut self, core: &mut SimContext) {
        if !self.inbox.is_empty() && self.inbox.turn_at.is_none() {
            let at = core.now + core.disk_random.between(1, core.parameters.turn.max(1));
            self.inbox.turn_at = Some(at);
            core.push(at, SimEvent::ServerTurn { server: self.server, incarnation: self.incarnation });
        }
    }

    /// Runs rounds of the node: one, or as many as are needed until it is idle.
    pub(crate) fn take_turn(&mut self, core: &mut SimContext) -> Result<(), Death> {
        self.inbox.turn_at = None;
        loop {
            let executed = self.run_round(core)?;
            let read = self.pump_clients(core);
            let left = self.flush_links(core);
            let more = executed || read || left || self.node().has_committed();
            if core.parameters.turn > 0 || (!more && self.inbox.is_empty()) {
                break;
            }
        }
        self.show_memory(core);
        self.schedule_feeds(core);
        self.schedule_turn(core);
        self.begin_work(core)?;
        self.schedule_wake(core);
        self.check_power()?;
        self.go_on_stopping(core)
    }

    /// Runs one round. True if it had effects.
    fn run_round(&mut self, core: &mut SimContext) -> Result<bool, Death> {
        let Some(mut round) = self.round.take() else { return Ok(false) };
        self.turns += 1;
        let mut urgent = std::mem::take(&mut self.inbox.urgent);
        let mut events = std::mem::take(&mut self.inbox.events);
        if let PlannedStop::Resigning { .. } = self.planned_stop {
            // As the server's core does: what was begun is finished, and nothing else.
            events.clear();
        }
        let mut edge = ProcessEdge { process: self, core, executed: false };
        for urgent in urgent.drain(..) {
            match urgent {
                Urgent::Peer(event) => round.push_peer(event),
                Urgent::Disk(event) => round.push_disk(event, &mut edge),
            }
        }
        let served = round.serve(&mut events, &mut edge);
        let executed = edge.executed;
        self.round = Some(round);
        Ok(served.map(|()| executed)?)
    }
}

/// The process around its node, while a round is run.
pub(super) struct ProcessEdge<'a> {
    pub(super) process: &'a mut Process,
    pub(super) core: &'a mut SimContext,
    /// Whether there was an effect.
    pub(super) executed: bool,
}

impl Edge for ProcessEdge<'_> {
    fn now(&self) -> Now {
        self.process.moment(self.core)
    }

    fn with_shared(&mut self, work: impl SharedWork) {
        work.run(&self.process.replica, &mut self.process.lanes);
    }

    fn with_exclusive<W: ExclusiveWork>(&mut self, work: W) -> W::Output {
        work.run(&mut self.process.replica, &mut self.process.lanes)
    }

    fn replace_tree(&mut self, mut tree: Tree) {
        let wall_ms = self.now().wall_ms;
        if let Some(edge) = &self.process.members_edge
            && let Some(text) = config_to_show(&tree, &edge.configuration)
        {
            tree.write_config(text, edge.configuration.zxid(), wall_ms);
        }
        self.process.replica.replace_tree(tree);
        self.process.observed = None;
        self.process.tree_origin = TreeOrigin::Loaded;
    }

    fn committed(&mut self, node: &Node, _: usize) {
        // A learner may load a part of its leader's history before that is committed, as a restart would. No
        // client sees it before the server serves.
        let last = self.process.replica.last_zxid();
        if node.status().is_none_or(|status| last <= status.committed) {
            self.process.show_state(self.core);
        } else {
            self.process.tree_origin = TreeOrigin::Loaded;
        }
    }

    /// The request queue is not bounded here.
    fn answered(&mut self, _: AnsweredRequests) {}

    /// The process has removed them already.
    fn disconnected(&mut self, _: &[ConnectionId]) {}

    fn execute(&mut self, effect: Effect) {
        self.executed = true;
        self.process.execute(effect, self.core);
    }
}
