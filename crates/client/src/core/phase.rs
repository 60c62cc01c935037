//! Where the machine stands between "no connection" and "over": one variant per step.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connect_string::ServerAddress;

/// Names one attempt to connect and the stream that comes of it. Reports about another one are stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// A stream, opened or on its way.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) address: ServerAddress,
    pub(crate) name: Arc<str>,
}

/// What the server at the other end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerMode {
    ReadWrite,
    ReadOnly,
}

/// The search for a read-write server while the current one is read-only.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    pub(crate) next: Instant,
    pub(crate) pause: Duration,
}

/// What a connection is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Serving,
    /// Answers are awaited, nothing new is sent; at this moment the connection is given up.
    Leaving {
        deadline: Instant,
    },
    /// closeSession is on its way; at this moment the machine stops waiting for its answer.
    Closing {
        deadline: Instant,
    },
    /// Calls made before are sent and answered, then the machine ends and the session lives on without it. At this
    /// moment it stops waiting for answers.
    HandingOver {
        deadline: Instant,
    },
}

impl Use {
    /// Whether calls that wait are written.
    pub(crate) fn sends(self) -> bool {
        match self {
            Use::Serving | Use::Closing { .. } | Use::HandingOver { .. } => true,
            Use::Leaving { .. } => false,
        }
    }
}

/// Why the machine is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Closed,
    Expired,
    AuthFailed,
}

#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// Between two attempts.
    Waiting { until: Instant, address: ServerAddress },
    /// The driver opens a stream.
    Opening { link: Link, deadline: Instant },
    /// The stream is open and the connect request is written; the answer is awaited.
    Handshake { link: Link, deadline: Instant, asked: Asked, sent_at: Instant },
    /// A session on a connection.
    Connected { link: Link, since: Instant, search: Option<Search>, use_: Use },
    /// Over.
    Ended(Ending),
}

/// What the connect request asked for; it decides what a refusal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    NewSession,
    Resume,
}

impl Phase {
    pub(crate) fn link(&self) -> Option<&Link> {
        match self {
            Phase::Opening { link, .. } | Phase::Handshake { link, .. } | Phase::Connected { link, .. } => {
                Some(link)
            }
            Phase::Waiting { .. } | Phase::Ended(_) => None,
        }
    }
}
