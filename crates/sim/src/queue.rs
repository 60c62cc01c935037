//! What happens next: events in the order of their virtual time, and of their entry for the same time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::network::{ConnectionId, Side};

/// Virtual time in microseconds since the start of a run.
pub(crate) type Time = u64;

/// Microseconds of a millisecond.
pub(crate) const MS: Time = 1000;

/// Microseconds of a second.
pub(crate) const SECOND: Time = 1000 * MS;

/// Something that happens at a moment.
#[derive(Debug)]
pub(crate) enum Event {
    /// A message, or the end of a connection, reaches a side.
    Deliver { connection: ConnectionId, to: Side },
    /// A request to connect reaches the listener.
    Knock { connection: ConnectionId },
    /// The answer to it reaches the dialer.
    Answered { connection: ConnectionId, accepted: Accepted },
    /// A dialer that got no answer stops waiting.
    DialTimeout { connection: ConnectionId },
    /// A message of the election reaches a server.
    Notification { from: usize, to: usize, bytes: Vec<u8> },
    /// A deadline of a server's brain.
    ServerWake { server: usize, incarnation: u32 },
    /// A server's brain takes what has come.
    ServerTurn { server: usize, incarnation: u32 },
    /// The disk has done what it was doing.
    DiskDone { server: usize, incarnation: u32, work: u64 },
    /// The next part of a snapshot.
    SnapshotStep { server: usize, incarnation: u32, snapshot: u64 },
    /// The next file about the members is written.
    FilesWritten { server: usize, incarnation: u32 },
    /// A deadline of a client's session machine.
    ClientWake { client: usize },
    /// A client makes its next calls.
    ClientActs { client: usize },
    /// A fault of the plan begins.
    Fault { index: usize },
    /// It ends.
    FaultEnds { index: usize },
    /// A server starts.
    Start { server: usize, incarnation: u32 },
    /// The next phase of the run begins.
    NextPhase,
}

/// The answer to a request to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepted {
    Yes,
    No,
}

#[derive(Debug)]
struct Entry {
    at: Time,
    number: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// The events that are to come.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Entry>>,
    next: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        self.next += 1;
        self.heap.push(Reverse(Entry { at, number: self.next, event }));
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, Event)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}
