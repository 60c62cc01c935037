//! The start of a server: data directory, recovery, brain. As the real server does it, on another disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use zebu_node::{
    Enforcement, LeaderClients, LocalSessionSupport, Node, NodeSettings, ReconfigSupport, Replica, Restore,
    ThrottleSettings,
};
use zebu_proto::txn::TxnEntry;
use zebu_proto::{Acl, ServerId, SessionId, StatPersisted, Zxid};
use zebu_storage::format::snapshot::{Encoder, SnapshotVisitor};
use zebu_storage::model::ModelLock;
use zebu_storage::{
    Compression, Directories, DurableNotes, Epochs, ForceSync, Locks, LogError, LogOptions, LogWriter,
    Missing, RecoveryError, RecoveryOptions, RecoveryTarget, Sections, SnapshotError, SnapshotWriter,
    recover, set_aside,
};
use zebu_tree::{DigestMode, Policy, Tree, TreeOptions, TtlNodes, WalkProgress};
use zebu_zab::membership::{Addresses, ChangeRules};
use zebu_zab::{Configuration, Dynamic, HistoryLimits, PeerSettings, QuorumRule, Role, Trust};

use super::disk::MoodyDisk;
use super::member_files;
use super::process::{Death, Inbox, LaneMap, MembersEdge, Membership, Process, Service, WINDOW};
use crate::check::{zab_configuration_versions, zab_recovered_log};
use crate::clock::Clocks;
use crate::core::Core;
use crate::history::Violation;
use crate::shape::Shape;

/// The tree of every server and of the judge.
pub(crate) fn tree_options() -> TreeOptions {
    TreeOptions { ttl_nodes: TtlNodes::Enabled, digest: DigestMode::On, hash_seed: 11 }
}

pub(crate) fn directories() -> Directories {
    Directories::new("/data", "/logs")
}

pub(crate) fn log_options(directories: &Directories, shape: &Shape) -> LogOptions {
    LogOptions {
        logs: directories.logs(),
        snapshots: directories.snapshots(),
        preallocate: shape.disk.preallocate,
        size_max: shape.disk.size_max,
        force_sync: ForceSync::Yes,
        notes: DurableNotes::Keep,
    }
}

/// Receives what recovery finds, and remembers the transactions.
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

/// What was found on the disk.
struct Opened {
    tree: Tree,
    base: i64,
    found: Vec<(i64, Arc<[u8]>)>,
    trust: Trust,
}

fn failed(error: impl std::fmt::Display) -> Death {
    Death::Disk(error.to_string())
}

/// Starts a server; an error of the disk ends the attempt.
pub(crate) fn start(
    server: usize,
    incarnation: u32,
    disk: MoodyDisk,
    clocks: Clocks,
    core: &mut Core,
) -> Result<Process, Death> {
    let directories = directories();
    let locks = directories.open(&disk, Missing::Create, "zebu").map_err(failed)?;
    let is_member = core.shape.is_ensemble();
    let mut opened = open(server, &disk, &directories, is_member, core)?;
    let log = open_log(&disk, &directories, &opened.tree, &core.shape).map_err(failed)?;
    let last = note_recovered(server, opened.base, opened.found, core);
    let mut trust = opened.trust;
    let epochs = if is_member {
        Some(load_epochs(server, &disk, &directories, last.0, &mut trust, core)?)
    } else {
        None
    };
    core.judge.servers[server].untrusted = trust == Trust::Untrusted;
    let (dynamic, members_edge) = known_members(server, &disk, &mut opened.tree, clocks, core)?;
    let transaction_bytes_max = core.shape.transaction_bytes_max;
    let policy = Policy { transaction_bytes_max, ..Policy::default() };
    let replica = Replica::new(opened.tree, policy, Enforcement::Off, 3);
    let settings = node_settings(server, incarnation, &core.shape);
    let now = clocks.moment(core.now);
    let node = match &epochs {
        None => Node::new(settings, &replica, now),
        Some(epochs) => {
            let recovered = zebu_zab::Recovered {
                last,
                proven: Zxid(opened.base),
                accepted_epoch: epochs.accepted(),
                current_epoch: epochs.current(),
                trust,
            };
            core.tell(format_args!("s{server} recovers {recovered:?}"));
            Node::member(settings, peer_settings(server, &core.shape, dynamic), recovered, &replica, now)
        }
    };
    let files = Files { disk, directories, log, epochs, locks };
    let mut process = process(server, incarnation, clocks, files, node, replica);
    process.members_edge = members_edge;
    if !is_member {
        // A server that is alone has decided everything that is in its log.
        process.show_state(core);
    }
    process.take_turn(core)?;
    Ok(process)
}

/// The list that a server was set up with.
fn set_up(shape: &Shape, server: usize) -> Option<Configuration> {
    Configuration::parse(&shape.own_list(server).text()).ok()
}

/// What the files say of the members, if they may change; that is shown to clients too.
fn known_members(
    server: usize,
    disk: &MoodyDisk,
    tree: &mut Tree,
    clocks: Clocks,
    core: &mut Core,
) -> Result<(Option<Dynamic>, Option<MembersEdge>), Death> {
    if core.shape.members.is_none() {
        return Ok((None, None));
    }
    let set_up = set_up(&core.shape, server).ok_or_else(|| failed("the list is none"))?;
    let members = member_files::in_effect(disk, &set_up).map_err(failed)?;
    let verdict = zab_configuration_versions::check_start(&mut core.judge, server, members.version);
    core.judge.note(verdict);
    let dynamic = member_files::known_at_start(disk, members.clone(), tree);
    core.tell(format_args!(
        "s{server} knows list {:#x}, and {:x?}",
        members.version,
        dynamic.last_seen.as_ref().map(|seen| seen.version)
    ));
    if let Some(text) = member_files::to_show(tree, &members) {
        tree.write_config(text, members.zxid(), clocks.moment(core.now).wall_ms);
    }
    let edge = MembersEdge::new(server, members, dynamic.last_seen.as_ref());
    Ok((Some(dynamic), Some(edge)))
}

/// Compares what was found with what is known of the disk; from now on that is what is known. Returns the last
/// transaction.
fn note_recovered(server: usize, base: i64, found: Vec<(i64, Arc<[u8]>)>, core: &mut Core) -> Zxid {
    let last = found.last().map_or(base, |(zxid, _)| *zxid);
    let verdict = zab_recovered_log::check(server, &core.judge.servers[server], base, &found);
    core.judge.note(verdict);
    let mut known = core.judge.undecided(base);
    let decided = core.judge.ledger.last();
    let view = &mut core.judge.servers[server];
    view.base = if known.is_empty() { base } else { decided };
    known.extend(found);
    view.log = known;
    view.durable = last;
    view.compared = 0;
    view.replacing = false;
    Zxid(last)
}

/// What a process holds of its disk.
struct Files {
    disk: MoodyDisk,
    directories: Directories,
    log: LogWriter<MoodyDisk>,
    epochs: Option<Epochs>,
    locks: Locks<ModelLock>,
}

/// A process that has done nothing yet.
fn process(
    server: usize,
    incarnation: u32,
    clocks: Clocks,
    files: Files,
    node: Node,
    replica: Replica,
) -> Process {
    let Files { disk, directories, log, epochs, locks } = files;
    let is_member = epochs.is_some();
    Process {
        server,
        incarnation,
        membership: if is_member { Membership::Member } else { Membership::Standalone },
        service: if is_member { Service::Closed } else { Service::Open },
        roles: 0,
        leads: None,
        clocks,
        disk,
        directories,
        log: Some(log),
        epochs,
        node,
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
        snapshotting: None,
        snapshots: 0,
        wake_at: None,
        observed: None,
        members_edge: None,
        turns: 0,
        slow: 0,
        sync_batches: usize::MAX,
        _locks: locks,
    }
}

/// Recovers; a member whose data is damaged goes on empty and untrusted.
fn open(
    server: usize,
    disk: &MoodyDisk,
    directories: &Directories,
    is_member: bool,
    core: &mut Core,
) -> Result<Opened, Death> {
    let options = if is_member { RecoveryOptions::member() } else { RecoveryOptions::default() };
    let attempt = || {
        let mut witness = Witness { restore: Restore::new(tree_options()), found: Vec::new() };
        recover(disk, directories, options, &mut witness, &mut |_| ()).map(|recovered| (recovered, witness))
    };
    let (recovered, witness) = match attempt() {
        Ok(found) => found,
        Err(RecoveryError::Io(error)) => return Err(failed(error)),
        Err(error) => {
            if !core.judge.servers[server].rotten {
                let text = format!("server {server} does not start: {error}");
                core.judge.note(Err(Violation::new("starts_after_crash", text)));
            }
            core.counts.refused_starts += 1;
            core.tell(format_args!("s{server} cannot use its data: {error}"));
            if !is_member {
                return Err(failed(error));
            }
            set_aside(disk, directories).map_err(failed)?;
            attempt().map_err(failed)?
        }
    };
    let base = recovered.snapshot.as_ref().map_or(0, |snapshot| snapshot.zxid.0);
    let trust = match recovered.trust {
        zebu_storage::Trust::Trusted => Trust::Trusted,
        zebu_storage::Trust::Untrusted => Trust::Untrusted,
    };
    Ok(Opened { tree: witness.restore.finish(), base, found: witness.found, trust })
}

fn load_epochs(
    server: usize,
    disk: &MoodyDisk,
    directories: &Directories,
    last: i64,
    trust: &mut Trust,
    core: &mut Core,
) -> Result<Epochs, Death> {
    let epochs = match Epochs::load(disk, directories.snapshots(), Zxid(last)) {
        Ok(epochs) => epochs,
        Err(error) if error.is_io() => return Err(failed(error)),
        Err(error) => {
            if !core.judge.servers[server].rotten {
                let text = format!("server {server} does not trust its epochs: {error}");
                core.judge.note(Err(Violation::new("starts_after_crash", text)));
            }
            *trust = Trust::Untrusted;
            Epochs::salvage(disk, directories.snapshots(), Zxid(last)).map_err(failed)?
        }
    };
    let view = &mut core.judge.servers[server];
    if !view.rotten && (epochs.accepted() < view.accepted_epoch || epochs.current() < view.current_epoch) {
        let text = format!(
            "server {server} had saved the epochs {} and {}, but finds {} and {} after its restart",
            view.accepted_epoch,
            view.current_epoch,
            epochs.accepted(),
            epochs.current()
        );
        let violation = Violation::new("zab_recovered_log", text);
        core.judge.note(Err(violation));
        return Ok(epochs);
    }
    view.accepted_epoch = epochs.accepted();
    view.current_epoch = epochs.current();
    Ok(epochs)
}

/// Opens the log behind a state; an empty directory gets its first snapshot.
pub(crate) fn open_log(
    disk: &MoodyDisk,
    directories: &Directories,
    tree: &Tree,
    shape: &Shape,
) -> Result<LogWriter<MoodyDisk>, LogError> {
    let options = log_options(directories, shape);
    match LogWriter::open(disk.clone(), options.clone(), tree.last_zxid()) {
        Err(LogError::NoSnapshot(_)) => {
            if let Err(SnapshotError::Io(failure)) = write_snapshot(disk, directories, tree) {
                return Err(failure.into());
            }
            LogWriter::open(disk.clone(), options, tree.last_zxid())
        }
        other => other,
    }
}

fn write_snapshot(disk: &MoodyDisk, directories: &Directories, tree: &Tree) -> Result<(), SnapshotError> {
    let zxid = tree.last_zxid();
    let mut writer = begin_snapshot(disk, directories, tree)?;
    let mut walker = tree.walker();
    let mut result = Ok(());
    while walker.next_slice(tree, usize::MAX, &mut |path, data, acl, stat| {
        if result.is_ok() {
            result = writer.node(path, data, acl, stat);
        }
    }) == WalkProgress::More
    {}
    result?;
    writer.finish(Sections::DigestAndLastZxid { zxid: Zxid::ZERO, digest: 0, last_zxid: zxid })?;
    Ok(())
}

pub(crate) fn begin_snapshot(
    disk: &MoodyDisk,
    directories: &Directories,
    tree: &Tree,
) -> Result<SnapshotWriter<MoodyDisk>, SnapshotError> {
    let sessions: Vec<_> = tree.sessions().iter().map(|(&id, &timeout_ms)| (id, timeout_ms)).collect();
    let acls: Vec<_> = tree.acl_table().map(|(id, acl)| (id, &acl[..])).collect();
    SnapshotWriter::begin(
        disk.clone(),
        directories.snapshots(),
        tree.last_zxid(),
        Compression::Plain,
        sessions.into_iter(),
        acls.into_iter(),
    )
}

/// A state as bytes, for the way to a learner.
pub(crate) fn encode_state(tree: &Tree) -> Vec<u8> {
    let sessions: Vec<_> = tree.sessions().iter().map(|(&id, &timeout_ms)| (id, timeout_ms)).collect();
    let acls: Vec<_> = tree.acl_table().map(|(id, acl)| (id, &acl[..])).collect();
    let mut encoder =
        Encoder::begin(Vec::new(), sessions.into_iter(), acls.into_iter()).expect("memory takes everything");
    let mut walker = tree.walker();
    while walker.next_slice(tree, usize::MAX, &mut |path, data, acl, stat| {
        encoder.node(path, data, acl, stat).expect("memory takes everything");
    }) == WalkProgress::More
    {}
    encoder.finish(Sections::None).expect("memory takes everything")
}

/// The state that a leader has sent.
pub(crate) fn restore(bytes: &[u8], zxid: Zxid) -> Result<Tree, String> {
    let mut restore = Restore::new(tree_options());
    zebu_storage::format::snapshot::decode(bytes, &mut restore).map_err(|flaw| flaw.to_string())?;
    restore.snapshot_loaded(zxid);
    Ok(restore.finish())
}

fn node_settings(server: usize, incarnation: u32, shape: &Shape) -> NodeSettings {
    let tick_ms = shape.tick_ms as i64;
    NodeSettings {
        server_id: server as u8 + 1,
        tick_ms,
        session_timeout_ms_min: 2 * tick_ms as i32,
        session_timeout_ms_max: 20 * tick_ms as i32,
        local_sessions: LocalSessionSupport::Off,
        throttle: ThrottleSettings::default(),
        throttled_op_wait_ms: 0,
        container_check_ms: 5 * tick_ms,
        container_max_per_minute: 10_000,
        container_never_used_ms: 0,
        read_only_after_ms: None,
        snap_count: shape.disk.snap_count,
        snap_bytes: None,
        leader_clients: LeaderClients::Served,
        reconfig: match &shape.members {
            Some(members) => ReconfigSupport::Ensemble(ChangeRules {
                voters_min: members.voters_min,
                addresses: Addresses::One,
            }),
            None => ReconfigSupport::Disabled,
        },
        seed: shape.seed ^ (server as u64) << 32 ^ u64::from(incarnation),
    }
}

fn peer_settings(server: usize, shape: &Shape, dynamic: Option<Dynamic>) -> PeerSettings {
    let id = |server: usize| ServerId(server as i64 + 1);
    let tick_ms = shape.tick_ms as i64;
    PeerSettings {
        me: id(server),
        role: if shape.is_voter(server) { Role::Voter } else { Role::Observer },
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
        window: WINDOW,
        proposal_bytes_max: shape.transaction_bytes_max,
        observing: zebu_zab::Observing::default(),
        last_counter: shape.last_counter,
        dynamic,
    }
}
