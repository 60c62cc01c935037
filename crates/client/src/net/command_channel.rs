//! The channel from the client's handles to the driver, and the bound of its length.
//!
//! The channel is unbounded for tokio, because handles also send from `Drop`, which cannot wait. Its length
//! is bounded nevertheless, even while the driver does not run:
//!
//! - `Submit`: at most `in_flight_limit + queue_limit`. Each holds at least one permit of the client's
//!   capacity until its outcome.
//! - `Unwatch`: at most one per watcher that was submitted. Each such watcher is in the driver's map of
//!   inboxes, or its `Submit` is in the channel. A watcher that was never submitted sends none.
//! - `AddAuth`, `Credentials`, `HandOver` and `Close`: at most [`CONTROL_LIMIT`]. Each holds a permit until
//!   the driver takes it.
//! - `LeaseUsersChanged` and `ServersChanged`: one each. The value is beside the channel, and a command is
//!   sent only if none is pending.
//! - The credentials of the builder are sent once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::command::DriverCommand;
use crate::core::ServerAddress;

/// The limit of control commands in the channel; further senders wait.
const CONTROL_LIMIT: usize = 1024;

/// The driver has ended, or its runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DriverEnded;

/// A command, and its place among the control commands.
type Envelope = (DriverCommand, Option<OwnedSemaphorePermit>);

/// The values of which only the newest matters.
#[derive(Debug, Default)]
struct Latest {
    lease_users: usize,
    /// Whether `LeaseUsersChanged` is in the channel.
    is_lease_pending: bool,
    /// The list that `ServersChanged` announces; `None` if no such command is in the channel.
    servers: Option<Vec<ServerAddress>>,
}

#[derive(Debug)]
struct Beside {
    latest: Mutex<Latest>,
    control: Arc<Semaphore>,
}

impl Beside {
    fn latest(&self) -> MutexGuard<'_, Latest> {
        // No code that can panic runs under the lock.
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sending side of the client's handles. The session is closed when the last one is dropped.
#[derive(Clone, Debug)]
pub(crate) struct CommandSender {
    channel: mpsc::UnboundedSender<Envelope>,
    beside: Arc<Beside>,
}

/// A sender that does not keep the session open.
#[derive(Clone, Debug)]
pub(crate) struct WeakCommandSender {
    channel: mpsc::WeakUnboundedSender<Envelope>,
    beside: Arc<Beside>,
}

/// The driver's side.
#[derive(Debug)]
pub(crate) struct CommandReceiver {
    channel: mpsc::UnboundedReceiver<Envelope>,
    beside: Arc<Beside>,
    /// The buffer of [`CommandReceiver::receive`].
    taken: Vec<Envelope>,
}

/// A new channel.
pub(crate) fn command_channel() -> (CommandSender, CommandReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let control = Arc::new(Semaphore::new(CONTROL_LIMIT));
    let beside = Arc::new(Beside { latest: Mutex::default(), control });
    let sender = CommandSender { channel: sender, beside: beside.clone() };
    (sender, CommandReceiver { channel: receiver, beside, taken: Vec::new() })
}

impl CommandSender {
    /// Sends a command whose number the caller bounds; see the module.
    pub(crate) fn send(&self, command: DriverCommand) -> Result<(), DriverEnded> {
        self.channel.send((command, None)).map_err(|_| DriverEnded)
    }

    /// Sends a control command, at once if there are fewer than [`CONTROL_LIMIT`] in the channel.
    pub(crate) async fn send_control(&self, command: DriverCommand) -> Result<(), DriverEnded> {
        // Not by `acquire` alone: it may yield to the scheduler, and later calls would overtake the command.
        let permit = match self.beside.control.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.beside.control.clone().acquire_owned().await.map_err(|_| DriverEnded)?,
        };
        self.channel.send((command, Some(permit))).map_err(|_| DriverEnded)
    }

    /// Announces a new number of users of the lease.
    pub(crate) fn add_lease_user(&self) {
        self.change_lease_users(|users| users + 1);
    }

    /// Announces the list of servers; it replaces one that the driver has not taken.
    pub(crate) fn set_servers(&self, servers: Vec<ServerAddress>) {
        let is_pending = self.beside.latest().servers.replace(servers).is_some();
        if !is_pending {
            // A closed client ignores the list.
            let _ = self.send(DriverCommand::ServersChanged);
        }
    }

    fn change_lease_users(&self, change: impl FnOnce(usize) -> usize) {
        let mut latest = self.beside.latest();
        latest.lease_users = change(latest.lease_users);
        let is_pending = std::mem::replace(&mut latest.is_lease_pending, true);
        drop(latest);
        if !is_pending {
            // A closed client has no lease.
            let _ = self.send(DriverCommand::LeaseUsersChanged);
        }
    }

    pub(crate) fn downgrade(&self) -> WeakCommandSender {
        WeakCommandSender { channel: self.channel.downgrade(), beside: self.beside.clone() }
    }
}

impl WeakCommandSender {
    fn upgrade(&self) -> Option<CommandSender> {
        Some(CommandSender { channel: self.channel.upgrade()?, beside: self.beside.clone() })
    }

    /// Sends a command whose number the caller bounds. A client that has ended needs none.
    pub(crate) fn send(&self, command: DriverCommand) {
        if let Some(sender) = self.upgrade() {
            let _ = sender.send(command);
        }
    }

    /// Announces that a user of the lease has gone.
    pub(crate) fn remove_lease_user(&self) {
        if let Some(sender) = self.upgrade() {
            sender.change_lease_users(|users| users.saturating_sub(1));
        }
    }
}

impl CommandReceiver {
    /// Waits for commands and appends up to `limit`. Returns their number; 0 if no sender is left. Dropping
    /// the future loses no command.
    pub(crate) async fn receive(&mut self, commands: &mut Vec<DriverCommand>, limit: usize) -> usize {
        let count = self.channel.recv_many(&mut self.taken, limit).await;
        // The permits are returned here.
        commands.extend(self.taken.drain(..).map(|(command, _permit)| command));
        count
    }

    /// Refuses further commands and returns the next one in the channel.
    pub(crate) fn close_and_take(&mut self) -> Option<DriverCommand> {
        self.channel.close();
        self.channel.try_recv().ok().map(|(command, _permit)| command)
    }

    /// The number of users of the lease. Later changes send a new command.
    pub(crate) fn take_lease_users(&self) -> usize {
        let mut latest = self.beside.latest();
        latest.is_lease_pending = false;
        latest.lease_users
    }

    /// The newest list of servers. Later changes send a new command.
    pub(crate) fn take_servers(&self) -> Option<Vec<ServerAddress>> {
        self.beside.latest().servers.take()
    }

    /// The number of commands in the channel.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.channel.len()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::api::{Client, WatchMode};
    use crate::net::TcpConnector;

    fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn credentials() -> DriverCommand {
        DriverCommand::Credentials(tokio::sync::oneshot::channel().0)
    }

    #[test]
    fn a_control_command_beyond_the_limit_waits_until_the_driver_takes_one() {
        let (sender, mut receiver) = command_channel();
        for _ in 0..CONTROL_LIMIT {
            assert_eq!(poll_once(sender.send_control(credentials())), Poll::Ready(Ok(())));
        }
        let mut late = pin!(sender.send_control(credentials()));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(late.as_mut().poll(&mut context), Poll::Pending);
        let mut commands = Vec::new();
        assert_eq!(poll_once(receiver.receive(&mut commands, 1)), Poll::Ready(1));
        assert_eq!(late.as_mut().poll(&mut context), Poll::Ready(Ok(())));
        assert_eq!(receiver.len(), CONTROL_LIMIT);
    }

    #[test]
    fn the_driver_sees_the_newest_value_of_coalesced_commands() {
        let (sender, mut receiver) = command_channel();
        let weak = sender.downgrade();
        let mut commands = Vec::new();
        for _ in 0..3 {
            sender.add_lease_user();
        }
        weak.remove_lease_user();
        assert_eq!(poll_once(receiver.receive(&mut commands, 9)), Poll::Ready(1));
        assert_eq!(receiver.take_lease_users(), 2);
        // The value was taken: a change needs a command again.
        weak.remove_lease_user();
        assert_eq!((receiver.len(), receiver.take_lease_users()), (1, 1));
        let list = |text: &str| text.parse::<crate::core::ServerList>().unwrap().servers().to_vec();
        sender.set_servers(list("a"));
        sender.set_servers(list("b"));
        assert_eq!((receiver.len(), receiver.take_servers()), (2, Some(list("b"))));
        sender.set_servers(list("c"));
        assert_eq!(receiver.len(), 3);
    }

    /// The driver never runs here: only the limits keep the channel short.
    #[tokio::test]
    async fn no_handle_can_fill_the_channel() {
        const CALLS: usize = 4 + 12;
        let builder = Client::builder("127.0.0.1:1").unwrap().in_flight_limit(4).queue_limit(12);
        let (client, driver) = builder.build(TcpConnector);
        for _ in 0..10 * CONTROL_LIMIT {
            drop(client.keep_lease());
            client.update_servers("127.0.0.1:1,127.0.0.1:2").unwrap();
            drop(client.get("/").watched().send());
            drop(client.watch("/", WatchMode::Node).send());
            assert!(poll_once(client.exists("/").watched().into_future()).is_pending());
            assert!(poll_once(client.credentials()).is_pending());
            assert!(poll_once(client.add_auth("digest", "user:secret")).is_pending());
            assert!(poll_once(client.clone().close()).is_pending());
            assert!(poll_once(client.clone().hand_over()).is_pending());
        }
        // Each of the calls was a watched one, so each has left one removal.
        assert_eq!(driver.commands.len(), 2 * CALLS + CONTROL_LIMIT + 2);
    }
}
