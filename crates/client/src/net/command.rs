//! What handles ask of the driver.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::inbox::Inbox;
use crate::core::{Outcome, Request, ServerAddress, SessionCredentials, WatcherId};

/// Where the end of a call goes. The permit is given back with it, whether anybody still waits or not:
/// a caller that has gone does not make room for more than the limit.
#[derive(Debug)]
pub(crate) struct Ticket {
    sender: Option<oneshot::Sender<Outcome>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Ticket {
    pub(crate) fn new(permit: Option<OwnedSemaphorePermit>) -> (Ticket, oneshot::Receiver<Outcome>) {
        let (sender, receiver) = oneshot::channel();
        (Ticket { sender: Some(sender), _permit: permit }, receiver)
    }

    /// For a call that nobody waits for.
    pub(crate) fn nobody() -> Ticket {
        Ticket { sender: None, _permit: None }
    }

    pub(crate) fn complete(self, outcome: Outcome) {
        if let Some(sender) = self.sender {
            // The caller may have gone; that is its right.
            let _ = sender.send(outcome);
        }
    }
}

/// A message to the driver.
#[derive(Debug)]
pub(crate) enum Command {
    Submit { request: Request, inbox: Option<Arc<Inbox>>, ticket: Ticket },
    AddAuth { scheme: Box<str>, secret: Bytes, ticket: Ticket },
    Unwatch(WatcherId),
    SetServers(Vec<ServerAddress>),
    Credentials(oneshot::Sender<Option<SessionCredentials>>),
    KeepLease,
    LetLeaseGo,
    HandOver(oneshot::Sender<HandedOver>),
    Close(Ticket),
}

/// How a session was handed over.
#[derive(Debug)]
pub(crate) enum HandedOver {
    /// The client has let go of it.
    Session(SessionCredentials),
    /// There is none that another client could take.
    NoSession,
}
