//! Connections between members: packets are encoded and decoded on their way, states are streamed in parts.

use std::collections::VecDeque;

use zebu_proto::frame::LENGTH_SIZE;
use zebu_proto::quorum::{Notification, Packet};
use zebu_proto::{Reader, ServerId, Zxid};
use zebu_storage::read_after;
use zebu_zab::{CloseReason, Entry, Event as PeerEvent, LinkId, LogRead, weight};

use super::inbox::Urgent;
use super::{Death, Process};
use crate::check::learner_memory::{check_history, check_queue};
use crate::core::Core;
use crate::network::{ConnectionId, Host, Message, Port, Side};
use crate::plan::When;
use crate::queue::{Accepted, Event};
use crate::server::start::encode_state;

/// Something that waits for room on a connection.
#[derive(Debug)]
enum Outgoing {
    Packet { bytes: Vec<u8>, weight: usize },
    State(Vec<u8>),
    StateEnd(Vec<u8>),
}

/// A connection to another member.
#[derive(Debug)]
pub(crate) struct PeerLink {
    connection: ConnectionId,
    side: Side,
    outgoing: VecDeque<Outgoing>,
    /// A state that comes in, with the transaction that its SNAP packet named.
    incoming: Option<(Zxid, Vec<u8>)>,
}

/// Bytes of a state that travel together.
const STATE_PART: usize = 700;

/// Bytes that may wait for a learner.
pub(crate) const WINDOW: usize = 4000;

/// Bytes of the log that are read at a time.
const READ_BYTES: usize = 2000;

impl Process {
    /// Tells the brain what happened between the members, or on the disk.
    pub(super) fn peer_event(&mut self, event: PeerEvent) {
        self.inbox.urgent(Urgent::Peer(event));
    }

    fn add_link(&mut self, link: LinkId, connection: ConnectionId, side: Side) {
        let outgoing = VecDeque::new();
        self.by_connection.insert(connection, link);
        self.links.insert(link, PeerLink { connection, side, outgoing, incoming: None });
    }

    /// A learner has connected.
    pub(crate) fn accept_peer(&mut self, connection: ConnectionId, core: &mut Core) -> Result<(), Death> {
        self.accepted_links += 1;
        let link = LinkId::accepted(self.accepted_links);
        self.add_link(link, connection, Side::Listener);
        self.peer_event(PeerEvent::Accepted { link });
        self.settle(core)
    }

    pub(super) fn dial(&mut self, link: LinkId, to: usize, core: &mut Core) {
        core.tell(format_args!("s{} dials s{to}", self.server));
        let (from, to) = (Host(self.server), Host(to));
        let connection = core.network.dial(from, to, Port::Quorum, core.now, &mut core.queue);
        self.add_link(link, connection, Side::Dialer);
        let patience = core.shape.tick() * core.shape.sync_limit;
        core.push(core.now + patience, Event::DialTimeout { connection });
    }

    /// The answer to a request to connect.
    pub(crate) fn dial_answered(
        &mut self,
        connection: ConnectionId,
        accepted: Accepted,
        core: &mut Core,
    ) -> Result<(), Death> {
        let Some(&link) = self.by_connection.get(&connection) else { return Ok(()) };
        match accepted {
            Accepted::Yes => self.peer_event(PeerEvent::Dialed { link }),
            Accepted::No => {
                self.forget_link(link);
                self.peer_event(PeerEvent::DialFailed { link });
            }
        }
        self.settle(core)
    }

    fn forget_link(&mut self, link: LinkId) -> Option<PeerLink> {
        let gone = self.links.remove(&link)?;
        self.by_connection.remove(&gone.connection);
        Some(gone)
    }

    pub(super) fn close_link(&mut self, link: LinkId, reason: &CloseReason, core: &mut Core) {
        core.tell(format_args!("s{} closes a link: {reason}", self.server));
        if let Some(link) = self.forget_link(link) {
            core.network.close(link.connection, link.side, core.now, &mut core.queue);
        }
    }

    /// A connection to another member is over.
    pub(crate) fn peer_gone(&mut self, connection: ConnectionId, core: &mut Core) -> Result<(), Death> {
        let Some(&link) = self.by_connection.get(&connection) else { return Ok(()) };
        self.forget_link(link);
        self.peer_event(PeerEvent::LinkDown { link });
        self.settle(core)
    }

    /// A message of the election.
    pub(crate) fn notified(&mut self, from: usize, bytes: &[u8], core: &mut Core) -> Result<(), Death> {
        // Behind the length of the frame.
        if let Some(Ok(notification)) = bytes.get(LENGTH_SIZE..).map(Notification::decode) {
            self.meet(from);
            let from = ServerId(from as i64 + 1);
            self.peer_event(PeerEvent::Notification { from, notification });
        }
        self.settle(core)
    }

    /// Something came from another member.
    pub(crate) fn peer_message(
        &mut self,
        connection: ConnectionId,
        message: Message,
        core: &mut Core,
    ) -> Result<(), Death> {
        let Some(&id) = self.by_connection.get(&connection) else { return Ok(()) };
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        match message {
            Message::Packet(mut bytes) => {
                core.garble(&mut bytes);
                let Ok(packet) = Packet::decode(&mut Reader::new(&bytes)) else {
                    let (connection, side) = (link.connection, link.side);
                    core.network.close(connection, side, core.now, &mut core.queue);
                    return self.peer_gone(connection, core);
                };
                if let Packet::Snap { zxid } = packet {
                    link.incoming = Some((zxid, Vec::new()));
                }
                if core.is_told() {
                    core.tell(format_args!("s{} gets {}", self.server, shown(&packet)));
                }
                core.judge.packet_received(self.server, &packet);
                core.step_made(self.server, &packet, When::Gets);
                self.peer_event(PeerEvent::Packet { link: id, packet });
            }
            Message::State(bytes) => {
                if let Some((_, state)) = &mut link.incoming {
                    state.extend_from_slice(&bytes);
                }
            }
            Message::StateEnd(bytes) => {
                if let Some((zxid, mut state)) = link.incoming.take() {
                    state.extend_from_slice(&bytes);
                    self.received.insert(id, (zxid, state));
                    self.peer_event(PeerEvent::SnapshotReceived { link: id });
                }
            }
            Message::Bytes(_) => {}
        }
        self.settle(core)
    }

    pub(super) fn send_packet(&mut self, link: LinkId, packet: &Packet, core: &mut Core) {
        match packet {
            Packet::Diff { .. } => core.counts.syncs[0] += 1,
            Packet::Trunc { .. } => core.counts.syncs[1] += 1,
            Packet::Snap { .. } => core.counts.syncs[2] += 1,
            _ => {}
        }
        core.judge.packet_sent(self.server, packet);
        core.step_made(self.server, packet, When::Sends);
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        if let Some(link) = self.links.get_mut(&link) {
            link.outgoing.push_back(Outgoing::Packet { bytes, weight: weight(packet) });
        }
    }

    /// Sends the whole state behind the SNAP packet.
    pub(super) fn stream_state(&mut self, link: LinkId, zxid: Zxid, core: &mut Core) {
        core.tell(format_args!("s{} streams its state of {zxid}", self.server));
        let bytes = encode_state(self.replica.tree());
        let Some(link) = self.links.get_mut(&link) else { return };
        let mut parts = bytes.chunks(STATE_PART).map(<[u8]>::to_vec).peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            link.outgoing.push_back(if is_last { Outgoing::StateEnd(part) } else { Outgoing::State(part) });
        }
    }

    pub(super) fn read_log(&mut self, link: LinkId, after: Zxid, up_to: Zxid) {
        let read = match read_after(&self.disk, &self.directories, after, up_to, READ_BYTES) {
            Ok(Some(entries)) if !entries.is_empty() => {
                let entry = |it: zebu_storage::LogEntry| Entry { zxid: it.zxid, bytes: it.bytes };
                LogRead::Entries(entries.into_iter().map(entry).collect())
            }
            Ok(_) | Err(_) => LogRead::Unavailable,
        };
        self.peer_event(PeerEvent::LogRead { link, read });
    }

    /// Puts on the wire what there is room for. True if anything left.
    pub(super) fn flush_links(&mut self, core: &mut Core) -> bool {
        let ids: Vec<LinkId> =
            self.links.iter().filter(|(_, link)| !link.outgoing.is_empty()).map(|(&id, _)| id).collect();
        let mut events = Vec::new();
        for id in ids {
            let Some(link) = self.links.get_mut(&id) else { continue };
            while core.network.has_room(link.connection, link.side) {
                let Some(next) = link.outgoing.pop_front() else { break };
                let message = match next {
                    Outgoing::Packet { bytes, weight } => {
                        events.push(PeerEvent::Sent { link: id, weight });
                        Message::Packet(bytes)
                    }
                    Outgoing::State(bytes) => Message::State(bytes),
                    Outgoing::StateEnd(bytes) => {
                        events.push(PeerEvent::SnapshotSent { link: id });
                        Message::StateEnd(bytes)
                    }
                };
                core.network.send(link.connection, link.side, message, core.now, &mut core.queue);
            }
        }
        let any = !events.is_empty();
        for event in events {
            self.peer_event(event);
        }
        any
    }

    /// How much is held for learners, and of a leader's transactions.
    pub(super) fn show_memory(&self, core: &mut Core) {
        let limit = core.shape.history_bytes;
        let held = self.node.status().map_or(0, |status| status.history_bytes);
        core.judge.note(check_history(self.server, held, limit));
        for link in self.links.values() {
            let packets = link.outgoing.iter().map(|waiting| match waiting {
                Outgoing::Packet { bytes, .. } => bytes.len(),
                // A real server encodes a state while it sends it.
                Outgoing::State(_) | Outgoing::StateEnd(_) => 0,
            });
            core.judge.note(check_queue(self.server, packets.sum(), WINDOW));
        }
    }

    /// Whether something waits for room on a connection.
    pub(crate) fn has_backlog(&self, connection: ConnectionId) -> bool {
        let link = self.by_connection.get(&connection).and_then(|link| self.links.get(link));
        if let Some(link) = link {
            return !link.outgoing.is_empty();
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
