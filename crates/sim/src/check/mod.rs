//! The checker: observes everything that servers and clients show, and compares it with the guarantees. One
//! file per guarantee, named after it; the numbers are those of the guarantees in docs/reliability.md.

pub(crate) mod client_connections;
mod config_reads;
mod config_watch_events;
mod frame;
mod g01_linearizable_writes;
mod g02_client_order;
mod g03_reads;
mod g04_single_image;
mod g05_read_your_writes;
mod g06_atomicity;
mod g07_durability;
mod g08_no_resurrection;
pub(crate) mod g09_timeliness;
pub(crate) mod g10_sync;
mod g11_one_shot;
mod g12_event_before_data;
mod g13_event_order;
mod g14_watch_completeness;
mod g16_watch_access;
mod g17_session_liveness;
pub(crate) mod g18_session_expiry;
mod g20_versions;
mod g21_sequence_names;
mod g22_replica_equality;
mod g23_exactly_once;
mod g24_unnoticed_leader_change;
mod g25_linearizable_reads;
pub(crate) mod g26_unnoticed_drain;
pub(crate) mod g27_room_on_disk;
mod g28_listing_walks;
pub(crate) mod g29_feeds;
pub(crate) mod learner_memory;
mod limits;
mod listings;
mod local_sessions;
pub(crate) mod lowered_writes;
pub(crate) mod purged_files;
pub(crate) mod read_only_state;
mod reconfig_answers;
pub(crate) mod served_age;
pub(crate) mod session_lease;
mod session_view;
pub(crate) mod snapshot_digests;
pub(crate) mod startable_configurations;
pub(crate) mod transaction_lengths;
mod watches;
mod zab_acknowledgements;
mod zab_committed_durability;
pub(crate) mod zab_configuration_versions;
mod zab_deposed_leader;
mod zab_leader_completeness;
mod zab_leader_quorums;
mod zab_leadership;
mod zab_one_pending;
mod zab_prefix_consistency;
pub(crate) mod zab_recovered_log;
mod zab_two_quorums;

pub(crate) use frame::{Frame, FrameKind};
pub(crate) use limits::CheckerLimits;
pub(crate) use session_view::{ServerMode, SessionView};

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use zebu_client::core::ServerReply;
use zebu_node::LocalSessionSupport;
use zebu_proto::client::SetWatches;
use zebu_proto::quorum::Packet;
use zebu_proto::{ErrorCode, SessionId};
use zebu_tree::TreeOptions;
use zebu_zab::{ObserverLog, ServingRole};

use crate::committed_history::{CommittedHistory, ReconfigRights};
use crate::history::{CallEnd, CheckResult, ClientCall, SentRequest, Violation};
use crate::members::{ConfigHistory, EnsembleConfig};
use crate::operation::Operation;
use crate::queue::VirtualTime;
use crate::server::process::TreeOrigin;
use crate::view::ServerView;

/// The checks of a run and the state that they share.
#[derive(Debug)]
pub(crate) struct Checker {
    pub(crate) now: VirtualTime,
    pub(crate) tick: VirtualTime,
    pub(crate) syncs: g10_sync::SyncScope,
    pub(crate) local_sessions: LocalSessionSupport,
    /// Whether observers write a log.
    pub(crate) observer_log: ObserverLog,
    pub(crate) calls: Vec<ClientCall>,
    pub(crate) committed: CommittedHistory,
    pub(crate) servers: Vec<ServerView>,
    pub(crate) sessions: BTreeMap<SessionId, SessionView>,
    pub(crate) requests: BTreeMap<(SessionId, i32), usize>,
    /// The latest zxid that any client has a reply for.
    pub(crate) acked: i64,
    /// The latest transaction that an answer or an event has shown to any client.
    pub(crate) seen: i64,
    /// When each transaction of the committed history was applied first.
    pub(crate) committed_at: Vec<VirtualTime>,
    /// The faults that excuse servers that show an old state.
    pub(crate) served_ages: served_age::ServedAges,
    /// The leader of each epoch: server and incarnation.
    pub(crate) leaders: BTreeMap<u32, (usize, u32)>,
    /// When each epoch's leader began to lead.
    pub(crate) led_since: BTreeMap<u32, VirtualTime>,
    /// Configs by version, as a server has named them first.
    lists: BTreeMap<i64, EnsembleConfig>,
    /// Versions of configs that were proposed, and those that are in effect at some server.
    proposed: BTreeSet<i64>,
    activated: BTreeSet<i64>,
    pub(crate) watches: watches::ClientWatches,
    pub(crate) quiet: g17_session_liveness::UndisturbedClients,
    /// Connections that each client has opened.
    pub(crate) dials: Vec<u64>,
    /// The last zxid that a feed has shown to each client. The next server must have applied it.
    pub(crate) fed: Vec<i64>,
    /// Whether the end of a leader is the only fault so far.
    pub(crate) only_leader_ends: bool,
    pub(crate) room: g27_room_on_disk::RoomOnDisks,
    /// The walk of each client over a list.
    pub(crate) walks: g28_listing_walks::ListingWalks,
    pub(crate) violation: Option<Violation>,
    pub(crate) answered: u64,
    pub(crate) events: u64,
}

impl Checker {
    pub(crate) fn new(
        first: EnsembleConfig,
        rights: ReconfigRights,
        servers: usize,
        clients: usize,
        limits: CheckerLimits,
        options: TreeOptions,
    ) -> Checker {
        Checker {
            now: 0,
            tick: limits.tick,
            syncs: limits.syncs,
            local_sessions: limits.kinds.local_sessions,
            observer_log: limits.kinds.observer_log,
            calls: Vec::new(),
            committed: CommittedHistory::new(options, ConfigHistory::new(first), rights, &limits),
            servers: (0..servers).map(|_| ServerView::default()).collect(),
            sessions: BTreeMap::new(),
            requests: BTreeMap::new(),
            acked: 0,
            seen: 0,
            committed_at: Vec::new(),
            served_ages: served_age::ServedAges::new(servers, &limits),
            leaders: BTreeMap::new(),
            led_since: BTreeMap::new(),
            lists: BTreeMap::new(),
            proposed: BTreeSet::new(),
            activated: BTreeSet::new(),
            watches: watches::ClientWatches::default(),
            quiet: g17_session_liveness::UndisturbedClients::new(servers, clients),
            dials: vec![0; clients],
            fed: vec![0; clients],
            only_leader_ends: limits.kinds.only_leader_ends,
            room: g27_room_on_disk::RoomOnDisks::new(limits.kinds.little_room, limits.tick),
            walks: g28_listing_walks::ListingWalks::default(),
            violation: None,
            answered: 0,
            events: 0,
        }
    }

    /// Keeps the first violation: the ones that follow it are seldom of interest.
    pub(crate) fn report(&mut self, verdict: CheckResult) {
        if let Err(violation) = verdict {
            self.violation.get_or_insert(violation);
        }
    }

    /// A client makes a call. Returns its number.
    pub(crate) fn called(&mut self, client: usize, operation: Rc<Operation>) -> usize {
        self.calls.push(ClientCall {
            client,
            operation,
            at: self.now,
            acked_before: self.acked,
            seen_before: self.seen,
            sent: None,
            place: None,
            end: None,
        });
        self.calls.len() - 1
    }

    /// A request leaves its client.
    pub(crate) fn sent(&mut self, call: usize, session: SessionId, xid: i32) {
        let verdict = g14_watch_completeness::check_registered(self, self.calls[call].client);
        self.report(verdict);
        let dials = self.dials[self.calls[call].client];
        self.calls[call].sent = Some(SentRequest { session, dials });
        self.requests.insert((session, xid), call);
    }

    /// A call ends without an answer.
    pub(crate) fn failed(&mut self, call: usize) {
        self.calls[call].end = Some(CallEnd::Failed);
    }

    /// A call is answered.
    pub(crate) fn answered(&mut self, call: usize, answer: &ServerReply) {
        self.answered += 1;
        let verdict = self.check_answer(call, answer);
        self.report(verdict);
        // A read-only server refuses a write with the zxid of its log, which may not be committed.
        let is_newer = answer.code != ErrorCode::NotReadOnly.wire() && answer.zxid > self.acked;
        self.calls[call].end = Some(CallEnd::Answered { zxid: answer.zxid, code: answer.code });
        if is_newer && self.calls[call].operation.is_write() {
            self.acked = answer.zxid;
        }
    }

    fn check_answer(&mut self, call: usize, answer: &ServerReply) -> CheckResult {
        let Some(sent) = self.calls[call].sent else { return Ok(()) };
        read_only_state::check_answer(self, call, answer)?;
        if self.mode_of(sent.session) == ServerMode::ReadOnly && !self.is_committed(answer.zxid) {
            return Ok(());
        }
        local_sessions::check_answer(self, call, answer)?;
        g27_room_on_disk::check_answer(&self.room, &self.calls[call], answer.code)?;
        let operation = self.calls[call].operation.clone();
        if operation.is_write() {
            g07_durability::check_acknowledged(self, call, answer)?;
            g01_linearizable_writes::check_answer(self, call, answer)?;
            g02_client_order::check_answer(self, sent, answer)?;
            g20_versions::check_answer(&operation, answer)?;
            g21_sequence_names::check_answer(self, &operation, answer)?;
            reconfig_answers::check_answer(&operation, answer)?;
        } else {
            g08_no_resurrection::check_seen(self, answer.zxid)?;
            g25_linearizable_reads::check_answer(self, call, answer)?;
            if g25_linearizable_reads::is_refusal(&operation, answer) {
                return Ok(());
            }
            g03_reads::check_answer(self, call, answer)?;
            g05_read_your_writes::check_answer(self, sent, answer)?;
            g10_sync::check_answer(self, call, answer)?;
            g28_listing_walks::check_answer(self, call, answer)?;
        }
        g06_atomicity::check_answer(&operation, answer)
    }

    /// A client opens a connection.
    pub(crate) fn dialed(&mut self, client: usize) {
        self.dials[client] += 1;
    }

    /// A session began on a connection.
    pub(crate) fn session_began(
        &mut self,
        (client, server): (usize, usize),
        session: SessionId,
        timeout_ms: u64,
        mode: ServerMode,
    ) {
        let verdict = local_sessions::check_resumed(self, session, server, mode);
        self.report(verdict);
        let view = self.sessions.entry(session).or_insert(SessionView {
            client,
            timeout_ms,
            seen: 0,
            seen_in_log: 0,
            wrote: 0,
            last_xid: 0,
            closing: false,
            server,
            mode,
            dials: self.dials[client],
            resumed: 0,
        });
        if mode == ServerMode::ReadWrite {
            view.resumed = self.dials[client];
        }
        view.timeout_ms = timeout_ms;
        view.mode = mode;
        self.watches.connected(client, session);
    }

    pub(crate) fn session_closing(&mut self, session: SessionId) {
        if let Some(view) = self.sessions.get_mut(&session) {
            view.closing = true;
        }
    }

    /// A frame with a zxid reached a client.
    pub(crate) fn frame(&mut self, client: usize, session: SessionId, frame: &Frame) {
        if matches!(frame.kind, FrameKind::Event { .. }) {
            self.events += 1;
        }
        if self.mode_of(session) == ServerMode::ReadOnly && !self.is_committed(frame.zxid) {
            // The server shows its log. Nothing is known about it that a later state must agree with.
            self.watches.stop_checking(client);
            return g04_single_image::record_uncommitted(self, session, frame.zxid);
        }
        self.seen = self.seen.max(frame.zxid);
        let verdict = g04_single_image::check_frame(self, session, frame)
            .and_then(|()| g18_session_expiry::check_frame(self, session, frame))
            .and_then(|()| config_watch_events::check_frame(self, frame))
            .and_then(|()| watches::check_frame(self, client, session, frame));
        self.report(verdict);
    }

    /// The mode of the server that a session is connected to.
    pub(crate) fn mode_of(&self, session: SessionId) -> ServerMode {
        self.sessions.get(&session).map_or(ServerMode::ReadWrite, |view| view.mode)
    }

    /// Whether a state is one of the committed history. Some replies carry zero or -1: they show no state.
    pub(crate) fn is_committed(&self, zxid: i64) -> bool {
        zxid <= 0 || self.committed.get(zxid).is_some()
    }

    /// Whether a session has no transaction: it is local, unless local sessions are off.
    pub(crate) fn is_local(&self, session: SessionId) -> bool {
        self.local_sessions != LocalSessionSupport::Off && self.committed.model.session(session).is_none()
    }

    /// A server without a leader begins to serve reads.
    pub(crate) fn serving_read_only(&mut self, server: usize, last: i64, digest: i64, origin: TreeOrigin) {
        let verdict = read_only_state::check_service(self, server, last, digest, origin);
        self.report(verdict);
    }

    /// A connection of a client has ended: missing events do not come any more.
    pub(crate) fn disconnected(&mut self, client: usize) {
        self.quiet.disconnected(client);
        let verdict = g14_watch_completeness::check_end(self, client);
        self.report(verdict);
    }

    /// A server closes a connection whose client waits for replies.
    pub(crate) fn client_closed(&mut self, closing: &client_connections::ConnectionClose) {
        let verdict = client_connections::check_close(self, closing)
            .and_then(|()| g24_unnoticed_leader_change::check_close(self, closing));
        self.report(verdict);
    }

    /// A serving server shows its state to a client.
    pub(crate) fn shown(&mut self, server: usize, applied: i64) {
        let verdict = served_age::check_shown(self, server, applied);
        self.report(verdict);
    }

    /// A client registers its watches again.
    pub(crate) fn resending_watches(&mut self, client: usize, xid: i32, set: SetWatches) {
        self.watches.rewatching(client, xid, set);
    }

    /// A server has this state now, and shows it to clients.
    pub(crate) fn observed(&mut self, server: usize, last: i64, digest: i64) {
        let verdict = zab_prefix_consistency::check_state(self, server, last)
            .and_then(|()| g22_replica_equality::check_state(self, server, last, digest));
        self.report(verdict);
    }

    /// A serving server has this config in its tree.
    pub(crate) fn config_shown(&mut self, server: usize, last: i64, text: Option<&[u8]>) {
        let verdict = config_reads::check_node(self, server, last, text);
        self.report(verdict);
    }

    /// A server adds a transaction to the history that no other server had applied before.
    fn commit(&mut self, server: usize, zxid: i64, bytes: &Arc<[u8]>) -> CheckResult {
        zab_committed_durability::check_commit(self, server, zxid, bytes)?;
        let requests = &self.requests;
        let find = |entry: &zebu_proto::txn::TxnEntry| {
            requests.get(&(entry.header.session, entry.header.cxid)).copied()
        };
        self.committed.extend(zxid, bytes, &mut self.calls, find)?;
        self.committed_at.push(self.now);
        g02_client_order::check_commit(self)?;
        g23_exactly_once::check_commit(self)?;
        g18_session_expiry::check_commit(self)?;
        local_sessions::check_commit(self)?;
        g17_session_liveness::check_commit(self)
    }

    /// The next transaction of a history that real servers have written.
    pub(crate) fn replayed(&mut self, zxid: i64, bytes: &Arc<[u8]>) -> CheckResult {
        let requests = &self.requests;
        let find = |entry: &zebu_proto::txn::TxnEntry| {
            requests.get(&(entry.header.session, entry.header.cxid)).copied()
        };
        self.committed.extend(zxid, bytes, &mut self.calls, find)?;
        g02_client_order::check_commit(self)?;
        g18_session_expiry::check_commit(self)
    }

    /// A server begins to serve.
    pub(crate) fn serving(&mut self, server: usize, incarnation: u32, serving: ServingRole, last: i64) {
        if let ServingRole::Leading { epoch } = serving {
            let verdict = zab_leadership::check_leader(self, server, incarnation, epoch)
                .and_then(|()| zab_leader_completeness::check_leader(self, server, epoch, last))
                .and_then(|()| zab_leader_quorums::check_leader(self, server, epoch));
            self.servers[server].deposed = None;
            self.report(verdict);
        }
    }

    /// A config was proposed to a server.
    pub(crate) fn config_proposed(&mut self, server: usize, list: &EnsembleConfig) {
        let verdict = zab_configuration_versions::check_text(self, server, list)
            .and_then(|()| zab_one_pending::check_proposal(self, server, list.version));
        self.report(verdict);
    }

    /// A config takes effect at a server. If the server leads, `leads` is the step of its state machine.
    pub(crate) fn config_activated(&mut self, server: usize, list: &EnsembleConfig, leads: Option<u64>) {
        let verdict = zab_configuration_versions::check_text(self, server, list)
            .and_then(|()| zab_configuration_versions::check_activation(self, server, list.version))
            .and_then(|()| zab_two_quorums::check_activation(self, server, list));
        self.report(verdict);
        zab_acknowledgements::note_activation(self, server, list);
        if let Some(turn) = leads {
            zab_deposed_leader::note_activation(self, server, list, turn);
        }
    }

    /// A leader writes to its log.
    pub(crate) fn leader_appends(&mut self, server: usize, last: i64, turn: u64) {
        let verdict = zab_deposed_leader::check_append(self, server, last, turn);
        self.report(verdict);
    }

    /// A server sends a packet.
    pub(crate) fn packet_sent(&mut self, server: usize, packet: &Packet) {
        let verdict = zab_acknowledgements::check_packet(self, server, packet);
        self.report(verdict);
    }

    /// A snapshot replaces a server's log.
    pub(crate) fn installed(&mut self, server: usize, zxid: i64) {
        let undecided = self.uncommitted(zxid);
        let decided = self.committed.last();
        let view = &mut self.servers[server];
        view.install(zxid);
        if !undecided.is_empty() {
            view.base = decided;
            view.log = undecided;
        }
    }

    /// The uncommitted transactions of a snapshot: a leader that does not serve yet may send such a snapshot.
    /// The transactions are in the logs of the servers that have them.
    pub(crate) fn uncommitted(&self, zxid: i64) -> Vec<(i64, Arc<[u8]>)> {
        let decided = self.committed.last();
        let donor = self.servers.iter().find(|view| zxid > decided && view.entry(zxid).is_some());
        let is_meant = |(it, _): &&(i64, Arc<[u8]>)| *it > decided && *it <= zxid;
        donor.map(|view| view.log.iter().filter(is_meant).cloned().collect()).unwrap_or_default()
    }

    /// A server gets a packet.
    pub(crate) fn packet_received(&mut self, server: usize, packet: &Packet) {
        zab_acknowledgements::note_received(&mut self.servers[server], packet);
    }

    /// The end of a run: checks that need the complete history.
    pub(crate) fn finish(&mut self) {
        let verdict = self
            .committed
            .compare_all()
            .and_then(|()| g07_durability::check_end(self))
            .and_then(|()| read_only_state::check_end(self));
        self.report(verdict);
    }
}
