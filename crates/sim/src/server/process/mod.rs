//! A running server: the brain, its tree, its connections and what its disk is doing. Everything in here is
//! lost when the process ends.

mod clients;
mod disk_work;
mod inbox;
mod membership;
mod orders;
mod peers;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use zebu_node::{Lane, LaneId, Lanes, Moment, Node, Replica};
use zebu_proto::Zxid;
use zebu_storage::{Directories, Epochs, Locks, LogWriter};
use zebu_zab::LinkId;

use crate::clock::Clocks;
use crate::core::Core;
use crate::members::CONFIG;
use crate::network::ConnectionId;
use crate::queue::{Event, MS, Time};
use crate::server::disk::{MoodyDisk, Power};
use crate::server::snapshot::Snapshotting;

pub(crate) use clients::ClientConnection;
pub(crate) use disk_work::{Busy, Work};
pub(crate) use inbox::Inbox;
pub(crate) use membership::MembersEdge;
pub(crate) use peers::{PeerLink, WINDOW};

/// Why a process ends by itself.
#[derive(Debug)]
pub(crate) enum Death {
    /// Its disk failed it.
    Disk(String),
    /// What was decided cannot be applied.
    Commit(String),
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Death::Disk(reason) | Death::Commit(reason) => f.write_str(reason),
        }
    }
}

/// The connections of clients.
#[derive(Debug, Default)]
pub(crate) struct LaneMap(pub(crate) BTreeMap<LaneId, Lane>);

impl Lanes for LaneMap {
    fn with<R>(&mut self, lane: LaneId, action: impl FnOnce(&mut Lane) -> R) -> Option<R> {
        self.0.get_mut(&lane).map(action)
    }
}

/// Whether the server is alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    Standalone,
    Member,
}

/// Whether clients are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Open,
    Closed,
}

/// A process.
pub(crate) struct Process {
    pub(crate) server: usize,
    pub(crate) incarnation: u32,
    pub(crate) membership: Membership,
    pub(crate) service: Service,
    /// How often its role has begun or ended.
    pub(crate) roles: u64,
    /// When it leads, the epoch.
    pub(crate) leads: Option<u32>,
    pub(crate) clocks: Clocks,
    pub(crate) disk: MoodyDisk,
    pub(crate) directories: Directories,
    pub(crate) log: Option<LogWriter<MoodyDisk>>,
    pub(crate) epochs: Option<Epochs>,
    pub(crate) node: Node,
    pub(crate) replica: Replica,
    pub(crate) lanes: LaneMap,
    pub(crate) clients: BTreeMap<ConnectionId, ClientConnection>,
    pub(crate) next_lane: u64,
    pub(crate) inbox: Inbox,
    pub(crate) links: BTreeMap<LinkId, PeerLink>,
    pub(crate) by_connection: BTreeMap<ConnectionId, LinkId>,
    pub(crate) accepted_links: u64,
    /// States that are here as a whole, with the transaction that their SNAP packet named.
    pub(crate) received: BTreeMap<LinkId, (Zxid, Vec<u8>)>,
    pub(crate) work: VecDeque<Work>,
    pub(crate) busy: Option<Busy>,
    pub(crate) work_number: u64,
    pub(crate) snapshotting: Option<Snapshotting>,
    pub(crate) snapshots: u64,
    pub(crate) wake_at: Option<Time>,
    /// Each sync takes so much longer.
    pub(crate) slow: Time,
    /// So many batches share a sync at most.
    pub(crate) sync_batches: usize,
    /// The state that was compared last.
    pub(crate) observed: Option<Zxid>,
    /// What changes with the members, if they may.
    pub(crate) members_edge: Option<MembersEdge>,
    /// How often orders were taken.
    pub(crate) turns: u64,
    pub(crate) _locks: Locks<zebu_storage::model::ModelLock>,
}

impl Process {
    pub(crate) fn moment(&self, core: &Core) -> Moment {
        self.clocks.moment(core.now)
    }

    /// A deadline of the brain may have come.
    pub(crate) fn wake(&mut self, core: &mut Core) -> Result<(), Death> {
        self.wake_at = None;
        self.take_turn(core)
    }

    fn check_power(&self) -> Result<(), Death> {
        match self.disk.power() {
            Power::On => Ok(()),
            Power::Off => Err(Death::Disk("the power is off".to_owned())),
        }
    }

    /// Applies what is decided, and shows the result to the judge.
    fn commit(&mut self, core: &mut Core) -> Result<(), Death> {
        if !self.node.has_committed() {
            return Ok(());
        }
        let now = self.moment(core);
        while self.node.has_committed() {
            self.node
                .commit(&mut self.replica, &mut self.lanes, now)
                .map_err(|error| Death::Commit(error.to_string()))?;
        }
        let _ = self.node.take_answered();
        self.show_state(core);
        Ok(())
    }

    /// The state that clients can see now.
    pub(crate) fn show_state(&mut self, core: &mut Core) {
        let last = self.replica.last_zxid();
        if self.observed == Some(last) {
            return;
        }
        self.observed = Some(last);
        let digest = self.replica.tree().digest();
        core.mix(last.0 as u64 ^ digest as u64);
        core.tell(format_args!("s{} applied up to {last}", self.server));
        core.judge.observed(self.server, last.0, digest);
        if self.members_edge.is_some() && self.service == Service::Open {
            let node = self.replica.tree().node(CONFIG);
            core.judge.list_shown(self.server, last.0, node.as_ref().and_then(|node| node.data()));
        }
    }

    fn schedule_wake(&mut self, core: &mut Core) {
        let deadline = self.node.next_deadline();
        if deadline == i64::MAX {
            return;
        }
        // A deadline in the past would be tried again at once, for ever, if the brain did nothing about it.
        let at = self.clocks.deadline(deadline).max(core.now + MS / 10);
        if self.wake_at.is_none_or(|earlier| at < earlier) {
            self.wake_at = Some(at);
            core.push(at, Event::ServerWake { server: self.server, incarnation: self.incarnation });
        }
    }
}
