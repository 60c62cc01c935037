//! The sending half of a connection to a peer, as the task of the real server runs it. Packets leave in the
//! order of the shipped queue, and snapshots in slices between which other events happen.

use std::collections::VecDeque;

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;
use zebu_proto::quorum::packet_length::{PacketLength, packet_length};
use zebu_runtime::{QueuedItem, SendProgress, SendQueue, SnapshotSender};
use zebu_zab::{LinkId, PeerEvent, packet_weight};

use super::{Death, Process};
use crate::context::SimContext;
use crate::coverage::CoveredPath;
use crate::network::{NetworkMessage, SocketId};
use crate::plan::PacketEnd;
use crate::queue::{MS, SimEvent, VirtualTime};

/// Nodes of a slice at most: few, so that many events happen in between.
const SLICE_NODES_MAX: u64 = 8;

/// Packets, and the snapshot that is being sent.
#[derive(Debug, Default)]
pub(crate) struct LinkWriter {
    queue: SendQueue,
    writing: Writing,
    /// The bytes of everything that has not been sent.
    weight: usize,
}

#[derive(Debug, Default)]
enum Writing {
    #[default]
    Nothing,
    /// Packets that wait for room on the network, and their total bytes.
    Packets { left: VecDeque<Vec<u8>>, weight: usize },
    /// A snapshot, with the longest pause between its slices.
    Snapshot { sender: SnapshotSender, began_at: Zxid, pause_max: VirtualTime },
}

impl LinkWriter {
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// Whether packets must be sent as soon as there is room.
    pub(super) fn waits_for_room(&self) -> bool {
        match &self.writing {
            Writing::Nothing => !self.queue.is_empty(),
            Writing::Packets { .. } => true,
            // Its next slice is scheduled.
            Writing::Snapshot { .. } => false,
        }
    }
}

/// Splits bytes into the packets that were encoded.
fn packets(mut bytes: &[u8]) -> VecDeque<Vec<u8>> {
    let mut packets = VecDeque::new();
    while let PacketLength::Complete { length } = packet_length(bytes, usize::MAX) {
        packets.push_back(bytes[..length].to_vec());
        bytes = &bytes[length..];
    }
    assert!(bytes.is_empty(), "whole packets are encoded");
    packets
}

impl Process {
    pub(super) fn send_packet(&mut self, link: LinkId, packet: Packet, core: &mut SimContext) {
        match packet {
            Packet::Diff { .. } => core.count(CoveredPath::Diff),
            Packet::Trunc { .. } => core.count(CoveredPath::Trunc),
            Packet::Snap { .. } => core.count(CoveredPath::Snap),
            Packet::UpToDate if self.is_of_master(link) => core.count(CoveredPath::ObserverMasterSynced),
            Packet::Sync if self.is_of_master(link) => core.count(CoveredPath::ObserverMasterSync),
            Packet::Revalidated { .. } if self.is_of_master(link) => {
                core.count(CoveredPath::ObserverMasterRevalidation)
            }
            _ => {}
        }
        core.checker.packet_sent(self.server, &packet);
        core.step_made(self.server, &packet, PacketEnd::Sends);
        if let Some(link) = self.links.get_mut(&link) {
            link.writer.weight += packet_weight(&packet);
            link.writer.queue.push(packet);
        }
    }

    /// Sends a snapshot after the SNAP packet.
    pub(super) fn send_snapshot(&mut self, link: LinkId) {
        if let Some(link) = self.links.get_mut(&link) {
            link.writer.queue.push_snapshot();
        }
    }

    /// Sends as much as the network accepts. True if anything was sent.
    pub(super) fn flush_links(&mut self, core: &mut SimContext) -> bool {
        let waits = self.links.iter().filter(|(_, link)| link.writer.waits_for_room());
        let ids: Vec<LinkId> = waits.map(|(&id, _)| id).collect();
        let mut any = false;
        for id in ids {
            any |= self.flush_link(id, core);
        }
        any
    }

    fn flush_link(&mut self, id: LinkId, core: &mut SimContext) -> bool {
        let mut any = false;
        loop {
            let Some(link) = self.links.get_mut(&id) else { return any };
            match &mut link.writer.writing {
                Writing::Nothing => {
                    let mut bytes = Vec::new();
                    link.writer.writing = match link.writer.queue.take_next(&mut bytes) {
                        QueuedItem::Bytes { weight } => Writing::Packets { left: packets(&bytes), weight },
                        QueuedItem::Snapshot => {
                            self.begin_stream(id, core);
                            return any;
                        }
                        QueuedItem::Nothing => return any,
                    };
                }
                Writing::Packets { left, weight } => {
                    while core.network.has_room(link.connection, link.side)
                        && let Some(bytes) = left.pop_front()
                    {
                        let message = NetworkMessage::Packet(bytes);
                        core.network.send(link.connection, link.side, message, core.now, &mut core.queue);
                    }
                    if !left.is_empty() {
                        return any;
                    }
                    let weight = *weight;
                    link.writer.weight -= weight;
                    link.writer.writing = Writing::Nothing;
                    self.peer_event(PeerEvent::Sent { link: id, weight });
                    any = true;
                }
                Writing::Snapshot { .. } => return any,
            }
        }
    }

    fn begin_stream(&mut self, id: LinkId, core: &mut SimContext) {
        core.trace_line(format_args!("s{} streams its state of {}", self.server, self.replica.last_zxid()));
        let (sender, began_at) = (SnapshotSender::begin(&self.replica), self.replica.last_zxid());
        let pause_max = core.stream_random.skewed(MS / 10, core.parameters.tick() / 4);
        let Some(link) = self.links.get_mut(&id) else { return };
        link.writer.writing = Writing::Snapshot { sender, began_at, pause_max };
        let connection = link.connection;
        self.schedule_stream(connection, pause_max, core);
    }

    fn schedule_stream(&self, connection: SocketId, pause_max: VirtualTime, core: &mut SimContext) {
        let pause = core.stream_random.between(0, pause_max);
        let (server, incarnation) = (self.server, self.incarnation);
        core.push(core.now + pause, SimEvent::StreamSlice { server, incarnation, connection });
    }

    /// The time of the next slice has come.
    pub(crate) fn stream_slice(&mut self, connection: SocketId, core: &mut SimContext) -> Result<(), Death> {
        let Some(&id) = self.by_connection.get(&connection) else { return Ok(()) };
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        let Writing::Snapshot { sender, began_at, pause_max } = &mut link.writer.writing else {
            return Ok(());
        };
        let (began_at, pause_max) = (*began_at, *pause_max);
        if !core.network.has_room(link.connection, link.side) {
            self.schedule_stream(connection, pause_max.max(MS), core);
            return Ok(());
        }
        let nodes = core.stream_random.between(1, SLICE_NODES_MAX) as usize;
        let mut bytes = Vec::new();
        let progress = sender.next_slice(&self.replica, nodes, &mut bytes);
        let Ok(progress) = progress.inspect_err(|abort| {
            core.trace_line(format_args!("s{} gives up a snapshot: {abort}", self.server));
        }) else {
            return self.break_link(connection, core);
        };
        core.network.send(
            link.connection,
            link.side,
            NetworkMessage::Snapshot(bytes),
            core.now,
            &mut core.queue,
        );
        match progress {
            SendProgress::More => {
                self.peer_event(PeerEvent::SnapshotProgress { link: id });
                self.schedule_stream(connection, pause_max, core);
            }
            SendProgress::Done { end } => {
                link.writer.queue.snapshot_sent(end);
                link.writer.writing = Writing::Nothing;
                if self.replica.last_zxid() > began_at {
                    core.count(CoveredPath::SnapWithCommits);
                }
                self.peer_event(PeerEvent::SnapshotSent { link: id });
            }
        }
        self.settle(core)
    }
}
