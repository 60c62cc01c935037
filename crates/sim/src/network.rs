//! The network: connections like those of TCP between hosts. What is sent on a connection arrives in order
//! or not at all; a path can be cut in one direction; a connection can end at any byte, be half open, or
//! outlive what it was for.
//!
//! It knows no meaning: whoever owns the ends is told by the world.

use std::collections::{BTreeMap, VecDeque};

use crate::queue::{Accepted, Event, Queue, Time};
use crate::random::Random;

/// A host: servers first, then clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Host(pub(crate) usize);

/// Names a connection; used once in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Dialer,
    Listener,
}

impl Side {
    pub(crate) fn other(self) -> Side {
        match self {
            Side::Dialer => Side::Listener,
            Side::Listener => Side::Dialer,
        }
    }
}

/// Which port was dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Client,
    Quorum,
}

/// What travels.
#[derive(Debug)]
pub(crate) enum Message {
    /// A part of a client's stream.
    Bytes(Vec<u8>),
    /// One packet between leader and learner.
    Packet(Vec<u8>),
    /// A part of a state behind a SNAP packet.
    State(Vec<u8>),
    /// The last part of it.
    StateEnd(Vec<u8>),
}

impl Message {
    pub(crate) fn len(&self) -> usize {
        match self {
            Message::Bytes(bytes)
            | Message::Packet(bytes)
            | Message::State(bytes)
            | Message::StateEnd(bytes) => bytes.len(),
        }
    }
}

#[derive(Debug)]
enum Item {
    Message(Message),
    End,
}

/// What a delivery brings.
#[derive(Debug)]
pub(crate) enum Delivery {
    Message(Message),
    /// The other side has closed, or the connection broke.
    Ended,
    /// Nothing for anybody.
    Nothing,
}

/// How an end stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The listener has not heard of the connection, or the dialer not of its acceptance.
    Pending,
    Open,
    /// The process has closed it, or was told that it is over.
    Closed,
    /// The machine lost its power: nobody is there, and nobody says so.
    Gone,
}

#[derive(Debug)]
struct Way {
    items: VecDeque<(Time, Item)>,
    /// A delivery of the first item is in the queue.
    scheduled: bool,
    last_at: Time,
    bytes: usize,
}

#[derive(Debug)]
struct Connection {
    hosts: [Host; 2],
    port: Port,
    ends: [End; 2],
    /// Towards the dialer, towards the listener.
    ways: [Way; 2],
}

/// Bytes that may be on their way before a sender has to wait.
const WINDOW: usize = 64 << 10;

fn at(side: Side) -> usize {
    match side {
        Side::Dialer => 0,
        Side::Listener => 1,
    }
}

/// How long messages take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) low: Time,
    pub(crate) high: Time,
    /// How many of a thousand messages take ten times as long.
    pub(crate) straggler_permille: u64,
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Network {
    connections: BTreeMap<ConnectionId, Connection>,
    next: u64,
    hosts: usize,
    /// How many cuts are on each directed path.
    cuts: Vec<u32>,
    /// Extra time that each directed path takes.
    slow: Vec<Time>,
    latency: Latency,
    random: Random,
}

impl Network {
    pub(crate) fn new(hosts: usize, latency: Latency, random: Random) -> Network {
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

    /// Takes one cut away. What has waited goes on.
    pub(crate) fn heal(&mut self, from: Host, to: Host, now: Time, queue: &mut Queue) {
        let path = self.path(from, to);
        self.cuts[path] = self.cuts[path].saturating_sub(1);
        if self.cuts[path] > 0 {
            return;
        }
        let ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for id in ids {
            for to_side in [Side::Dialer, Side::Listener] {
                let connection = &self.connections[&id];
                if connection.hosts[at(to_side)] == to && connection.hosts[at(to_side.other())] == from {
                    self.schedule(id, to_side, now, queue);
                }
            }
        }
    }

    /// Takes every cut and every slowness away.
    pub(crate) fn heal_all(&mut self, among: &[Host], now: Time, queue: &mut Queue) {
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

    pub(crate) fn slow_down(&mut self, from: Host, to: Host, extra: Time) {
        let path = self.path(from, to);
        self.slow[path] += extra;
    }

    pub(crate) fn speed_up(&mut self, from: Host, to: Host, extra: Time) {
        let path = self.path(from, to);
        self.slow[path] = self.slow[path].saturating_sub(extra);
    }

    /// How long the next message takes.
    pub(crate) fn delay(&mut self, from: Host, to: Host) -> Time {
        let drawn = self.random.between(self.latency.low, self.latency.high);
        let straggles = self.random.permille(self.latency.straggler_permille);
        let factor = if straggles { 10 } else { 1 };
        drawn * factor + self.slow[self.path(from, to)]
    }

    /// Asks for a connection.
    pub(crate) fn dial(
        &mut self,
        from: Host,
        to: Host,
        port: Port,
        now: Time,
        queue: &mut Queue,
    ) -> ConnectionId {
        let id = ConnectionId(self.next);
        self.next += 1;
        let way = || Way { items: VecDeque::new(), scheduled: false, last_at: 0, bytes: 0 };
        let ends = [End::Pending, End::Pending];
        let connection = Connection { hosts: [from, to], port, ends, ways: [way(), way()] };
        self.connections.insert(id, connection);
        if !self.is_cut(from, to) {
            let delay = self.delay(from, to);
            queue.push(now + delay, Event::Knock { connection: id });
        }
        id
    }

    /// The listener answers a knock.
    pub(crate) fn answer(&mut self, id: ConnectionId, accepted: Accepted, now: Time, queue: &mut Queue) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let [dialer, listener] = connection.hosts;
        if accepted == Accepted::Yes {
            connection.ends[at(Side::Listener)] = End::Open;
        }
        if self.is_cut(listener, dialer) {
            return;
        }
        let delay = self.delay(listener, dialer);
        if let Some(connection) = self.connections.get_mut(&id) {
            // Nothing from the listener arrives before its answer.
            connection.ways[at(Side::Dialer)].last_at = now + delay;
        }
        queue.push(now + delay, Event::Answered { connection: id, accepted });
    }

    /// The dialer hears the answer. False if it does not wait for it any more.
    pub(crate) fn establish(&mut self, id: ConnectionId, accepted: Accepted) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        if connection.ends[at(Side::Dialer)] != End::Pending {
            return false;
        }
        match accepted {
            Accepted::Yes => connection.ends[at(Side::Dialer)] = End::Open,
            Accepted::No => {
                self.connections.remove(&id);
            }
        }
        true
    }

    /// Whether the dialer still waits for an answer.
    pub(crate) fn is_pending(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|it| it.ends[at(Side::Dialer)] == End::Pending)
    }

    pub(crate) fn host(&self, id: ConnectionId, side: Side) -> Option<Host> {
        self.connections.get(&id).map(|connection| connection.hosts[at(side)])
    }

    /// The dialer of a connection, if its end is open.
    pub(crate) fn waiting_dialer(&self, id: ConnectionId) -> Option<Host> {
        let connection = self.connections.get(&id)?;
        (connection.ends[at(Side::Dialer)] == End::Open).then_some(connection.hosts[at(Side::Dialer)])
    }

    pub(crate) fn port(&self, id: ConnectionId) -> Option<Port> {
        self.connections.get(&id).map(|connection| connection.port)
    }

    /// Whether a sender may put more on its way.
    pub(crate) fn has_room(&self, id: ConnectionId, from: Side) -> bool {
        self.connections.get(&id).is_some_and(|it| it.ways[at(from.other())].bytes < WINDOW)
    }

    /// Sends a message. It is lost if the sender's end is closed.
    pub(crate) fn send(
        &mut self,
        id: ConnectionId,
        from: Side,
        message: Message,
        now: Time,
        queue: &mut Queue,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.ends[at(from)] != End::Open {
            return;
        }
        let way = &mut connection.ways[at(from.other())];
        way.bytes += message.len();
        way.items.push_back((now, Item::Message(message)));
        self.schedule(id, from.other(), now, queue);
    }

    /// A process closes its end: what it has sent still arrives, then the end.
    pub(crate) fn close(&mut self, id: ConnectionId, from: Side, now: Time, queue: &mut Queue) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if matches!(connection.ends[at(from)], End::Closed | End::Gone) {
            return;
        }
        connection.ends[at(from)] = End::Closed;
        connection.ways[at(from.other())].items.push_back((now, Item::End));
        self.schedule(id, from.other(), now, queue);
        self.forget_if_over(id);
    }

    /// A connection breaks: of what is on its way only a part arrives, cut at any byte.
    pub(crate) fn reset(&mut self, id: ConnectionId, now: Time, queue: &mut Queue) {
        for side in [Side::Dialer, Side::Listener] {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            let way = &mut connection.ways[at(side)];
            let keep = self.random.index(way.items.len() + 1);
            way.items.truncate(keep);
            if let Some((_, Item::Message(Message::Bytes(bytes)))) = way.items.back_mut() {
                bytes.truncate(self.random.index(bytes.len() + 1));
            }
            way.bytes = way.items.iter().map(|(_, item)| item.len()).sum();
            way.items.push_back((now, Item::End));
            self.schedule(id, side, now, queue);
        }
    }

    /// A process is gone: the system closes its connections. A machine is gone: nobody does.
    pub(crate) fn host_down(&mut self, host: Host, farewell: Farewell, now: Time, queue: &mut Queue) {
        for (id, side) in self.ends_of(host) {
            match farewell {
                Farewell::Close => self.close(id, side, now, queue),
                Farewell::Silence => {
                    if let Some(connection) = self.connections.get_mut(&id) {
                        connection.ends[at(side)] = End::Gone;
                        let way = &mut connection.ways[at(side.other())];
                        // What had not left the machine is lost; what is on its way arrives.
                        way.items.retain(|(_, item)| matches!(item, Item::Message(_)));
                    }
                }
            }
        }
    }

    /// All connections of a host with the side that it has.
    pub(crate) fn ends_of(&self, host: Host) -> Vec<(ConnectionId, Side)> {
        let mut ends = Vec::new();
        for (&id, connection) in &self.connections {
            for side in [Side::Dialer, Side::Listener] {
                if connection.hosts[at(side)] == host {
                    ends.push((id, side));
                }
            }
        }
        ends
    }

    /// All connections between two hosts.
    pub(crate) fn between(&self, one: Host, other: Host) -> Vec<ConnectionId> {
        let is_between = |it: &Connection| it.hosts == [one, other] || it.hosts == [other, one];
        self.connections.iter().filter(|(_, it)| is_between(it)).map(|(&id, _)| id).collect()
    }

    /// Takes the next item for a side. `alive` says whether the host has power.
    pub(crate) fn deliver(
        &mut self,
        id: ConnectionId,
        to: Side,
        alive: bool,
        now: Time,
        queue: &mut Queue,
    ) -> Delivery {
        let Some(connection) = self.connections.get_mut(&id) else { return Delivery::Nothing };
        let [receiver, sender] = [connection.hosts[at(to)], connection.hosts[at(to.other())]];
        connection.ways[at(to)].scheduled = false;
        if self.is_cut(sender, receiver) {
            return Delivery::Nothing;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return Delivery::Nothing };
        let way = &mut connection.ways[at(to)];
        let Some((_, item)) = way.items.pop_front() else { return Delivery::Nothing };
        way.last_at = now;
        way.bytes -= item.len();
        let end = connection.ends[at(to)];
        let delivery = match (end, item) {
            (End::Pending, Item::Message(_)) | (End::Closed, _) => Delivery::Nothing,
            (End::Gone, _) => {
                if alive {
                    // The machine is back and does not know this connection: it says so.
                    connection.ends[at(to)] = End::Closed;
                    connection.ways[at(to.other())].items.push_back((now, Item::End));
                    self.schedule(id, to.other(), now, queue);
                }
                Delivery::Nothing
            }
            (End::Open, Item::Message(message)) => Delivery::Message(message),
            (End::Open | End::Pending, Item::End) => {
                connection.ends[at(to)] = End::Closed;
                Delivery::Ended
            }
        };
        self.schedule(id, to, now, queue);
        self.forget_if_over(id);
        delivery
    }

    fn forget_if_over(&mut self, id: ConnectionId) {
        let over = |end: End| matches!(end, End::Closed | End::Gone);
        if self.connections.get(&id).is_some_and(|it| it.ends.into_iter().all(over)) {
            self.connections.remove(&id);
        }
    }

    fn schedule(&mut self, id: ConnectionId, to: Side, now: Time, queue: &mut Queue) {
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
        queue.push(due, Event::Deliver { connection: id, to });
    }
}

/// How the connections of a host end with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    Close,
    Silence,
}

impl Item {
    fn len(&self) -> usize {
        match self {
            Item::Message(message) => message.len(),
            Item::End => 0,
        }
    }
}
