//! Connections between servers: dialing, accepting and received messages. The sending half is in
//! `link_writer.rs`.

use zebu_proto::frame::LENGTH_SIZE;
use zebu_proto::quorum::{Notification, Packet};
use zebu_proto::{Reader, ServerId, Zxid};
use zebu_storage::{DiffLimits, LogReader};
use zebu_zab::{EncodedTxn, LearnerPort, LinkCloseReason, LinkId, LogPurpose, LogRead, PeerEvent};

use super::inbox::Urgent;
use super::link_writer::LinkWriter;
use super::received::IncomingSnapshot;
use super::{Death, Process};
use crate::check::learner_memory::{check_blocked, check_collected, check_history, check_queue};
use crate::context::SimContext;
use crate::network::{Host, NetworkMessage, Port, SocketId, SocketSide};
use crate::plan::PacketEnd;
use crate::queue::{Acceptance, SimEvent};
use crate::server::disk::FaultyDisk;

/// A connection to a peer.
pub(crate) struct PeerLink {
    pub(super) connection: SocketId,
    pub(super) side: SocketSide,
    port: LearnerPort,
    /// The sending half.
    pub(super) writer: LinkWriter,
    /// Whether the node has stopped reading.
    reading_paused: bool,
    /// A snapshot that is being received.
    incoming: Option<IncomingSnapshot>,
    /// The reader of the log for this learner.
    reader: Option<LogReader<FaultyDisk>>,
}

/// Bytes that may be queued for a learner.
pub(crate) const WINDOW: usize = 4000;

/// Bytes of the log that are read at a time.
const READ_BYTES: usize = 2000;

/// Bytes of the log that are sent to a learner instead of a snapshot.
const DIFF_BYTES: u64 = 12_000;

impl Process {
    /// Passes an event of a peer or of the disk to the node.
    pub(super) fn peer_event(&mut self, event: PeerEvent) {
        self.inbox.urgent(Urgent::Peer(event));
    }

    fn add_link(&mut self, link: LinkId, connection: SocketId, side: SocketSide, port: LearnerPort) {
        self.by_connection.insert(connection, link);
        let writer = LinkWriter::default();
        let reading_paused = false;
        self.links.insert(
            link,
            PeerLink { connection, side, port, writer, reading_paused, incoming: None, reader: None },
        );
    }

    pub(super) fn pause_reading(&mut self, link: LinkId, core: &mut SimContext) {
        core.trace_line(format_args!("s{} stops reading from its leader", self.server));
        if let Some(link) = self.links.get_mut(&link) {
            link.reading_paused = true;
        }
    }

    pub(super) fn resume_reading(&mut self, link: LinkId) {
        if let Some(link) = self.links.get_mut(&link) {
            link.reading_paused = false;
        }
    }

    /// Whether the node has stopped reading from a connection.
    pub(crate) fn is_reading_paused(&self, connection: SocketId) -> bool {
        let link = self.by_connection.get(&connection).and_then(|link| self.links.get(link));
        link.is_some_and(|link| link.reading_paused)
    }

    /// A learner has connected.
    pub(crate) fn accept_peer(
        &mut self,
        connection: SocketId,
        port: LearnerPort,
        core: &mut SimContext,
    ) -> Result<(), Death> {
        self.accepted_links += 1;
        let link = LinkId::accepted(self.accepted_links);
        self.add_link(link, connection, SocketSide::Listener, port);
        self.peer_event(match port {
            LearnerPort::Quorum => PeerEvent::Accepted { link },
            LearnerPort::ObserverMaster => PeerEvent::ObserverAccepted { link },
        });
        self.settle(core)
    }

    pub(super) fn dial(&mut self, link: LinkId, to: usize, learner_port: LearnerPort, core: &mut SimContext) {
        let port = match learner_port {
            LearnerPort::Quorum => Port::Quorum,
            LearnerPort::ObserverMaster => Port::ObserverMaster,
        };
        match learner_port {
            LearnerPort::Quorum => core.trace_line(format_args!("s{} dials s{to}", self.server)),
            LearnerPort::ObserverMaster => {
                core.trace_line(format_args!("s{} dials observer master s{to}", self.server));
            }
        }
        let (from, to) = (Host(self.server), Host(to));
        let connection = core.network.dial(from, to, port, core.now, &mut core.queue);
        self.add_link(link, connection, SocketSide::Dialer, learner_port);
        let patience = core.parameters.tick() * core.parameters.sync_limit;
        core.push(core.now + patience, SimEvent::DialTimeout { connection });
    }

    /// The answer to a request to connect.
    pub(crate) fn dial_answered(
        &mut self,
        connection: SocketId,
        accepted: Acceptance,
        core: &mut SimContext,
    ) -> Result<(), Death> {
        let Some(&link) = self.by_connection.get(&connection) else { return Ok(()) };
        match accepted {
            Acceptance::Yes => self.peer_event(PeerEvent::Dialed { link }),
            Acceptance::No => {
                self.forget_link(link);
                self.peer_event(PeerEvent::DialFailed { link });
            }
        }
        self.settle(core)
    }

    /// Whether a link is that of an observer at the observer master port of this server.
    pub(super) fn is_of_master(&self, link: LinkId) -> bool {
        let link = self.links.get(&link);
        link.is_some_and(|link| link.side == SocketSide::Listener && link.port == LearnerPort::ObserverMaster)
    }

    fn forget_link(&mut self, link: LinkId) -> Option<PeerLink> {
        let gone = self.links.remove(&link)?;
        self.by_connection.remove(&gone.connection);
        Some(gone)
    }

    pub(super) fn close_link(&mut self, link: LinkId, reason: &LinkCloseReason, core: &mut SimContext) {
        core.trace_line(format_args!("s{} closes a link: {reason}", self.server));
        if let Some(link) = self.forget_link(link) {
            core.network.close(link.connection, link.side, core.now, &mut core.queue);
        }
    }

    /// A connection to a peer has ended.
    pub(crate) fn peer_gone(&mut self, connection: SocketId, core: &mut SimContext) -> Result<(), Death> {
        let Some(&link) = self.by_connection.get(&connection) else { return Ok(()) };
        self.forget_link(link);
        self.peer_event(PeerEvent::LinkDown { link });
        self.settle(core)
    }

    /// A notification of the election was received.
    pub(crate) fn notified(&mut self, from: usize, bytes: &[u8], core: &mut SimContext) -> Result<(), Death> {
        // After the length of the frame.
        if let Some(Ok(notification)) = bytes.get(LENGTH_SIZE..).map(Notification::decode) {
            self.meet(from);
            let from = ServerId(from as i64 + 1);
            self.peer_event(PeerEvent::Notification { from, notification });
        }
        self.settle(core)
    }

    /// A message of a peer was received.
    pub(crate) fn peer_message(
        &mut self,
        connection: SocketId,
        message: NetworkMessage,
        core: &mut SimContext,
    ) -> Result<(), Death> {
        let Some(&id) = self.by_connection.get(&connection) else { return Ok(()) };
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        match message {
            NetworkMessage::Packet(mut bytes) => {
                core.garble(&mut bytes);
                let Ok(packet) = Packet::decode(&mut Reader::new(&bytes)) else {
                    return self.break_link(connection, core);
                };
                if let Packet::Snap { zxid } = packet {
                    link.incoming = Some(IncomingSnapshot::new(zxid));
                }
                if core.is_traced() {
                    core.trace_line(format_args!("s{} gets {}", self.server, shown(&packet)));
                }
                core.checker.packet_received(self.server, &packet);
                core.step_made(self.server, &packet, PacketEnd::Gets);
                self.peer_event(PeerEvent::Packet { link: id, packet });
            }
            NetworkMessage::Snapshot(bytes) => {
                let Some(incoming) = &mut link.incoming else { return Ok(()) };
                match incoming.feed(&bytes) {
                    Ok(None) => self.peer_event(PeerEvent::SnapshotProgress { link: id }),
                    Ok(Some(received)) => {
                        link.incoming = None;
                        self.received.insert(id, Box::new(received));
                        self.peer_event(PeerEvent::SnapshotReceived { link: id });
                    }
                    Err(flaw) => {
                        core.trace_line(format_args!(
                            "s{} gets a snapshot that is none: {flaw}",
                            self.server
                        ));
                        return self.break_link(connection, core);
                    }
                }
            }
            NetworkMessage::Bytes(_) => {}
        }
        self.settle(core)
    }

    /// This side closes a connection because of a bad message, or because a message cannot be sent.
    pub(super) fn break_link(&mut self, connection: SocketId, core: &mut SimContext) -> Result<(), Death> {
        let link = self.by_connection.get(&connection).and_then(|link| self.links.get(link));
        if let Some(side) = link.map(|link| link.side) {
            core.network.close(connection, side, core.now, &mut core.queue);
        }
        self.peer_gone(connection, core)
    }

    pub(super) fn read_log(&mut self, link: LinkId, after: Zxid, up_to: Zxid, purpose: LogPurpose) {
        let reader = self.links.get_mut(&link).and_then(|link| link.reader.take());
        let fresh = || LogReader::new(self.disk.clone(), &self.directories, after);
        let mut reader = reader.filter(|reader| reader.last() == after).unwrap_or_else(fresh);
        let found = match purpose {
            LogPurpose::BeginDiff { entries_max } => {
                reader.begin(up_to, READ_BYTES, DiffLimits { entries: entries_max, bytes: DIFF_BYTES })
            }
            LogPurpose::Continue => reader.next(up_to, READ_BYTES),
        };
        let read = match found {
            Ok(Some(entries)) if !entries.is_empty() => {
                let entry = |it: zebu_storage::LogEntry| EncodedTxn { zxid: it.zxid, bytes: it.bytes };
                LogRead::Entries(entries.into_iter().map(entry).collect())
            }
            Ok(_) | Err(_) => LogRead::Unavailable,
        };
        if let Some(link) = self.links.get_mut(&link) {
            link.reader = Some(reader);
        }
        self.peer_event(PeerEvent::LogRead { link, read });
    }

    /// Reports to the checker how much memory is held for learners and for a leader's transactions.
    pub(super) fn show_memory(&self, core: &mut SimContext) {
        let limit = core.parameters.history_bytes;
        let held = self.node().status().map_or(0, |status| status.history_bytes);
        core.checker.report(check_history(self.server, held, limit));
        let collected = self.node().status().map_or(0, |status| status.collected_bytes);
        core.checker.report(check_collected(self.server, collected, limit));
        let blocked = self.node().status().map_or(0, |status| status.blocked_weight);
        core.checker.report(check_blocked(self.server, blocked, limit));
        for link in self.links.values() {
            core.checker.report(check_queue(self.server, link.writer.weight(), WINDOW));
        }
    }

    /// Whether packets wait for room on a connection.
    pub(crate) fn has_backlog(&self, connection: SocketId) -> bool {
        let link = self.by_connection.get(&connection).and_then(|link| self.links.get(link));
        if let Some(link) = link {
            return link.writer.waits_for_room();
        }
        let lane = self.clients.get(&connection).and_then(|client| self.lanes.0.get(&client.lane));
        lane.is_some_and(|lane| lane.outbox_len() > 0)
    }
}

/// A packet in a few words.
pub(crate) fn shown(packet: &Packet) -> String {
    match packet {
        Packet::Proposal { zxid, .. } => format!("PROPOSAL {zxid}"),
        Packet::Inform { zxid, .. } => format!("INFORM {zxid}"),
        Packet::Request { session, cxid, op, .. } => format!("REQUEST {cxid} of {:#x}, op {op}", session.0),
        Packet::NewLeader { zxid, .. } => format!("NEWLEADER {zxid}"),
        other => format!("{other:?}"),
    }
}
