//! The start of a server: data directory, recovery, node. As the real server does it, on another disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use zebu_node::feed::FeedSettings;
use zebu_node::{
    AuthEnforcement, LeaderClients, Node, NodeSettings, ReconfigSupport, Replica, Restore, ThrottleSettings,
};
use zebu_proto::quorum::{DiskRoom, PeerAnnouncement};
use zebu_proto::txn::TxnEntry;
use zebu_proto::{Acl, Id, ServerId, SessionId, StatPersisted, Zxid};
use zebu_runtime::{
    DiskSettings, DiskWorker, LoadOptions, OpenedMember, RoomKeeper, Round, SnapshotSections, SnapshotStore,
    StartReport, StateTarget, config_to_show, load, open_log, open_member,
};
use zebu_storage::crash_disk::CrashDiskLock;
use zebu_storage::format::snapshot::SnapshotVisitor;
use zebu_storage::{
    Compression, Directories, ForceSync, Locks, LogOptions, Missing, RecoveredState, RecoveryTarget,
    SyncWatermarks,
};
use zebu_tree::{DigestMode, Policy, Tree, TreeOptions, TtlNodes};
use zebu_zab::membership::{ConfigChangeRules, MultiAddress};
use zebu_zab::{
    Configuration, DiskTrust, DynamicConfig, HistoryLimits, ObserverMasters, ObserverSettings, PeerSettings,
    QuorumRule, Role,
};

use super::disk::FaultyDisk;
use super::member_files;
use super::process::{
    Death, Inbox, LaneMap, MembersEdge, PlannedStop, Process, ProcessFeeds, Service, TreeOrigin, WINDOW,
};
use crate::check::{zab_configuration_versions, zab_recovered_log};
use crate::clock::Clocks;
use crate::context::SimContext;
use crate::history::Violation;
use crate::queue::SimEvent;
use crate::run_parameters::{LittleRoom, ROOM, RunParameters};

/// The tree options of every server and of the checker.
pub(crate) fn tree_options() -> TreeOptions {
    TreeOptions { ttl_nodes: TtlNodes::Enabled, digest: DigestMode::On, hash_seed: 11 }
}

pub(crate) fn directories() -> Directories {
    Directories::new("/data", "/logs")
}

/// Receives the recovered state, and remembers the transactions.
struct Witness {
    restore: Restore,
    found: Vec<(i64, Arc<[u8]>)>,
}

impl SnapshotVisitor for Witness {
    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.restore.session(id, timeout_ms);
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.restore.acl(id, acl);
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), String> {
        self.restore.node(path, data, acl, stat)
    }
}

impl RecoveryTarget for Witness {
    fn reset(&mut self) {
        self.found.clear();
        self.restore.reset();
    }

    fn snapshot_loaded(&mut self, zxid: Zxid) {
        self.restore.snapshot_loaded(zxid);
    }

    fn apply(&mut self, entry: &TxnEntry) {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        self.found.push((entry.header.zxid.0, bytes.into()));
        self.restore.apply(entry);
    }

    fn digest(&self) -> Option<i64> {
        self.restore.digest()
    }
}

impl StateTarget for Witness {
    fn into_tree(self) -> Tree {
        self.restore.finish()
    }
}

fn failed(error: impl std::fmt::Display) -> Death {
    Death::Start(error.to_string())
}

/// Starts a server; an error of the disk ends the attempt.
pub(crate) fn start(
    server: usize,
    incarnation: u32,
    disk: FaultyDisk,
    clocks: Clocks,
    core: &mut SimContext,
) -> Result<Process, Death> {
    let directories = directories();
    let locks = directories.open(&disk, Missing::Create, "zebu").map_err(failed)?;
    let is_member = core.parameters.is_ensemble();
    let (recovered, witness) = recover(server, &disk, &directories, is_member, core)?;
    let base = recovered.snapshot.as_ref().map_or(0, |snapshot| snapshot.zxid.0);
    note_recovered(server, base, &witness.found, core);
    let mut tree = witness.into_tree();
    let ensemble_member =
        if is_member { Some(recover_member(server, &disk, &directories, &recovered, core)?) } else { None };
    let trust = ensemble_member
        .as_ref()
        .map_or(DiskTrust::Trusted, |ensemble_member| ensemble_member.recovered.trust);
    core.checker.servers[server].untrusted = trust == DiskTrust::Untrusted;
    let (settings, store) = disk_settings(&disk, &directories, &core.parameters);
    let log = open_log(settings.log.clone(), &store, &tree, &recovered, ensemble_member.as_ref())?;
    let (dynamic, members_edge) = known_members(server, &disk, &mut tree, clocks, core)?;
    let transaction_bytes_max = core.parameters.transaction_bytes_max;
    let policy = Policy { transaction_bytes_max, ..Policy::default() };
    let replica = Replica::new(tree, policy, AuthEnforcement::Off, 3)
        .with_listings(core.parameters.listings)
        .with_feeds(feed_settings());
    let node_settings = node_settings(server, incarnation, &core.parameters);
    let now = clocks.moment(core.now);
    let node = match &ensemble_member {
        None => Node::new(node_settings, &replica, now),
        Some(ensemble_member) => {
            core.trace_line(format_args!("s{server} recovers {:?}", ensemble_member.recovered));
            let peer = peer_settings(server, &core.parameters, dynamic);
            Node::ensemble_member(node_settings, peer, ensemble_member.recovered, &replica, now)
        }
    };
    let epochs = ensemble_member.map(|ensemble_member| ensemble_member.epochs);
    let worker = DiskWorker::new(directories.clone(), settings, store.clone(), log, epochs);
    let files = Files { disk, directories, worker, store, locks };
    let mut process = process(server, incarnation, clocks, files, node, replica);
    process.members_edge = members_edge;
    if core.parameters.kinds.little_room != LittleRoom::Off {
        let keeper = RoomKeeper::open(process.disk.clone(), &process.directories, ROOM);
        process.room = Some(keeper.map_err(failed)?);
        core.push(core.now + 1, SimEvent::RoomLook { server, incarnation });
    }
    if is_member {
        process.service = Service::Closed;
    } else {
        // A standalone server has committed everything in its log.
        process.show_state(core);
    }
    process.take_turn(core)?;
    Ok(process)
}

/// Every client may read the history.
fn feed_settings() -> FeedSettings {
    FeedSettings { feeds_max: 3, readers: [Id::new("world", "anyone")].into() }
}

/// The initial config of a server.
fn set_up(shape: &RunParameters, server: usize) -> Option<Configuration> {
    Configuration::parse(&shape.own_config(server).text()).ok()
}

/// The config according to the files, if reconfig is enabled; it is shown to clients too.
fn known_members(
    server: usize,
    disk: &FaultyDisk,
    tree: &mut Tree,
    clocks: Clocks,
    core: &mut SimContext,
) -> Result<(Option<DynamicConfig>, Option<MembersEdge>), Death> {
    if core.parameters.members.is_none() {
        return Ok((None, None));
    }
    let set_up = set_up(&core.parameters, server).ok_or_else(|| failed("the list is none"))?;
    let members = member_files::in_effect(disk, &set_up).map_err(failed)?;
    let verdict = zab_configuration_versions::check_start(&mut core.checker, server, members.version);
    core.checker.report(verdict);
    let dynamic = member_files::known_at_start(disk, members.clone(), tree);
    core.trace_line(format_args!(
        "s{server} knows list {:#x}, and {:x?}",
        members.version,
        dynamic.last_seen.as_ref().map(|seen| seen.version)
    ));
    if let Some(text) = config_to_show(tree, &members) {
        tree.write_config(text, members.zxid(), clocks.moment(core.now).wall_ms);
    }
    let edge = MembersEdge::new(server, members, dynamic.last_seen.as_ref());
    Ok((Some(dynamic), Some(edge)))
}

/// Compares the recovered log with the checker's view of the disk, and updates that view.
fn note_recovered(server: usize, base: i64, found: &[(i64, Arc<[u8]>)], core: &mut SimContext) {
    let last = found.last().map_or(base, |(zxid, _)| *zxid);
    let verdict = zab_recovered_log::check(server, &core.checker.servers[server], base, found);
    core.checker.report(verdict);
    let mut known = core.checker.uncommitted(base);
    let decided = core.checker.committed.last();
    let view = &mut core.checker.servers[server];
    view.base = if known.is_empty() { base } else { decided };
    known.extend_from_slice(found);
    view.log = known;
    view.durable = last;
    view.compared = 0;
    view.replacing = false;
    view.in_memory = false;
}

/// The open files of a process.
struct Files {
    disk: FaultyDisk,
    directories: Directories,
    worker: DiskWorker<FaultyDisk>,
    store: SnapshotStore<FaultyDisk>,
    locks: Locks<CrashDiskLock>,
}

/// A process in its initial state.
fn process(
    server: usize,
    incarnation: u32,
    clocks: Clocks,
    files: Files,
    node: Node,
    replica: Replica,
) -> Process {
    let Files { disk, directories, worker, store, locks } = files;
    Process {
        server,
        incarnation,
        service: Service::Open,
        tree_origin: TreeOrigin::Loaded,
        roles: 0,
        leads: None,
        had_led: false,
        has_served: false,
        clocks,
        disk,
        directories,
        worker,
        snapshot_store: store,
        round: Some(Round::new(node)),
        replica,
        lanes: LaneMap::default(),
        clients: BTreeMap::new(),
        next_lane: 1,
        inbox: Inbox::default(),
        links: BTreeMap::new(),
        by_connection: BTreeMap::new(),
        accepted_links: 0,
        received: BTreeMap::new(),
        work: VecDeque::new(),
        busy: None,
        work_number: 0,
        room: None,
        disk_room: DiskRoom::Enough,
        snapshotting: None,
        snapshots: 0,
        snapshot_pause: 0,
        wake_at: None,
        observed: None,
        members_edge: None,
        carried_over: (0, 0),
        feeds: ProcessFeeds::default(),
        planned_stop: PlannedStop::None,
        turns: 0,
        slow: 0,
        sync_batches: usize::MAX,
        _locks: locks,
    }
}

/// Reads log and snapshot. A server refuses to start only if its disk was damaged.
fn recover(
    server: usize,
    disk: &FaultyDisk,
    directories: &Directories,
    is_member: bool,
    core: &mut SimContext,
) -> Result<(RecoveredState, Witness), Death> {
    let options = if is_member { LoadOptions::member() } else { LoadOptions::standalone() };
    let witness = || Witness { restore: Restore::new(tree_options()), found: Vec::new() };
    let loaded = load(disk, directories, options, witness, |report| {
        let StartReport::Damaged(error) = report else { return };
        if !core.checker.servers[server].rotten {
            let text = format!("server {server} does not start: {error}");
            core.checker.report(Err(Violation::new("starts_after_crash", text)));
        }
        core.counts.refused_starts += 1;
        core.trace_line(format_args!("s{server} cannot use its data: {error}"));
    });
    loaded.map_err(failed)
}

/// Reads the epochs. They are the written ones, unless the disk was damaged.
fn recover_member(
    server: usize,
    disk: &FaultyDisk,
    directories: &Directories,
    recovered: &RecoveredState,
    core: &mut SimContext,
) -> Result<OpenedMember, Death> {
    let opened = open_member(disk, directories, recovered, |report| {
        if let StartReport::EpochsDamaged(error) = report
            && !core.checker.servers[server].rotten
        {
            let text = format!("server {server} does not trust its epochs: {error}");
            core.checker.report(Err(Violation::new("starts_after_crash", text)));
        }
    });
    let opened = opened.map_err(failed)?;
    let (accepted, current) = (opened.epochs.accepted(), opened.epochs.current());
    let view = &mut core.checker.servers[server];
    if !view.rotten && (accepted < view.accepted_epoch || current < view.current_epoch) {
        let text = format!(
            "server {server} had saved the epochs {} and {}, but finds {accepted} and {current} after its restart",
            view.accepted_epoch, view.current_epoch,
        );
        core.checker.report(Err(Violation::new("zab_recovered_log", text)));
        return Ok(opened);
    }
    view.accepted_epoch = accepted;
    view.current_epoch = current;
    Ok(opened)
}

/// How the shipped disk worker writes. Batches are joined as in a real server, or less.
fn disk_settings(
    disk: &FaultyDisk,
    directories: &Directories,
    shape: &RunParameters,
) -> (DiskSettings, SnapshotStore<FaultyDisk>) {
    const WRITE_BYTES: [usize; 3] = [1, 400, 1 << 20];
    let settings = DiskSettings {
        log: LogOptions {
            logs: directories.logs(),
            snapshots: directories.snapshots(),
            preallocate: shape.disk.preallocate,
            size_max: shape.disk.size_max,
            force_sync: ForceSync::Yes,
            notes: SyncWatermarks::Keep,
        },
        tree: tree_options(),
        write_bytes: WRITE_BYTES[(shape.seed % 3) as usize],
    };
    let sections = SnapshotSections::DigestAndLastZxid;
    (settings, SnapshotStore::new(disk.clone(), directories, Compression::Plain, sections))
}

fn node_settings(server: usize, incarnation: u32, shape: &RunParameters) -> NodeSettings {
    let tick_ms = shape.tick_ms as i64;
    NodeSettings {
        server_id: server as u8 + 1,
        tick_ms,
        session_timeout_ms_min: 2 * tick_ms as i32,
        session_timeout_ms_max: 20 * tick_ms as i32,
        local_sessions: shape.kinds.local_sessions,
        throttle: ThrottleSettings::default(),
        throttled_op_wait_ms: 0,
        container_check_ms: 5 * tick_ms,
        container_max_per_minute: 10_000,
        container_never_used_ms: 0,
        read_only_after_ms: shape.kinds.read_only_after_ms,
        election_grace_ms: shape.election_grace_ms(server),
        snap_count: shape.disk.snap_count,
        snap_bytes: None,
        leader_clients: LeaderClients::Served,
        reconfig: match &shape.members {
            Some(members) => ReconfigSupport::Ensemble(ConfigChangeRules {
                voters_min: members.voters_min,
                addresses: MultiAddress::Disabled,
            }),
            None => ReconfigSupport::Disabled,
        },
        seed: shape.seed ^ (server as u64) << 32 ^ u64::from(incarnation),
    }
}

fn observer_settings(server: usize, shape: &RunParameters) -> ObserverSettings {
    let delay_ms = match shape.kinds.masters {
        ObserverMasters::LeaderOnly => 0,
        ObserverMasters::Followers => shape.tick_ms as i64 / 4,
    };
    ObserverSettings {
        log: shape.kinds.observer_log,
        masters: shape.kinds.masters,
        election_delay_ms: delay_ms,
        reconnect_delay_ms: delay_ms,
        seed: shape.seed ^ (server as u64) << 40,
    }
}

fn peer_settings(server: usize, shape: &RunParameters, dynamic: Option<DynamicConfig>) -> PeerSettings {
    let id = |server: usize| ServerId(server as i64 + 1);
    let tick_ms = shape.tick_ms as i64;
    PeerSettings {
        me: id(server),
        role: if shape.is_voter(server) { Role::Participant } else { Role::Observer },
        quorum: match set_up(shape, server) {
            Some(configuration) if !shape.groups.is_empty() => configuration.quorum(),
            _ => QuorumRule::majority((0..shape.voters).map(id)),
        },
        observers: (shape.voters..shape.voters + shape.observers).map(id).collect::<BTreeSet<_>>(),
        config: "version=0".into(),
        config_version: 0,
        tick_ms,
        init_limit: shape.init_limit as i64,
        connect_limit: shape.init_limit as i64,
        sync_limit: shape.sync_limit as i64,
        resend_ms_min: tick_ms / 5,
        resend_ms_max: tick_ms * 2,
        finalize_ms: tick_ms / 5,
        retry_ms: tick_ms / 4,
        history: HistoryLimits { entries: shape.history_entries, bytes: shape.history_bytes },
        send_window: WINDOW,
        proposal_bytes_max: shape.transaction_bytes_max,
        observer: observer_settings(server, shape),
        last_counter: shape.last_counter,
        dynamic_config: dynamic,
        slow_disk_ms: None,
        announcement: Some(PeerAnnouncement::CURRENT),
    }
}
