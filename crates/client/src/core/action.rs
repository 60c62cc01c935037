//! What the machine asks of its driver.

use std::sync::Arc;
use std::time::Duration;

use super::connect_string::ServerAddress;
use super::phase::LinkId;
use super::request::Outcome;
use super::status::Status;
use super::watch_table::{WatchEvent, WatcherId};

/// Something to be done. `T` is the caller's ticket: it comes in with a call and goes out with its end.
#[derive(Debug)]
pub enum Action<T> {
    /// Open a stream, then report [`opened`](super::Session::opened) or
    /// [`lost`](super::Session::lost) for this link.
    Open {
        /// Names the stream in later reports.
        link: LinkId,
        /// Whom to call; resolve the name again each time.
        server: ServerAddress,
        /// How long it may take.
        patience: Duration,
    },
    /// Drop the stream. Nothing more is to be reported for this link.
    Drop {
        /// The stream.
        link: LinkId,
    },
    /// A call has ended.
    Complete {
        /// The caller's ticket.
        ticket: T,
        /// How it ended.
        outcome: Outcome,
    },
    /// Tell a watcher.
    Notify {
        /// Whom.
        watcher: WatcherId,
        /// What happened.
        event: WatchEvent,
    },
    /// The state of the session has changed.
    Status(Status),
    /// Ask this server whether it takes writes (`isro`), then report [`probed`](super::Session::probed).
    Probe {
        /// Whom to ask.
        server: ServerAddress,
    },
    /// Worth a line in a log.
    Note(Note),
    /// The machine is over; nothing will follow.
    End,
}

/// Events that only a log wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A connection or an attempt ended.
    LinkLost {
        /// The server.
        server: Arc<str>,
        /// Why.
        reason: Arc<str>,
    },
    /// An event with a number that this client does not know was left aside.
    UnknownEvent {
        /// The number.
        kind: i32,
    },
    /// The server refused to register watches again; their events will not come.
    WatchesRefused {
        /// The error code.
        code: i32,
    },
}
