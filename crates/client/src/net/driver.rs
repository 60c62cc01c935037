//! The task of a client. It owns the session machine, its stream and the watchers' inboxes. It ends with the
//! session.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use zebu_proto::client::FeedPush;
use zebu_security::sasl::SaslClientStep;

use super::clock::{Suspension, awake_now};
use super::command::{CompletionSender, DriverCommand, FeedSender, HandoverResult};
use super::command_channel::CommandReceiver;
use super::connector::Connector;
use super::inbox::WatcherInbox;
use super::last_error::LastErrors;
use super::lease::LeaseDeadline;
use super::mechanism::DriverMechanism;
use super::probe;
use super::transport::{Transport, TransportEvent};
use crate::core::{
    FeedId, FeedSignal, LinkId, LogEvent, Random, SaslLogin, SaslRefusal, ServerAddress, SessionAction,
    SessionCredentials, SessionMachine, SessionState, SessionStatus, WatcherId,
};

/// The limit of commands per step; they leave in one write.
const COMMAND_BATCH: usize = 1024;

/// The size of the read buffer.
const READ_SIZE: usize = 64 << 10;

/// The longest time between two reads of the clocks while the lease is being renewed.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Later than any deadline of a session.
const NO_DEADLINE: Duration = Duration::from_secs(1 << 30);

/// The parts from which the client builds its task.
pub(crate) struct ClientDriver<C: Connector> {
    pub(crate) session: SessionMachine<CompletionSender>,
    pub(crate) connector: Arc<C>,
    pub(crate) commands: CommandReceiver,
    pub(crate) status: watch::Sender<SessionStatus>,
    pub(crate) lease: Arc<LeaseDeadline>,
    pub(crate) suspension: Suspension,
    /// Publishes [`SessionMachine::disconnects`] to callers.
    pub(crate) disconnects: Arc<AtomicU64>,
    /// Publishes [`SessionMachine::connection`] to callers; zero is none.
    pub(crate) connection: Arc<AtomicU64>,
    pub(crate) last_errors: Arc<LastErrors>,
    /// Publishes the reason of an end by SASL, before the state.
    pub(crate) sasl_refusal: Arc<OnceLock<SaslRefusal>>,
    /// The login of each connection.
    pub(crate) sasl_login: Option<SaslLogin>,
    pub(crate) random: Random,
}

/// The running task: the driver and its I/O state.
struct DriverTask<C: Connector> {
    driver: ClientDriver<C>,
    transport: Transport<C::Stream>,
    /// The stream to the server to which the client moves.
    spare: Transport<C::Stream>,
    mechanism: DriverMechanism,
    inboxes: BTreeMap<WatcherId, Arc<WatcherInbox>>,
    feeds: BTreeMap<FeedId, FeedSender>,
    probes: JoinSet<(ServerAddress, bool)>,
    has_handles: bool,
    /// Callers that wait until the client has left the session.
    handover_waiters: Vec<(SessionCredentials, oneshot::Sender<HandoverResult>)>,
}

impl<C: Connector> ClientDriver<C> {
    /// Runs until the session has ended.
    pub(crate) async fn run(self) {
        let mut running = DriverTask {
            mechanism: DriverMechanism::new(self.sasl_login.as_ref()),
            driver: self,
            transport: Transport::None,
            spare: Transport::None,
            inboxes: BTreeMap::new(),
            feeds: BTreeMap::new(),
            probes: JoinSet::new(),
            has_handles: true,
            handover_waiters: Vec::new(),
        };
        let mut commands = Vec::new();
        let mut buffer = vec![0; READ_SIZE];
        while running.run_actions() {
            running.step(&mut commands, &mut buffer).await;
        }
        running.finish();
    }
}

impl<C: Connector> DriverTask<C> {
    /// Waits for one event and passes it to the machine.
    async fn step(&mut self, commands: &mut Vec<DriverCommand>, buffer: &mut [u8]) {
        let suspended = self.driver.suspension.total();
        let deadline = self.driver.session.deadline().map(|deadline| deadline - suspended);
        // Tokio's timers do not advance in suspension: while the lease is renewed, the clocks are read soon
        // after it.
        let recheck = awake_now() + if self.driver.session.keeps_lease() { SLEEP_MAX } else { NO_DEADLINE };
        let timer = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.min(recheck).into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = self.transport.next(buffer) => self.transport_event(event, buffer),
            event = self.spare.next(&mut []), if self.spare.is_opening() => self.transport_event(event, &[]),
            taken = self.driver.commands.receive(commands, COMMAND_BATCH),
                if self.has_handles => {
                if taken == 0 {
                    // No handle is left: the session is closed.
                    self.has_handles = false;
                    let now = self.now();
                    self.driver.session.close(now, CompletionSender::none());
                }
                commands.drain(..).for_each(|command| self.command(command));
            }
            (link, step) = self.mechanism.next() => {
                if let SaslClientStep::Failed(failure) = &step {
                    tracing::warn!(reason = %failure, "step of the SASL mechanism failed");
                }
                let now = self.now();
                self.driver.session.authentication_step(now, link, step);
            }
            Some(probed) = self.probes.join_next() => {
                if let Ok((server, takes_writes)) = probed {
                    let now = self.now();
                    self.driver.session.probed(now, server, takes_writes);
                }
            }
            () = timer => {
                let now = self.now();
                if self.driver.session.deadline().is_some_and(|deadline| now >= deadline) {
                    self.driver.session.tick(now);
                }
            }
        }
    }

    /// The current time of the session, including the time in suspension up to the last update.
    fn now(&self) -> Instant {
        awake_now() + self.driver.suspension.total()
    }

    /// Checks for a suspension of the machine. If there was one, it runs the timers that are due and wakes
    /// callers that wait for a deadline.
    fn check_suspension(&mut self) {
        if self.driver.suspension.update() {
            let now = self.now();
            tracing::info!(suspended = ?self.driver.suspension.total(), "machine was suspended");
            self.driver.session.tick(now);
            self.driver.status.send_modify(|_| {});
        }
    }

    fn transport_event(&mut self, event: TransportEvent, buffer: &[u8]) {
        let now = self.now();
        let session = &mut self.driver.session;
        match event {
            TransportEvent::Opened(link) => session.opened(now, link),
            TransportEvent::Read(link, count) => session.received(now, link, &buffer[..count]),
            TransportEvent::Wrote => {}
            TransportEvent::Lost(link, error) => session.lost(now, link, &error.to_string()),
        }
    }

    fn command(&mut self, command: DriverCommand) {
        let now = self.now();
        let session = &mut self.driver.session;
        match command {
            DriverCommand::Submit { request, inbox, completion } => {
                if let (Some(watch), Some(inbox)) = (&request.watch, inbox) {
                    self.inboxes.insert(watch.watcher, inbox);
                }
                session.submit(now, request, completion);
            }
            DriverCommand::OpenFeed { request, feed, sender, completion } => {
                self.feeds.insert(feed, sender);
                session.open_feed(now, request, feed, completion);
            }
            DriverCommand::GrantFeed { feed, credit } => {
                if credit == 0 {
                    self.feeds.remove(&feed);
                }
                session.grant_feed(now, feed, credit);
            }
            DriverCommand::AddAuth { scheme, secret, completion } => {
                session.add_auth(now, &scheme, secret, completion)
            }
            DriverCommand::Unwatch(watcher) => {
                self.inboxes.remove(&watcher);
                session.unwatch(now, watcher);
            }
            DriverCommand::ServersChanged => {
                if let Some(servers) = self.driver.commands.take_servers() {
                    session.set_servers(now, &servers);
                }
            }
            DriverCommand::Credentials(sender) => {
                // The caller may have dropped its future.
                let _ = sender.send(session.credentials());
            }
            DriverCommand::HandOver(sender) => match session.hand_over(now) {
                Some(credentials) => self.handover_waiters.push((credentials, sender)),
                None => {
                    let _ = sender.send(HandoverResult::NoSession);
                }
            },
            DriverCommand::LeaseUsersChanged => {
                let has_users = self.driver.commands.take_lease_users() > 0;
                match (session.keeps_lease(), has_users) {
                    (false, true) => session.keep_lease(now),
                    (true, false) => session.release_lease(),
                    (false, false) | (true, true) => {}
                }
            }
            DriverCommand::Close(completion) => session.close(now, completion),
        }
    }

    /// Executes the actions of the machine and starts the next write. Returns whether the machine is still
    /// running.
    fn run_actions(&mut self) -> bool {
        let mut is_running = true;
        self.check_suspension();
        // Before the lost calls complete, so that their callers see the new number.
        self.driver.disconnects.store(self.driver.session.disconnects(), Ordering::Release);
        // Before the replies of the connection are passed on, and before its state is published.
        let connection = self.driver.session.connection().unwrap_or_default();
        self.driver.connection.store(connection, Ordering::Release);
        // Before the state is published, so that no caller sees a lease after the end of the session.
        self.driver.lease.set(self.driver.session.lease_deadline());
        while let Some(action) = self.driver.session.poll_action() {
            if let SessionAction::End = action {
                is_running = false;
            }
            self.execute(action);
        }
        if let Some(out) = self.transport.write_buffer() {
            let now = awake_now() + self.driver.suspension.total();
            self.driver.session.poll_write(now, out);
            self.transport.start_write();
        }
        is_running
    }

    fn execute(&mut self, action: SessionAction<CompletionSender>) {
        match action {
            SessionAction::Open { link, server, timeout } => {
                let connector = self.driver.connector.clone();
                let random = self.driver.random.bits();
                let open = async move {
                    match tokio::time::timeout(timeout, connector.connect(&server, random)).await {
                        Ok(result) => result,
                        Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
                    }
                };
                let opening = Transport::Opening { link, future: Box::pin(open) };
                if self.transport.link().is_some() {
                    self.spare = opening;
                } else {
                    self.transport = opening;
                }
            }
            SessionAction::Drop { link } => self.drop_link(link),
            SessionAction::Authenticate { link, server, input } => {
                self.mechanism.start(link, &server, input);
            }
            SessionAction::Complete { token, outcome } => token.complete(outcome),
            SessionAction::Notify { watcher, event } => {
                if let Some(inbox) = self.inboxes.get(&watcher) {
                    inbox.push(event);
                }
            }
            SessionAction::Feed { feed, signal } => self.signal_feed(feed, signal),
            SessionAction::Status(status) => {
                log_status(&status);
                if status.state.is_connected() {
                    self.driver.last_errors.clear();
                }
                self.driver.status.send_replace(status);
            }
            SessionAction::Probe { server } => {
                let connector = self.driver.connector.clone();
                let random = self.driver.random.bits();
                self.probes.spawn(async move {
                    let takes_writes = probe::takes_writes(&*connector, &server, random).await;
                    (server, takes_writes)
                });
            }
            SessionAction::Log(event) => {
                match &event {
                    LogEvent::ConnectionLost { server, reason } => {
                        self.driver.last_errors.record(server, reason);
                    }
                    // The machine ends with the first refusal.
                    LogEvent::SaslRefused { refusal, .. } => {
                        let _ = self.driver.sasl_refusal.set(*refusal);
                    }
                    LogEvent::Moving { .. }
                    | LogEvent::UnknownEvent { .. }
                    | LogEvent::WatchesRefused { .. } => {}
                }
                log_event(&event);
            }
            SessionAction::End => {}
        }
    }

    fn signal_feed(&mut self, feed: FeedId, signal: FeedSignal) {
        let is_last = match &signal {
            FeedSignal::Lost | FeedSignal::Push { push: FeedPush::End(_), .. } => true,
            FeedSignal::Push { push: FeedPush::Batch(_), .. } => false,
        };
        if let Some(sender) = self.feeds.get(&feed) {
            // The owner may have dropped the feed; it closes it.
            let _ = sender.send(signal);
        } else if !is_last {
            // Its opening was given up before the reply.
            let now = self.now();
            self.driver.session.grant_feed(now, feed, 0);
        }
        if is_last {
            self.feeds.remove(&feed);
        }
    }

    fn drop_link(&mut self, link: LinkId) {
        if self.transport.link() == Some(link) {
            self.transport = std::mem::replace(&mut self.spare, Transport::None);
        } else if self.spare.link() == Some(link) {
            self.spare = Transport::None;
        }
    }

    /// Completes the commands that arrived while the session ended.
    fn finish(&mut self) {
        while let Some(command) = self.driver.commands.close_and_take() {
            self.command(command);
        }
        while let Some(action) = self.driver.session.poll_action() {
            self.execute(action);
        }
        for inbox in self.inboxes.values() {
            inbox.end();
        }
        // The connection is dropped first: the server must not see both clients.
        self.transport = Transport::None;
        for (credentials, waiter) in self.handover_waiters.drain(..) {
            // A session that has ended meanwhile cannot be handed over.
            if self.driver.session.credentials() == Some(credentials) {
                let _ = waiter.send(HandoverResult::Session(credentials));
            }
        }
    }
}

fn log_status(status: &SessionStatus) {
    let server = status.session.server.as_deref().unwrap_or("none");
    let session = status.session.id;
    match status.state {
        SessionState::Expired | SessionState::AuthFailed => {
            tracing::warn!(state = ?status.state, %session, server, "session state changed");
        }
        SessionState::Connecting
        | SessionState::Connected
        | SessionState::ReadOnly
        | SessionState::Suspended
        | SessionState::Reconnected
        | SessionState::Closed => {
            tracing::info!(state = ?status.state, %session, server, "session state changed")
        }
    }
}

fn log_event(event: &LogEvent) {
    match event {
        LogEvent::ConnectionLost { server, reason } => tracing::debug!(%server, %reason, "connection lost"),
        LogEvent::Moving { from, to } => tracing::info!(%from, %to, "moving: the server stops"),
        LogEvent::SaslRefused { server, refusal } => {
            tracing::warn!(%server, reason = %refusal, "SASL authentication failed");
        }
        LogEvent::UnknownEvent { kind } => tracing::warn!(kind, "ignored a watch event of an unknown type"),
        LogEvent::WatchesRefused { code } => tracing::warn!(code, "server refused to restore watches"),
    }
}
