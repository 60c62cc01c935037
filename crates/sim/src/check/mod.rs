//! The judge: hears everything that members and clients show, and compares it with what is promised. One
//! file per promise, named after it; the numbers are those of the guarantees in docs/reliability.md.

pub(crate) mod client_connections;
mod config_reads;
mod config_watch_events;
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
pub(crate) mod learner_memory;
pub(crate) mod purged_files;
mod reconfig_answers;
pub(crate) mod served_age;
pub(crate) mod session_lease;
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

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use zebu_client::core::Answer;
use zebu_proto::SessionId;
use zebu_proto::client::SetWatches;
use zebu_proto::quorum::Packet;
use zebu_tree::TreeOptions;
use zebu_zab::Serving;

use crate::history::{Call, End, Sent, Verdict, Violation};
use crate::ledger::{Ledger, Rights};
use crate::members::{Chronicle, List};
use crate::operation::Operation;
use crate::queue::Time;
use crate::view::ServerView;

/// What is known about a session.
#[derive(Clone, Debug)]
pub(crate) struct SessionView {
    pub(crate) client: usize,
    pub(crate) timeout_ms: u64,
    /// The latest transaction that it has seen in any reply or event.
    pub(crate) seen: i64,
    /// The latest of its own writes that was answered.
    pub(crate) wrote: i64,
    /// The number of the last write that was answered.
    pub(crate) last_xid: i32,
    /// The client asked for its end.
    pub(crate) closing: bool,
    /// Connections that its client had asked for when it began.
    pub(crate) dials: u64,
}

/// The times that a promise may depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) tick: Time,
    /// Ticks.
    pub(crate) sync_limit: u64,
    pub(crate) transaction_bytes_max: usize,
    pub(crate) syncs: g10_sync::Across,
}

/// Everything that is checked while a run goes on.
#[derive(Debug)]
pub(crate) struct Judge {
    pub(crate) now: Time,
    pub(crate) tick: Time,
    pub(crate) syncs: g10_sync::Across,
    pub(crate) calls: Vec<Call>,
    pub(crate) ledger: Ledger,
    pub(crate) servers: Vec<ServerView>,
    pub(crate) sessions: BTreeMap<SessionId, SessionView>,
    pub(crate) requests: BTreeMap<(SessionId, i32), usize>,
    /// The latest transaction that any client has an answer for.
    pub(crate) acked: i64,
    /// The same at every moment at which it has changed.
    acks: Vec<(Time, i64)>,
    /// When each transaction of the ledger was applied first.
    pub(crate) committed_at: Vec<Time>,
    /// What excuses servers that show an old state.
    pub(crate) ages: served_age::Ages,
    /// Who led each epoch.
    pub(crate) leaders: BTreeMap<u32, (usize, u32)>,
    /// When it began to.
    pub(crate) led_since: BTreeMap<u32, Time>,
    /// Lists of members by version, as anybody has named them first.
    lists: BTreeMap<i64, List>,
    /// Versions that were proposed, and those that are in effect somewhere.
    proposed: BTreeSet<i64>,
    activated: BTreeSet<i64>,
    pub(crate) watches: watches::Watches,
    pub(crate) quiet: g17_session_liveness::Quiet,
    /// Connections that each client has asked for.
    pub(crate) dials: Vec<u64>,
    pub(crate) violation: Option<Violation>,
    pub(crate) answered: u64,
    pub(crate) events: u64,
}

impl Judge {
    pub(crate) fn new(
        first: List,
        rights: Rights,
        servers: usize,
        clients: usize,
        limits: Limits,
        options: TreeOptions,
    ) -> Judge {
        Judge {
            now: 0,
            tick: limits.tick,
            syncs: limits.syncs,
            calls: Vec::new(),
            ledger: Ledger::new(options, Chronicle::new(first), rights, limits.transaction_bytes_max),
            servers: (0..servers).map(|_| ServerView::default()).collect(),
            sessions: BTreeMap::new(),
            requests: BTreeMap::new(),
            acked: 0,
            acks: Vec::new(),
            committed_at: Vec::new(),
            ages: served_age::Ages::new(servers, limits.sync_limit, limits.tick),
            leaders: BTreeMap::new(),
            led_since: BTreeMap::new(),
            lists: BTreeMap::new(),
            proposed: BTreeSet::new(),
            activated: BTreeSet::new(),
            watches: watches::Watches::default(),
            quiet: g17_session_liveness::Quiet::new(servers, clients),
            dials: vec![0; clients],
            violation: None,
            answered: 0,
            events: 0,
        }
    }

    /// Keeps the first violation: what follows one is seldom of interest.
    pub(crate) fn note(&mut self, verdict: Verdict) {
        if let Err(violation) = verdict {
            self.violation.get_or_insert(violation);
        }
    }

    /// A client makes a call; its number.
    pub(crate) fn called(&mut self, client: usize, operation: Rc<Operation>) -> usize {
        self.calls.push(Call {
            client,
            operation,
            at: self.now,
            acked_before: self.acked,
            sent: None,
            place: None,
            end: None,
        });
        self.calls.len() - 1
    }

    /// A request leaves its client.
    pub(crate) fn sent(&mut self, call: usize, session: SessionId, xid: i32) {
        let verdict = g14_watch_completeness::check_registered(self, self.calls[call].client);
        self.note(verdict);
        self.calls[call].sent = Some(Sent { session });
        self.requests.insert((session, xid), call);
    }

    /// A call ends without an answer.
    pub(crate) fn failed(&mut self, call: usize) {
        self.calls[call].end = Some(End::Failed);
    }

    /// A call is answered.
    pub(crate) fn answered(&mut self, call: usize, answer: &Answer) {
        self.answered += 1;
        let verdict = self.check_answer(call, answer);
        self.note(verdict);
        let is_write = self.calls[call].operation.is_write();
        self.calls[call].end = Some(End::Answered { zxid: answer.zxid, code: answer.code });
        if is_write && answer.zxid > self.acked {
            self.acked = answer.zxid;
            self.acks.push((self.now, self.acked));
        }
    }

    /// The latest transaction that a client had an answer for at a moment.
    pub(crate) fn acked_at(&self, moment: Time) -> i64 {
        let count = self.acks.partition_point(|(at, _)| *at < moment);
        self.acks[..count].last().map_or(0, |(_, zxid)| *zxid)
    }

    fn check_answer(&mut self, call: usize, answer: &Answer) -> Verdict {
        let Some(sent) = self.calls[call].sent else { return Ok(()) };
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
            g03_reads::check_answer(self, call, answer)?;
            g05_read_your_writes::check_answer(self, sent, answer)?;
            g10_sync::check_answer(self, call, answer)?;
        }
        g06_atomicity::check_answer(&operation, answer)
    }

    /// A client asks for a connection.
    pub(crate) fn dialed(&mut self, client: usize) {
        self.dials[client] += 1;
    }

    /// A session began on a connection.
    pub(crate) fn session_began(&mut self, client: usize, session: SessionId, timeout_ms: u64) {
        let dials = self.dials[client];
        let view = SessionView { client, timeout_ms, seen: 0, wrote: 0, last_xid: 0, closing: false, dials };
        self.sessions.entry(session).or_insert(view).timeout_ms = timeout_ms;
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
        let verdict = g04_single_image::check_frame(self, session, frame)
            .and_then(|()| g18_session_expiry::check_frame(self, session, frame))
            .and_then(|()| config_watch_events::check_frame(self, frame))
            .and_then(|()| watches::check_frame(self, client, session, frame));
        self.note(verdict);
    }

    /// A connection of a client is over: what has not come does not come any more.
    pub(crate) fn disconnected(&mut self, client: usize) {
        self.quiet.disconnected(client);
        let verdict = g14_watch_completeness::check_end(self, client);
        self.note(verdict);
    }

    /// A server closes a connection whose client waits for answers.
    pub(crate) fn client_closed(&mut self, closing: &client_connections::Closing) {
        let verdict = client_connections::check_close(self, closing);
        self.note(verdict);
    }

    /// A server that serves shows its state to a client.
    pub(crate) fn shown(&mut self, server: usize, applied: i64) {
        let verdict = served_age::check_shown(self, server, applied);
        self.note(verdict);
    }

    /// A client registers its watches again.
    pub(crate) fn rewatching(&mut self, client: usize, xid: i32, set: SetWatches) {
        self.watches.rewatching(client, xid, set);
    }

    /// A member holds this state now, and shows it to clients.
    pub(crate) fn observed(&mut self, server: usize, last: i64, digest: i64) {
        let verdict = zab_prefix_consistency::check_state(self, server, last)
            .and_then(|()| g22_replica_equality::check_state(self, server, last, digest));
        self.note(verdict);
    }

    /// A member that serves has this list of members in its tree.
    pub(crate) fn list_shown(&mut self, server: usize, last: i64, text: Option<&[u8]>) {
        let verdict = config_reads::check_node(self, server, last, text);
        self.note(verdict);
    }

    /// A member adds to the history what nobody had before.
    fn commit(&mut self, server: usize, zxid: i64, bytes: &Arc<[u8]>) -> Verdict {
        zab_committed_durability::check_commit(self, server, zxid, bytes)?;
        let requests = &self.requests;
        let find = |entry: &zebu_proto::txn::TxnEntry| {
            requests.get(&(entry.header.session, entry.header.cxid)).copied()
        };
        self.ledger.extend(zxid, bytes, &mut self.calls, find)?;
        self.committed_at.push(self.now);
        g02_client_order::check_commit(self)?;
        g18_session_expiry::check_commit(self)?;
        g17_session_liveness::check_commit(self)
    }

    /// The next transaction of a history that real members have written.
    pub(crate) fn replayed(&mut self, zxid: i64, bytes: &Arc<[u8]>) -> Verdict {
        let requests = &self.requests;
        let find = |entry: &zebu_proto::txn::TxnEntry| {
            requests.get(&(entry.header.session, entry.header.cxid)).copied()
        };
        self.ledger.extend(zxid, bytes, &mut self.calls, find)?;
        g02_client_order::check_commit(self)?;
        g18_session_expiry::check_commit(self)
    }

    /// A member begins to serve.
    pub(crate) fn serving(&mut self, server: usize, incarnation: u32, serving: Serving, last: i64) {
        if let Serving::Leading { epoch } = serving {
            let verdict = zab_leadership::check_leader(self, server, incarnation, epoch)
                .and_then(|()| zab_leader_completeness::check_leader(self, server, epoch, last))
                .and_then(|()| zab_leader_quorums::check_leader(self, server, epoch));
            self.servers[server].deposed = None;
            self.note(verdict);
        }
    }

    /// A list of members was proposed to a server.
    pub(crate) fn list_proposed(&mut self, server: usize, list: &List) {
        let verdict = zab_configuration_versions::check_text(self, server, list)
            .and_then(|()| zab_one_pending::check_proposal(self, server, list.version));
        self.note(verdict);
    }

    /// A list of members takes effect at a server; in which turn of its brain, if it leads.
    pub(crate) fn list_activated(&mut self, server: usize, list: &List, leads: Option<u64>) {
        let verdict = zab_configuration_versions::check_text(self, server, list)
            .and_then(|()| zab_configuration_versions::check_activation(self, server, list.version))
            .and_then(|()| zab_two_quorums::check_activation(self, server, list));
        self.note(verdict);
        if let Some(turn) = leads {
            zab_deposed_leader::note_activation(self, server, list, turn);
        }
    }

    /// A leader writes to its log.
    pub(crate) fn leader_appends(&mut self, server: usize, last: i64, turn: u64) {
        let verdict = zab_deposed_leader::check_append(self, server, last, turn);
        self.note(verdict);
    }

    /// A member sends a packet.
    pub(crate) fn packet_sent(&mut self, server: usize, packet: &Packet) {
        let verdict = zab_acknowledgements::check_packet(self, server, packet);
        self.note(verdict);
    }

    /// A whole state takes the place of a member's log.
    pub(crate) fn installed(&mut self, server: usize, zxid: i64) {
        let undecided = self.undecided(zxid);
        let decided = self.ledger.last();
        let view = &mut self.servers[server];
        view.install(zxid);
        if !undecided.is_empty() {
            view.base = decided;
            view.log = undecided;
        }
    }

    /// What a state holds beyond what is decided: a leader that does not serve yet may send such a one. The
    /// transactions are in the log of whoever has them.
    pub(crate) fn undecided(&self, zxid: i64) -> Vec<(i64, Arc<[u8]>)> {
        let decided = self.ledger.last();
        let donor = self.servers.iter().find(|view| zxid > decided && view.entry(zxid).is_some());
        let is_meant = |(it, _): &&(i64, Arc<[u8]>)| *it > decided && *it <= zxid;
        donor.map(|view| view.log.iter().filter(is_meant).cloned().collect()).unwrap_or_default()
    }

    /// A member gets a packet.
    pub(crate) fn packet_received(&mut self, server: usize, packet: &Packet) {
        zab_acknowledgements::note_received(&mut self.servers[server], packet);
    }

    /// The end of a run: everything that can only be said of the whole.
    pub(crate) fn finish(&mut self) {
        let verdict = self.ledger.compare_all().and_then(|()| g07_durability::check_end(self));
        self.note(verdict);
    }
}

/// A frame that a client has received.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) zxid: i64,
    pub(crate) kind: FrameKind,
}

/// What it is.
#[derive(Clone, Debug)]
pub(crate) enum FrameKind {
    Reply { xid: i32, code: i32 },
    Ping,
    Event { kind: zebu_proto::client::EventType, path: Box<str> },
}
