//! The event queue: events in the order of their virtual time, and of their insertion for the same time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::network::{SocketId, SocketSide};

/// Virtual time in microseconds since the start of a run.
pub(crate) type VirtualTime = u64;

/// Microseconds of a millisecond.
pub(crate) const MS: VirtualTime = 1000;

/// Microseconds of a second.
pub(crate) const SECOND: VirtualTime = 1000 * MS;

/// An event at a moment.
#[derive(Debug)]
pub(crate) enum SimEvent {
    /// A message, or the end of a connection, reaches a side.
    Deliver { connection: SocketId, to: SocketSide },
    /// A request to connect reaches the listener.
    ConnectRequest { connection: SocketId },
    /// The answer to it reaches the dialer.
    ConnectAnswer { connection: SocketId, accepted: Acceptance },
    /// A dialer that got no answer stops waiting.
    DialTimeout { connection: SocketId },
    /// A notification of the election reaches a server.
    Notification { from: usize, to: usize, bytes: Vec<u8> },
    /// A deadline of a server's node.
    ServerWake { server: usize, incarnation: u32 },
    /// A server's node processes its pending events.
    ServerTurn { server: usize, incarnation: u32 },
    /// The disk has completed its work.
    DiskDone { server: usize, incarnation: u32, work: u64 },
    /// The next part of a snapshot.
    SnapshotStep { server: usize, incarnation: u32, snapshot: u64 },
    /// The next slice of a snapshot for a learner.
    StreamSlice { server: usize, incarnation: u32, connection: SocketId },
    /// A server looks at the room on its disk.
    RoomLook { server: usize, incarnation: u32 },
    /// The feeds of a server move on.
    FeedStep { server: usize, incarnation: u32 },
    /// The next config file is written.
    FilesWritten { server: usize, incarnation: u32 },
    /// A deadline of a client's session state machine.
    ClientWake { client: usize },
    /// The answer of a server reaches a client that has asked whether it accepts writes.
    Probed { client: usize, number: u64, server: usize, port: u16 },
    /// A client makes its next calls.
    ClientActs { client: usize },
    /// A fault of the plan begins.
    Fault { index: usize },
    /// A fault ends.
    FaultEnds { index: usize },
    /// A server starts.
    Start { server: usize, incarnation: u32 },
    /// The next phase of the run begins.
    NextPhase,
}

/// The answer to a request to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acceptance {
    Yes,
    No,
}

#[derive(Debug)]
struct QueuedEvent {
    at: VirtualTime,
    number: u64,
    event: SimEvent,
}

impl PartialEq for QueuedEvent {
    fn eq(&self, other: &QueuedEvent) -> bool {
        self.number == other.number
    }
}

impl Eq for QueuedEvent {}

impl PartialOrd for QueuedEvent {
    fn partial_cmp(&self, other: &QueuedEvent) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for QueuedEvent {
    fn cmp(&self, other: &QueuedEvent) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// The events that are to come.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Reverse<QueuedEvent>>,
    next: u64,
}

impl EventQueue {
    pub(crate) fn push(&mut self, at: VirtualTime, event: SimEvent) {
        self.next += 1;
        self.heap.push(Reverse(QueuedEvent { at, number: self.next, event }));
    }

    pub(crate) fn pop(&mut self) -> Option<(VirtualTime, SimEvent)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}
