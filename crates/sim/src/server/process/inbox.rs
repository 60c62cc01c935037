//! What waits for the brain. The core of a real server takes everything that has come meanwhile as one batch:
//! first what members and the disk say, then what clients want. Connections read the tree in between, and
//! whoever sent something may be gone, or may have another role, when its turn comes.

use std::collections::VecDeque;

use zebu_proto::Zxid;
use zebu_tree::Tree;
use zebu_zab::{Event as PeerEvent, IoId};

use super::{Death, Process};
use crate::core::Core;
use crate::queue::{Event, Time};
use crate::server::member_files::to_show;

/// What is heard before clients are.
#[derive(Debug)]
pub(super) enum Urgent {
    Peer(PeerEvent),
    /// The disk of a server that is alone has come so far.
    Synced(Zxid),
    /// Another state takes the place of the present one.
    Replaced {
        io: IoId,
        tree: Box<Tree>,
    },
}

/// What the brain has not heard yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    urgent: VecDeque<Urgent>,
    events: VecDeque<zebu_node::Event>,
    /// When it is looked at.
    turn_at: Option<Time>,
}

impl Inbox {
    pub(super) fn urgent(&mut self, urgent: Urgent) {
        self.urgent.push_back(urgent);
    }

    pub(super) fn event(&mut self, event: zebu_node::Event) {
        self.events.push_back(event);
    }

    fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.events.is_empty()
    }
}

impl Process {
    /// Something has come. The brain takes its turn at once, or after a while together with what comes meanwhile.
    pub(crate) fn settle(&mut self, core: &mut Core) -> Result<(), Death> {
        if core.shape.turn == 0 {
            return self.take_turn(core);
        }
        self.pump_clients(core);
        self.flush_links(core);
        self.schedule_turn(core);
        self.check_power()
    }

    fn schedule_turn(&mut self, core: &mut Core) {
        if !self.inbox.is_empty() && self.inbox.turn_at.is_none() {
            let at = core.now + core.disk_random.between(1, core.shape.turn.max(1));
            self.inbox.turn_at = Some(at);
            core.push(at, Event::ServerTurn { server: self.server, incarnation: self.incarnation });
        }
    }

    /// Does everything that the brain wants done, until it wants nothing more.
    pub(crate) fn take_turn(&mut self, core: &mut Core) -> Result<(), Death> {
        self.inbox.turn_at = None;
        loop {
            self.hear(core)?;
            let ordered = self.take_orders(core)?;
            let read = self.pump_clients(core);
            let left = self.flush_links(core);
            let more = ordered || read || left || self.node.has_committed();
            if core.shape.turn > 0 || (!more && self.inbox.is_empty()) {
                break;
            }
        }
        self.show_memory(core);
        self.schedule_turn(core);
        self.begin_work(core)?;
        self.schedule_wake(core);
        self.check_power()
    }

    fn hear(&mut self, core: &mut Core) -> Result<(), Death> {
        while let Some(urgent) = self.inbox.urgent.pop_front() {
            let now = self.moment(core);
            let event = match urgent {
                Urgent::Peer(event) => event,
                Urgent::Synced(last) => {
                    self.node.persisted(last);
                    continue;
                }
                Urgent::Replaced { io, mut tree } => {
                    if let Some(edge) = &self.members_edge
                        && let Some(text) = to_show(&tree, &edge.configuration)
                    {
                        tree.write_config(text, edge.configuration.zxid(), now.wall_ms);
                    }
                    self.replica.replace_tree(*tree);
                    self.observed = None;
                    // A snapshot of the state that was there before is given up.
                    self.snapshotting = None;
                    PeerEvent::Persisted { io }
                }
            };
            self.node.handle_peer(event, &self.replica, &mut self.lanes, now);
        }
        self.commit(core)?;
        while let Some(event) = self.inbox.events.pop_front() {
            let now = self.moment(core);
            self.node.handle(event, &self.replica, &mut self.lanes, now);
        }
        let now = self.moment(core);
        if self.node.next_deadline() <= now.monotonic_ms {
            self.node.tick(&self.replica, &mut self.lanes, now);
        }
        self.commit(core)
    }
}
