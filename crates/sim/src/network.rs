//! The network: connections like those of TCP between hosts. The bytes of a connection arrive in order or not
//! at all; a path can be cut in one direction. A connection can end at any byte, be half open, or outlive its
//! process.
//!
//! It does not interpret the bytes; the world delivers them to the owners of the ends.

use std::collections::{BTreeMap, VecDeque};

use crate::queue::{Acceptance, EventQueue, SimEvent, VirtualTime};
use crate::random::SimRandom;

/// A host: servers first, then clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Host(pub(crate) usize);

/// The number of a connection; unique in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SocketId(pub(crate) u64);

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketSide {
    Dialer,
    Listener,
}

impl SocketSide {
    pub(crate) fn other(self) -> SocketSide {
        match self {
            SocketSide::Dialer => SocketSide::Listener,
            SocketSide::Listener => SocketSide::Dialer,
        }
    }
}

/// Which port was dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Client,
    Quorum,
    ObserverMaster,
}

/// The content of a message.
#[derive(Debug)]
pub(crate) enum NetworkMessage {
    /// A part of a client's stream.
    Bytes(Vec<u8>),
    /// One packet between leader and learner.
    Packet(Vec<u8>),
    /// A slice of a snapshot after a SNAP packet.
    Snapshot(Vec<u8>),
}

impl NetworkMessage {
    pub(crate) fn len(&self) -> usize {
        match self {
            NetworkMessage::Bytes(bytes)
            | NetworkMessage::Packet(bytes)
            | NetworkMessage::Snapshot(bytes) => bytes.len(),
        }
    }
}

#[derive(Debug)]
enum InFlight {
    Message(NetworkMessage),
    End,
}

/// The result of a delivery.
#[derive(Debug)]
pub(crate) enum Delivered {
    Message(NetworkMessage),
    /// The other side has closed, or the connection broke.
    Ended,
    /// Nothing was delivered.
    Nothing,
}

/// The state of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketState {
    /// The listener has not got the connection, or the dialer has not got the acceptance.
    Pending,
    Open,
    /// The process has closed the end, or knows that the connection has ended.
    Closed,
    /// The machine lost its power: the peer gets no notice.
    Gone,
}

#[derive(Debug)]
struct Direction {
    items: VecDeque<(VirtualTime, InFlight)>,
    /// A delivery of the first item is in the queue.
    scheduled: bool,
    last_at: VirtualTime,
    bytes: usize,
}

#[derive(Debug)]
struct Socket {
    hosts: [Host; 2],
    port: Port,
    ends: [SocketState; 2],
    /// Towards the dialer, towards the listener.
    ways: [Direction; 2],
}

/// Bytes that may be in transit before a sender has to wait.
const WINDOW: usize = 64 << 10;

fn at(side: SocketSide) -> usize {
    match side {
        SocketSide::Dialer => 0,
        SocketSide::Listener => 1,
    }
}

/// How long messages take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) low: VirtualTime,
    pub(crate) high: VirtualTime,
    /// How many of a thousand messages take ten times as long.
    pub(crate) straggler_permille: u64,
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Network {
    connections: BTreeMap<SocketId, Socket>,
    next: u64,
    hosts: usize,
    /// How many cuts are on each directed path.
    cuts: Vec<u32>,
    /// Extra latency of each directed path.
    slow: Vec<VirtualTime>,
    latency: Latency,
    random: SimRandom,
}

impl Network {
    pub(crate) fn new(hosts: usize, latency: Latency, random: SimRandom) -> Network {
        Network {
            connections: BTreeMap::new(),
            next: 1,
            hosts,
            cuts: vec![0; hosts * hosts],
            slow: vec![0; hosts * hosts],
            latency,
            random,
        }
    }

    fn path(&self, from: Host, to: Host) -> usize {
        from.0 * self.hosts + to.0
    }

    /// Whether nothing passes from one host to another.
    pub(crate) fn is_cut(&self, from: Host, to: Host) -> bool {
        self.cuts[self.path(from, to)] > 0
    }

    pub(crate) fn cut(&mut self, from: Host, to: Host) {
        let path = self.path(from, to);
        self.cuts[path] += 1;
    }

    /// Removes one cut. Delayed messages are delivered.
    pub(crate) fn heal(&mut self, from: Host, to: Host, now: VirtualTime, queue: &mut EventQueue) {
        let path = self.path(from, to);
        self.cuts[path] = self.cuts[path].saturating_sub(1);
        if self.cuts[path] > 0 {
            return;
        }
        let ids: Vec<SocketId> = self.connections.keys().copied().collect();
        for id in ids {
            for to_side in [SocketSide::Dialer, SocketSide::Listener] {
                let connection = &self.connections[&id];
                if connection.hosts[at(to_side)] == to && connection.hosts[at(to_side.other())] == from {
                    self.schedule(id, to_side, now, queue);
                }
            }
        }
    }

    /// Removes every cut and every extra latency.
    pub(crate) fn heal_all(&mut self, among: &[Host], now: VirtualTime, queue: &mut EventQueue) {
        for &from in among {
            for &to in among {
                let path = self.path(from, to);
                self.slow[path] = 0;
                if self.cuts[path] > 0 {
                    self.cuts[path] = 1;
                    self.heal(from, to, now, queue);
                }
            }
        }
    }

    pub(crate) fn slow_down(&mut self, from: Host, to: Host, extra: VirtualTime) {
        let path = self.path(from, to);
        self.slow[path] += extra;
    }

    pub(crate) fn speed_up(&mut self, from: Host, to: Host, extra: VirtualTime) {
        let path = self.path(from, to);
        self.slow[path] = self.slow[path].saturating_sub(extra);
    }

    /// How long the next message takes.
    pub(crate) fn delay(&mut self, from: Host, to: Host) -> VirtualTime {
        let drawn = self.random.between(self.latency.low, self.latency.high);
        let straggles = self.random.permille(self.latency.straggler_permille);
        let factor = if straggles { 10 } else { 1 };
        drawn * factor + self.slow[self.path(from, to)]
    }

    /// Opens a connection.
    pub(crate) fn dial(
        &mut self,
        from: Host,
        to: Host,
        port: Port,
        now: VirtualTime,
        queue: &mut EventQueue,
    ) -> SocketId {
        let id = SocketId(self.next);
        self.next += 1;
        let way = || Direction { items: VecDeque::new(), scheduled: false, last_at: 0, bytes: 0 };
        let ends = [SocketState::Pending, SocketState::Pending];
        let connection = Socket { hosts: [from, to], port, ends, ways: [way(), way()] };
        self.connections.insert(id, connection);
        if !self.is_cut(from, to) {
            let delay = self.delay(from, to);
            queue.push(now + delay, SimEvent::ConnectRequest { connection: id });
        }
        id
    }

    /// The listener answers a connection request.
    pub(crate) fn answer(
        &mut self,
        id: SocketId,
        accepted: Acceptance,
        now: VirtualTime,
        queue: &mut EventQueue,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let [dialer, listener] = connection.hosts;
        if accepted == Acceptance::Yes {
            connection.ends[at(SocketSide::Listener)] = SocketState::Open;
        }
        if self.is_cut(listener, dialer) {
            return;
        }
        let delay = self.delay(listener, dialer);
        if let Some(connection) = self.connections.get_mut(&id) {
            // Nothing from the listener arrives before its answer.
            connection.ways[at(SocketSide::Dialer)].last_at = now + delay;
        }
        queue.push(now + delay, SimEvent::ConnectAnswer { connection: id, accepted });
    }

    /// The dialer gets the answer. False if it does not wait for it any more.
    pub(crate) fn establish(&mut self, id: SocketId, accepted: Acceptance) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        if connection.ends[at(SocketSide::Dialer)] != SocketState::Pending {
            return false;
        }
        match accepted {
            Acceptance::Yes => connection.ends[at(SocketSide::Dialer)] = SocketState::Open,
            Acceptance::No => {
                self.connections.remove(&id);
            }
        }
        true
    }

    /// Whether the dialer still waits for an answer.
    pub(crate) fn is_pending(&self, id: SocketId) -> bool {
        self.connections.get(&id).is_some_and(|it| it.ends[at(SocketSide::Dialer)] == SocketState::Pending)
    }

    pub(crate) fn host(&self, id: SocketId, side: SocketSide) -> Option<Host> {
        self.connections.get(&id).map(|connection| connection.hosts[at(side)])
    }

    /// The dialer of a connection, if its end is open.
    pub(crate) fn waiting_dialer(&self, id: SocketId) -> Option<Host> {
        let connection = self.connections.get(&id)?;
        (connection.ends[at(SocketSide::Dialer)] == SocketState::Open)
            .then_some(connection.hosts[at(SocketSide::Dialer)])
    }

    pub(crate) fn port(&self, id: SocketId) -> Option<Port> {
        self.connections.get(&id).map(|connection| connection.port)
    }

    /// Whether a sender may send more.
    pub(crate) fn has_room(&self, id: SocketId, from: SocketSide) -> bool {
        self.connections.get(&id).is_some_and(|it| it.ways[at(from.other())].bytes < WINDOW)
    }

    /// Sends a message. It is lost if the sender's end is closed.
    pub(crate) fn send(
        &mut self,
        id: SocketId,
        from: SocketSide,
        message: NetworkMessage,
        now: VirtualTime,
        queue: &mut EventQueue,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.ends[at(from)] != SocketState::Open {
            return;
        }
        let way = &mut connection.ways[at(from.other())];
        way.bytes += message.len();
        way.items.push_back((now, InFlight::Message(message)));
        self.schedule(id, from.other(), now, queue);
    }

    /// A process closes its end: sent bytes still arrive, then the end.
    pub(crate) fn close(&mut self, id: SocketId, from: SocketSide, now: VirtualTime, queue: &mut EventQueue) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if matches!(connection.ends[at(from)], SocketState::Closed | SocketState::Gone) {
            return;
        }
        connection.ends[at(from)] = SocketState::Closed;
        connection.ways[at(from.other())].items.push_back((now, InFlight::End));
        self.schedule(id, from.other(), now, queue);
        self.forget_if_over(id);
    }

    /// A connection breaks: only a part of the bytes in transit arrives, cut at any byte.
    pub(crate) fn reset(&mut self, id: SocketId, now: VirtualTime, queue: &mut EventQueue) {
        for side in [SocketSide::Dialer, SocketSide::Listener] {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            let way = &mut connection.ways[at(side)];
            let keep = self.random.index(way.items.len() + 1);
            way.items.truncate(keep);
            if let Some((_, InFlight::Message(NetworkMessage::Bytes(bytes)))) = way.items.back_mut() {
                bytes.truncate(self.random.index(bytes.len() + 1));
            }
            way.bytes = way.items.iter().map(|(_, item)| item.len()).sum();
            way.items.push_back((now, InFlight::End));
            self.schedule(id, side, now, queue);
        }
    }

    /// If a process ends, the system closes its connections. If a machine loses power, nothing closes them.
    pub(crate) fn host_down(
        &mut self,
        host: Host,
        notice: CloseNotice,
        now: VirtualTime,
        queue: &mut EventQueue,
    ) {
        for (id, side) in self.ends_of(host) {
            match notice {
                CloseNotice::Close => self.close(id, side, now, queue),
                CloseNotice::Silence => {
                    if let Some(connection) = self.connections.get_mut(&id) {
                        connection.ends[at(side)] = SocketState::Gone;
                        let way = &mut connection.ways[at(side.other())];
                        // Bytes that had not left the machine are lost; messages in transit arrive.
                        way.items.retain(|(_, item)| matches!(item, InFlight::Message(_)));
                    }
                }
            }
        }
    }

    /// All connections of a host with its side of each.
    pub(crate) fn ends_of(&self, host: Host) -> Vec<(SocketId, SocketSide)> {
        let mut ends = Vec::new();
        for (&id, connection) in &self.connections {
            for side in [SocketSide::Dialer, SocketSide::Listener] {
                if connection.hosts[at(side)] == host {
                    ends.push((id, side));
                }
            }
        }
        ends
    }

    /// All connections between two hosts.
    pub(crate) fn between(&self, one: Host, other: Host) -> Vec<SocketId> {
        let is_between = |it: &Socket| it.hosts == [one, other] || it.hosts == [other, one];
        self.connections.iter().filter(|(_, it)| is_between(it)).map(|(&id, _)| id).collect()
    }

    /// Returns the next item for a side. `alive` says whether the host has power.
    pub(crate) fn deliver(
        &mut self,
        id: SocketId,
        to: SocketSide,
        alive: bool,
        now: VirtualTime,
        queue: &mut EventQueue,
    ) -> Delivered {
        let Some(connection) = self.connections.get_mut(&id) else { return Delivered::Nothing };
        let [receiver, sender] = [connection.hosts[at(to)], connection.hosts[at(to.other())]];
        connection.ways[at(to)].scheduled = false;
        if self.is_cut(sender, receiver) {
            return Delivered::Nothing;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return Delivered::Nothing };
        let way = &mut connection.ways[at(to)];
        let Some((_, item)) = way.items.pop_front() else { return Delivered::Nothing };
        way.last_at = now;
        way.bytes -= item.len();
        let end = connection.ends[at(to)];
        let delivery = match (end, item) {
            (SocketState::Pending, InFlight::Message(_)) | (SocketState::Closed, _) => Delivered::Nothing,
            (SocketState::Gone, _) => {
                if alive {
                    // The machine has restarted and does not know this connection: it resets it.
                    connection.ends[at(to)] = SocketState::Closed;
                    connection.ways[at(to.other())].items.push_back((now, InFlight::End));
                    self.schedule(id, to.other(), now, queue);
                }
                Delivered::Nothing
            }
            (SocketState::Open, InFlight::Message(message)) => Delivered::Message(message),
            (SocketState::Open | SocketState::Pending, InFlight::End) => {
                connection.ends[at(to)] = SocketState::Closed;
                Delivered::Ended
            }
        };
        self.schedule(id, to, now, queue);
        self.forget_if_over(id);
        delivery
    }

    fn forget_if_over(&mut self, id: SocketId) {
        let over = |end: SocketState| matches!(end, SocketState::Closed | SocketState::Gone);
        if self.connections.get(&id).is_some_and(|it| it.ends.into_iter().all(over)) {
            self.connections.remove(&id);
        }
    }

    fn schedule(&mut self, id: SocketId, to: SocketSide, now: VirtualTime, queue: &mut EventQueue) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (from, target) = (connection.hosts[at(to.other())], connection.hosts[at(to)]);
        let way = &connection.ways[at(to)];
        let Some(&(sent_at, _)) = way.items.front() else { return };
        if way.scheduled || self.is_cut(from, target) {
            return;
        }
        let last_at = way.last_at;
        let delay = self.delay(from, target);
        let due = (sent_at + delay).max(last_at).max(now);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.ways[at(to)].scheduled = true;
        }
        queue.push(due, SimEvent::Deliver { connection: id, to });
    }
}

/// How the connections of a host end with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseNotice {
    Close,
    Silence,
}

impl InFlight {
    fn len(&self) -> usize {
        match self {
            InFlight::Message(message) => message.len(),
            InFlight::End => 0,
        }
    }
}
