//! Why a call has no answer. The one question that matters to a caller is asked here: can the server have
//! carried it out?

use std::fmt;
use std::sync::Arc;

/// Whether the server can have seen the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// No byte of it left. It was not carried out.
    NotSent,
    /// It was handed to the connection. It may have been carried out, once.
    Sent,
}

/// What ended a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No connection could be made in time.
    NotConnected,
    /// The connection broke: closed, reset, or silent for too long.
    ConnectionLost,
    /// The server sent something that is not this protocol.
    BadReply(Arc<str>),
    /// The session ended.
    SessionExpired,
    /// A server refused a credential.
    AuthFailed,
    /// The client was closed.
    Closed,
    /// Too many calls wait already: await some of them before more are sent.
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
            Cause::Closed => f.write_str("the client is closed"),
            Cause::QueueFull => {
                f.write_str("the client's queue is full; await some calls before more are sent")
            }
        }
    }
}

/// A call that got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What ended it.
    pub cause: Cause,
    /// Whether the server can have carried it out.
    pub delivery: Delivery,
    /// The server of the connection, if there was one.
    pub server: Option<Arc<str>>,
}
