//! The phases of a session machine, from no connection to its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::authentication::{SaslExchange, SaslRefusal};
use super::connect_string::ServerAddress;

/// Identifies one attempt to connect and its stream. Reports with another id are stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// A stream that is open or being opened.
#[derive(Clone, Debug)]
pub(crate) struct ServerLink {
    pub(crate) id: LinkId,
    pub(crate) address: ServerAddress,
    pub(crate) name: Arc<str>,
}

/// The mode of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerMode {
    ReadWrite,
    ReadOnly,
}

/// The search for a read-write server while the current one is read-only.
#[derive(Clone, Debug)]
pub(crate) struct ReadWriteSearch {
    pub(crate) next: Instant,
    pub(crate) pause: Duration,
}

/// The use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionUse {
    Serving,
    /// Pending replies are awaited and nothing is sent; at the deadline the connection is dropped.
    Leaving {
        deadline: Instant,
    },
    /// closeSession is queued or in flight; at the deadline the machine ends without its reply.
    Closing {
        deadline: Instant,
    },
    /// Earlier calls are sent and answered; then the machine ends without closing the session. At the
    /// deadline it ends without their replies.
    HandingOver {
        deadline: Instant,
    },
}

impl ConnectionUse {
    /// Whether queued calls are sent.
    pub(crate) fn sends(self) -> bool {
        match self {
            ConnectionUse::Serving | ConnectionUse::Closing { .. } | ConnectionUse::HandingOver { .. } => {
                true
            }
            ConnectionUse::Leaving { .. } => false,
        }
    }
}

/// The reason why the machine has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnding {
    Closed,
    Expired,
    AuthFailed,
    SaslRefused(SaslRefusal),
}

/// A connect request that was sent.
#[derive(Clone, Debug)]
pub(crate) struct ConnectAttempt {
    pub(crate) link: ServerLink,
    pub(crate) asked: ConnectKind,
    pub(crate) sent_at: Instant,
}

/// An accepted connection whose service has not begun.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionStart {
    pub(crate) link: ServerLink,
    pub(crate) mode: ServerMode,
}

#[derive(Debug)]
pub(crate) enum SessionPhase {
    /// The pause between two attempts.
    Waiting { until: Instant, address: ServerAddress },
    /// The driver is opening a stream.
    Opening { link: ServerLink, deadline: Instant },
    /// The connect request is sent; its reply is pending.
    Handshake { attempt: ConnectAttempt, deadline: Instant },
    /// The session is accepted; SASL decides whether the connection serves.
    Authenticating { start: ConnectionStart, deadline: Instant, exchange: Box<SaslExchange> },
    /// A session on a connection.
    Connected { link: ServerLink, since: Instant, search: Option<ReadWriteSearch>, usage: ConnectionUse },
    /// The machine has ended.
    Ended(SessionEnding),
}

/// The kind of the connect request, which decides the meaning of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectKind {
    NewSession,
    Resume,
}

impl SessionPhase {
    pub(crate) fn link(&self) -> Option<&ServerLink> {
        match self {
            SessionPhase::Opening { link, .. }
            | SessionPhase::Handshake { attempt: ConnectAttempt { link, .. }, .. }
            | SessionPhase::Authenticating { start: ConnectionStart { link, .. }, .. }
            | SessionPhase::Connected { link, .. } => Some(link),
            SessionPhase::Waiting { .. } | SessionPhase::Ended(_) => None,
        }
    }
}
