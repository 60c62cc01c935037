//! The actions that the session machine requests from its driver.

use std::sync::Arc;
use std::time::Duration;

use super::authentication::{MechanismInput, SaslRefusal};
use super::connect_string::ServerAddress;
use super::feeds::{FeedId, FeedSignal};
use super::phase::LinkId;
use super::request::CallOutcome;
use super::status::SessionStatus;
use super::watch_table::{WatchEvent, WatcherId};

/// An action for the driver. `T` is the caller's token: it comes in with a call and goes out with the call's
/// outcome.
#[derive(Debug)]
pub enum SessionAction<T> {
    /// Open a stream, then report [`opened`](super::SessionMachine::opened) or
    /// [`lost`](super::SessionMachine::lost) for this link. If another stream is open, this one is to follow
    /// it: when the other is dropped, the driver writes to this one.
    Open {
        /// Identifies the stream in later reports.
        link: LinkId,
        /// The server to connect to. Its name is resolved again on every attempt.
        server: ServerAddress,
        /// The limit of the attempt.
        timeout: Duration,
    },
    /// Drop the stream. The driver reports nothing more for this link.
    Drop {
        /// Identifies the stream.
        link: LinkId,
    },
    /// Run a step of the SASL mechanism of a Kerberos login, then report
    /// [`authentication_step`](super::SessionMachine::authentication_step) for this link. The step may block.
    Authenticate {
        /// Identifies the connection.
        link: LinkId,
        /// The server, whose host is part of its principal.
        server: ServerAddress,
        /// The input of the mechanism.
        input: MechanismInput,
    },
    /// A call has an outcome.
    Complete {
        /// The caller's token.
        token: T,
        /// The outcome.
        outcome: CallOutcome,
    },
    /// Deliver an event to a watcher.
    Notify {
        /// The watcher.
        watcher: WatcherId,
        /// The event.
        event: WatchEvent,
    },
    /// Pass a signal to a feed.
    Feed {
        /// The feed.
        feed: FeedId,
        /// The signal. No other follows [`FeedSignal::Lost`] and the end of the feed.
        signal: FeedSignal,
    },
    /// The state of the session has changed.
    Status(SessionStatus),
    /// Ask this server whether it takes writes (`isro`), then report
    /// [`probed`](super::SessionMachine::probed).
    Probe {
        /// The server to probe.
        server: ServerAddress,
    },
    /// Log an event.
    Log(LogEvent),
    /// The machine has ended; no action follows.
    End,
}

/// Events for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// A connection or an attempt to connect failed.
    ConnectionLost {
        /// The server.
        server: Arc<str>,
        /// The reason.
        reason: Arc<str>,
    },
    /// The client continues on another server, because its server asked for it.
    Moving {
        /// The server that stops.
        from: Arc<str>,
        /// The next server.
        to: Arc<str>,
    },
    /// The SASL user was not authenticated; the machine ends.
    SaslRefused {
        /// The server.
        server: Arc<str>,
        /// The reason.
        refusal: SaslRefusal,
    },
    /// The client ignored a watch event of an unknown type.
    UnknownEvent {
        /// The type on the wire.
        kind: i32,
    },
    /// The server refused to register watches again; no events will come from them.
    WatchesRefused {
        /// The error code.
        code: i32,
    },
}
