//! A running server: the node, its tree, its connections and the work of its disk. Everything in here is lost
//! when the process ends.

mod clients;
mod disk_work;
mod drain;
mod effects;
mod feeds;
mod inbox;
mod link_writer;
mod membership;
mod peers;
mod received;

use std::collections::{BTreeMap, VecDeque};

use zebu_node::{ClientConnection, CommitError, ConnectionId, Connections, Node, Now, Replica};
use zebu_proto::Zxid;
use zebu_proto::quorum::DiskRoom;
use zebu_runtime::{DiskError, DiskEvent, DiskWorker, RoomKeeper, Round, SnapshotStore};
use zebu_storage::{Directories, Locks};
use zebu_zab::{LinkId, PeerEvent};

use crate::clock::Clocks;
use crate::context::SimContext;
use crate::coverage::CoveredPath;
use crate::members::CONFIG;
use crate::network::SocketId;
use crate::queue::{MS, SimEvent, VirtualTime};
use crate::server::disk::{FaultyDisk, PowerState};
use crate::server::snapshot::Snapshotting;

pub(crate) use clients::SimClientConnection;
pub(crate) use disk_work::{Busy, Work};
pub(crate) use drain::PlannedStop;
pub(crate) use feeds::ProcessFeeds;
pub(crate) use inbox::Inbox;
use inbox::Urgent;
pub(crate) use membership::MembersEdge;
pub(crate) use peers::{PeerLink, WINDOW};
pub(crate) use received::ReceivedSnapshot;

/// Why a process ends by itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Death {
    /// Its data cannot be used.
    #[error("{0}")]
    Start(String),
    /// Its disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The power is off.
    #[error("the power is off")]
    PowerOff,
    /// It was asked to.
    #[error("it has stopped as planned")]
    Stopped,
    /// A committed transaction cannot be applied.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// The connections of clients.
#[derive(Debug, Default)]
pub(crate) struct LaneMap(pub(crate) BTreeMap<ConnectionId, ClientConnection>);

impl Connections for LaneMap {
    fn with<R>(&mut self, lane: ConnectionId, action: impl FnOnce(&mut ClientConnection) -> R) -> Option<R> {
        self.0.get_mut(&lane).map(action)
    }
}

/// Whether clients are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Open,
    /// There is no leader: clients that accept it may read the state of this zxid.
    ReadOnly(Zxid),
    Closed,
}

/// Whether the transactions of a server's tree are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeOrigin {
    Committed,
    /// From the log at a start, or from the history of a leader that the server has not joined yet.
    Loaded,
}

/// A process.
pub(crate) struct Process {
    pub(crate) server: usize,
    pub(crate) incarnation: u32,
    pub(crate) service: Service,
    pub(crate) tree_origin: TreeOrigin,
    /// How often its role has begun or ended.
    pub(crate) roles: u64,
    /// The epoch that it leads, if it does.
    pub(crate) leads: Option<u32>,
    /// Whether it led in its last role.
    pub(crate) had_led: bool,
    /// Whether it has served since its start.
    pub(crate) has_served: bool,
    pub(crate) clocks: Clocks,
    pub(crate) disk: FaultyDisk,
    pub(crate) directories: Directories,
    pub(crate) worker: DiskWorker<FaultyDisk>,
    pub(crate) snapshot_store: SnapshotStore<FaultyDisk>,
    /// The node; `None` while a round is run.
    pub(crate) round: Option<Round>,
    pub(crate) replica: Replica,
    pub(crate) lanes: LaneMap,
    pub(crate) clients: BTreeMap<SocketId, SimClientConnection>,
    pub(crate) next_lane: u64,
    pub(crate) inbox: Inbox,
    pub(crate) links: BTreeMap<LinkId, PeerLink>,
    pub(crate) by_connection: BTreeMap<SocketId, LinkId>,
    pub(crate) accepted_links: u64,
    /// Snapshots that are complete and not installed.
    pub(crate) received: BTreeMap<LinkId, Box<ReceivedSnapshot>>,
    pub(crate) work: VecDeque<Work>,
    pub(crate) busy: Option<Busy>,
    pub(crate) work_number: u64,
    /// The looks at the room on the disk, in runs with little room.
    pub(crate) room: Option<RoomKeeper<FaultyDisk>>,
    pub(crate) disk_room: DiskRoom,
    pub(crate) snapshotting: Option<Snapshotting>,
    pub(crate) snapshots: u64,
    /// Extra time of each slice of a snapshot.
    pub(crate) snapshot_pause: VirtualTime,
    pub(crate) wake_at: Option<VirtualTime>,
    /// Extra time of each sync.
    pub(crate) slow: VirtualTime,
    /// How many batches share a sync at most.
    pub(crate) sync_batches: usize,
    /// The state that was checked last.
    pub(crate) observed: Option<Zxid>,
    /// The state for reconfig, if that is enabled.
    pub(crate) members_edge: Option<MembersEdge>,
    /// Connections and requests that the node has carried over to the next leader.
    pub(crate) carried_over: (u64, u64),
    pub(crate) feeds: ProcessFeeds,
    /// Whether the process is asked to stop.
    pub(crate) planned_stop: PlannedStop,
    /// How many steps the node has made.
    pub(crate) turns: u64,
    pub(crate) _locks: Locks<zebu_storage::crash_disk::CrashDiskLock>,
}

impl Process {
    pub(crate) fn moment(&self, core: &SimContext) -> Now {
        self.clocks.moment(core.now)
    }

    /// A deadline of the node may have come.
    pub(crate) fn wake(&mut self, core: &mut SimContext) -> Result<(), Death> {
        self.wake_at = None;
        self.take_turn(core)
    }

    /// Whether the process accepts no new clients.
    pub(crate) fn is_stopping(&self) -> bool {
        self.planned_stop != PlannedStop::None
    }

    fn check_power(&self) -> Result<(), Death> {
        match self.disk.power() {
            PowerState::On => Ok(()),
            PowerState::Off => Err(Death::PowerOff),
        }
    }

    pub(crate) fn node(&self) -> &Node {
        self.round.as_ref().expect("no round looks at the node through the process").node()
    }

    /// Whether observers are connected to this follower.
    pub(crate) fn serves_observers(&self) -> bool {
        self.leads.is_none() && self.node().status().is_some_and(|status| !status.learners.is_empty())
    }

    /// The state that clients can see now.
    pub(crate) fn show_state(&mut self, core: &mut SimContext) {
        let last = self.replica.last_zxid();
        if self.observed == Some(last) {
            return;
        }
        self.observed = Some(last);
        let digest = self.replica.tree().digest();
        core.mix(last.0 as u64 ^ digest as u64);
        core.trace_line(format_args!("s{} applied up to {last}", self.server));
        core.checker.observed(self.server, last.0, digest);
        if self.members_edge.is_some() && self.service == Service::Open {
            let node = self.replica.tree().node(CONFIG);
            core.checker.config_shown(self.server, last.0, node.as_ref().and_then(|node| node.data()));
        }
    }

    /// Looks at the room on the disk, as often as the disk thread of a server does.
    pub(crate) fn room_look(&mut self, core: &mut SimContext) -> Result<(), Death> {
        let (server, incarnation) = (self.server, self.incarnation);
        core.push(core.now + core.parameters.room_pause(), SimEvent::RoomLook { server, incarnation });
        self.look_at_room(0, core);
        if let Some(keeper) = &mut self.room {
            // A server without a reserve goes on.
            let _ = keeper.extend_reserve();
        }
        self.settle(core)
    }

    /// Looks before an append of so many bytes.
    pub(crate) fn look_at_room(&mut self, needed: u64, core: &mut SimContext) {
        let Some(Ok(report)) = self.room.as_mut().map(|keeper| keeper.look(needed)) else { return };
        if report.released {
            core.count(CoveredPath::ReserveReleased);
            core.trace_line(format_args!("s{} releases its reserve", self.server));
        }
        if std::mem::replace(&mut self.disk_room, report.room) != report.room {
            let room = report.room;
            core.trace_line(format_args!("s{} has {} room: {:?}", self.server, room.word(), report.log_free));
            self.inbox.urgent(Urgent::Disk(DiskEvent::Peer(PeerEvent::DiskRoom { room })));
        }
    }

    fn schedule_wake(&mut self, core: &mut SimContext) {
        let deadline = self.node().next_deadline();
        if deadline == i64::MAX {
            return;
        }
        // A deadline in the past would be scheduled again at once, forever, if the node did not handle it.
        let at = self.clocks.deadline(deadline).max(core.now + MS / 10);
        if self.wake_at.is_none_or(|earlier| at < earlier) {
            self.wake_at = Some(at);
            core.push(at, SimEvent::ServerWake { server: self.server, incarnation: self.incarnation });
        }
    }
}
