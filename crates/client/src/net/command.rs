//! Commands from the client's handles to the driver.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::inbox::WatcherInbox;
use crate::core::{CallOutcome, FeedId, FeedSignal, SessionCredentials, SessionRequest, WatcherId};

/// Receives the outcome of a call. It also holds the permit of the call until then, so that a dropped caller
/// does not free capacity too early.
#[derive(Debug)]
pub(crate) struct CompletionSender {
    sender: Option<oneshot::Sender<CallOutcome>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl CompletionSender {
    pub(crate) fn new(
        permit: Option<OwnedSemaphorePermit>,
    ) -> (CompletionSender, oneshot::Receiver<CallOutcome>) {
        let (sender, receiver) = oneshot::channel();
        (CompletionSender { sender: Some(sender), _permit: permit }, receiver)
    }

    /// For a call without a waiting caller.
    pub(crate) fn none() -> CompletionSender {
        CompletionSender { sender: None, _permit: None }
    }

    pub(crate) fn complete(self, outcome: CallOutcome) {
        if let Some(sender) = self.sender {
            // The caller may have dropped its future.
            let _ = sender.send(outcome);
        }
    }
}

/// The channel from the driver to a feed. The credit of the feed bounds it.
pub(crate) type FeedSender = mpsc::UnboundedSender<FeedSignal>;

/// A message to the driver.
#[derive(Debug)]
pub(crate) enum DriverCommand {
    Submit {
        request: SessionRequest,
        inbox: Option<Arc<WatcherInbox>>,
        completion: CompletionSender,
    },
    OpenFeed {
        request: SessionRequest,
        feed: FeedId,
        sender: FeedSender,
        completion: CompletionSender,
    },
    /// Grants bytes to a feed; zero closes it.
    GrantFeed {
        feed: FeedId,
        credit: i32,
    },
    AddAuth {
        scheme: Box<str>,
        secret: Bytes,
        completion: CompletionSender,
    },
    Unwatch(WatcherId),
    /// The list is in the channel's [`CommandReceiver`](super::command_channel::CommandReceiver).
    ServersChanged,
    Credentials(oneshot::Sender<Option<SessionCredentials>>),
    /// The number is in the channel's [`CommandReceiver`](super::command_channel::CommandReceiver).
    LeaseUsersChanged,
    HandOver(oneshot::Sender<HandoverResult>),
    Close(CompletionSender),
}

/// The result of a handover.
#[derive(Debug)]
pub(crate) enum HandoverResult {
    /// The client has ended and left the session open.
    Session(SessionCredentials),
    /// There is no session to hand over.
    NoSession,
}
