//! Failures of calls without a reply. The essential question for a caller is whether the server can have
//! carried out the call.

use std::fmt;
use std::sync::Arc;

use super::authentication::SaslRefusal;
use super::phase::SessionEnding;

/// Whether the server can have received the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// No byte was sent: the server did not carry it out.
    NotSent,
    /// The request was written to the connection: the server may have carried it out, once.
    Sent,
}

/// The cause of a failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No server was reachable in time.
    NotConnected,
    /// The connection broke: closed, reset, or silent for too long.
    ConnectionLost,
    /// The server violated the protocol.
    BadReply(Arc<str>),
    /// The session ended.
    SessionExpired,
    /// A server refused a credential.
    AuthFailed,
    /// The SASL user was not authenticated.
    SaslRefused(SaslRefusal),
    /// The client was closed.
    Closed,
    /// The queue is full: await pending calls before sending more.
    QueueFull,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::NotConnected => f.write_str("no server could be reached in time"),
            Cause::ConnectionLost => f.write_str("the connection was lost"),
            Cause::BadReply(what) => write!(f, "the server broke the protocol: {what}"),
            Cause::SessionExpired => f.write_str("the session expired"),
            Cause::AuthFailed => f.write_str("a server refused the credentials"),
            Cause::SaslRefused(refusal) => refusal.fmt(f),
            Cause::Closed => f.write_str("the client is closed"),
            Cause::QueueFull => {
                f.write_str("the client's queue is full; await some calls before more are sent")
            }
        }
    }
}

/// The failure of a call without a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFailure {
    /// The cause.
    pub cause: Cause,
    /// Whether the server can have carried it out.
    pub delivery: Delivery,
    /// The server of the connection, if there was one.
    pub server: Option<Arc<str>>,
}

/// The cause of calls after the end of the machine.
pub(super) fn cause_of(ending: SessionEnding) -> Cause {
    match ending {
        SessionEnding::Closed => Cause::Closed,
        SessionEnding::Expired => Cause::SessionExpired,
        SessionEnding::AuthFailed => Cause::AuthFailed,
        SessionEnding::SaslRefused(refusal) => Cause::SaslRefused(refusal),
    }
}
