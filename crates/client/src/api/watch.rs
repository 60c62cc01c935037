//! Watchers: a one-shot watcher is a future, a persistent one a stream. Dropping the last watcher of a watch
//! removes it from the server.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tracing::Instrument;
use zebu_proto::client::AddWatchMode;
use zebu_proto::{Jute, OpCode};

use super::call::{ApiCall, CallAttempt, WhenFull, put_path};
use super::client::Client;
use super::error::Error;
use super::pending::{Pending, sendable};
use super::retry::{RepeatRule, RetryPolicy};
use crate::core::{EventKind, WatchEvent, WatchIntent, WatchRegistration, WatcherId};
use crate::net::{DriverCommand, WatcherInbox, WeakCommandSender};
use crate::path;

/// The client's side of a watch. The channel is weak: a watcher does not keep a session alive.
#[derive(Debug)]
pub(crate) struct WatcherHandle {
    id: WatcherId,
    inbox: Arc<WatcherInbox>,
    commands: WeakCommandSender,
    root: Arc<str>,
}

impl WatcherHandle {
    /// Creates a watcher and the registration for its call.
    pub(crate) fn new(
        client: &Client,
        intent: WatchIntent,
        full: &str,
    ) -> (WatcherHandle, (WatchRegistration, Arc<WatcherInbox>)) {
        let id = client.shared.watcher_id();
        let inbox = Arc::new(WatcherInbox::default());
        let commands = client.shared.commands.downgrade();
        let registration = WatchRegistration { watcher: id, intent, path: full.into() };
        let end = WatcherHandle { id, inbox: inbox.clone(), commands, root: client.root.clone() };
        (end, (registration, inbox))
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        self.inbox.poll(context).map(|event| {
            event.map(|event| {
                let path = path::without_root(&self.root, &event.path).into();
                WatchEvent { path, ..event }
            })
        })
    }
}

impl Drop for WatcherHandle {
    fn drop(&mut self) {
        // The driver does not know a watcher whose call was never submitted.
        if self.inbox.is_submitted() {
            self.commands.send(DriverCommand::Unwatch(self.id));
        }
    }
}

/// A watch that fires once: await it for the event.
///
/// It survives lost connections; a change in between is reported after the reconnect. At the end of the
/// session it yields [`EventKind::WatchLost`].
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// # client.create("/config").await?;
/// # let other = client.clone();
/// # tokio::spawn(async move { other.sync("/").await?; other.set("/config", "v2").await });
/// let (node, changed) = client.get("/config").watched().await?;
/// println!("{:?}", node.data);
/// let event = changed.await;
/// println!("{:?} {}", event.kind, event.path);
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "dropping it removes the watch"]
pub struct OneshotWatcher {
    end: WatcherHandle,
}

impl OneshotWatcher {
    pub(crate) fn new(end: WatcherHandle) -> OneshotWatcher {
        OneshotWatcher { end }
    }
}

impl Future for OneshotWatcher {
    type Output = WatchEvent;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<WatchEvent> {
        let lost = || WatchEvent { kind: EventKind::WatchLost, path: "/".into(), zxid: None };
        self.end.poll(context).map(|event| event.unwrap_or_else(lost))
    }
}

/// The scope of a persistent watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchMode {
    /// The node: created, deleted, data changed, children changed.
    Node,
    /// The node and all descendants: created, deleted, data changed. There is no "children changed", because
    /// the child has its own event.
    Tree,
}

/// The events of a persistent watch, until it is dropped or [`EventKind::WatchLost`] comes.
///
/// After a reconnect, after a new session and after an overflow, [`EventKind::Resynced`] reports that events
/// may be missing: read again.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// # client.create("/apps").await?;
/// # let other = client.clone();
/// # tokio::spawn(async move { other.sync("/").await?; other.create("/apps/last").await });
/// use zebu_client::{EventKind, WatchMode};
///
/// let mut events = client.watch("/apps", WatchMode::Tree).await?;
/// while let Some(event) = events.next().await {
///     match event.kind {
///         EventKind::Resynced => println!("read everything again"),
///         kind => println!("{kind:?} {}", event.path),
///     }
/// #   break;
/// }
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "dropping it removes the watch"]
pub struct WatchStream {
    end: WatcherHandle,
}

impl WatchStream {
    /// The next event; `None` at the end. Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        poll_fn(|context| self.end.poll(context)).await
    }
}

impl Stream for WatchStream {
    type Item = WatchEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        self.end.poll(context)
    }
}

/// A request for a persistent watch; see [`Client::watch`].
#[must_use = "nothing is sent before send or await"]
pub struct AddWatch {
    client: Client,
    path: String,
    mode: WatchMode,
    retry: Arc<dyn RetryPolicy>,
}

impl Client {
    /// Watches a node, optionally with its descendants, until the stream is dropped (servers from 3.6).
    ///
    /// Servers from 3.6 to 3.8 keep one watch per node and client. There, a watched read of a persistently
    /// watched node turns the persistent watch into a one-shot one.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.create("/config").await?;
    /// # let other = client.clone();
    /// # tokio::spawn(async move { other.sync("/").await?; other.set("/config", "v2").await });
    /// use zebu_client::WatchMode;
    ///
    /// let mut events = client.watch("/config", WatchMode::Node).await?;
    /// println!("{:?}", events.next().await);
    /// # Ok(()) });
    /// ```
    pub fn watch(&self, path: &str, mode: WatchMode) -> AddWatch {
        AddWatch { client: self.clone(), path: path.to_owned(), mode, retry: self.retry.clone() }
    }
}

impl AddWatch {
    fn begin(self, when_full: WhenFull) -> Pending<WatchStream> {
        let span = tracing::debug_span!("watch", path = %self.path);
        let (intent, mode) = match self.mode {
            WatchMode::Node => (WatchIntent::Persistent, AddWatchMode::Persistent),
            WatchMode::Tree => (WatchIntent::Recursive, AddWatchMode::PersistentRecursive),
        };
        let full = match self.client.resolve("watch", &self.path) {
            Ok(full) => full,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let (end, registration) = WatcherHandle::new(&self.client, intent, &full);
        let mut call = ApiCall::new("watch", &self.path, OpCode::AddWatch).body(|out| {
            put_path(&full, out);
            mode.wire().encode(out);
        });
        call.watch = Some(registration);
        let first = self.client.start(&call, when_full);
        Box::pin(async move { self.run(call, first, end).await }.instrument(span))
    }

    async fn run(self, call: ApiCall, first: CallAttempt, end: WatcherHandle) -> Result<WatchStream, Error> {
        self.client.run(&call, first, self.retry, RepeatRule::Always).await?;
        Ok(WatchStream { end })
    }
}

sendable!(AddWatch => WatchStream);
