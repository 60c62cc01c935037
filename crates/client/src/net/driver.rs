//! The task behind a client. It owns the session machine, its stream and the watchers' inboxes, and it
//! ends when the session has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::clock::{Suspension, awake_now};
use super::command::{Command, HandedOver, Ticket};
use super::connector::Connector;
use super::inbox::Inbox;
use super::lease::Lease;
use super::probe;
use super::stage::{Happened, Stage};
use super::trouble::Trouble;
use crate::core::{
    Action, LinkId, Note, Random, ServerAddress, Session, SessionCredentials, SessionState, Status, WatcherId,
};

/// Commands that are taken at once; they leave in one write.
const COMMAND_BATCH: usize = 1024;

/// Bytes that are read at once.
const READ_SIZE: usize = 64 << 10;

/// The longest time without a look at the clocks while a lease is relied on.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Later than any deadline of a session.
const FAR: Duration = Duration::from_secs(1 << 30);

/// Whether handles are left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Handles {
    Some,
    None,
}

/// Whether the machine still runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Runs,
    Over,
}

/// See the module.
pub(crate) struct Driver<C: Connector> {
    pub(crate) session: Session<Ticket>,
    pub(crate) connector: Arc<C>,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) suspension: Suspension,
    /// Shows [`Session::losses`] to callers.
    pub(crate) losses: Arc<AtomicU64>,
    pub(crate) trouble: Arc<Trouble>,
    pub(crate) random: Random,
}

/// What the task keeps beside the machine.
struct Running<C: Connector> {
    driver: Driver<C>,
    stage: Stage<C::Stream>,
    inboxes: BTreeMap<WatcherId, Arc<Inbox>>,
    probes: JoinSet<(ServerAddress, bool)>,
    handles: Handles,
    /// Callers that wait until the client has let go of the session.
    heirs: Vec<(SessionCredentials, oneshot::Sender<HandedOver>)>,
}

impl<C: Connector> Driver<C> {
    /// Runs until the session is over.
    pub(crate) async fn run(self) {
        let mut running = Running {
            driver: self,
            stage: Stage::None,
            inboxes: BTreeMap::new(),
            probes: JoinSet::new(),
            handles: Handles::Some,
            heirs: Vec::new(),
        };
        let mut commands = Vec::new();
        let mut buffer = vec![0; READ_SIZE];
        while running.settle() == Life::Runs {
            running.step(&mut commands, &mut buffer).await;
        }
        running.finish();
    }
}

impl<C: Connector> Running<C> {
    /// Waits for one thing to happen and tells the machine.
    async fn step(&mut self, commands: &mut Vec<Command>, buffer: &mut [u8]) {
        let suspended = self.driver.suspension.seen();
        let deadline = self.driver.session.deadline().map(|deadline| deadline - suspended);
        // Timers of tokio stand still in suspension: where a lease is relied on, the clocks are looked at soon after it.
        let look_again = awake_now() + if self.driver.session.keeps_lease() { SLEEP_MAX } else { FAR };
        let timer = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.min(look_again).into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            happened = self.stage.next(buffer) => self.happened(happened, buffer),
            taken = self.driver.commands.recv_many(commands, COMMAND_BATCH),
                if self.handles == Handles::Some => {
                if taken == 0 {
                    // Nobody is left to call: the session ends as if it had been closed.
                    self.handles = Handles::None;
                    let now = self.now();
                    self.driver.session.close(now, Ticket::nobody());
                }
                commands.drain(..).for_each(|command| self.command(command));
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

    /// The moment by the clock of the session, which counts the time in suspension up to the last look.
    fn now(&self) -> Instant {
        awake_now() + self.driver.suspension.seen()
    }

    /// Looks whether the machine was suspended. The session hears of all that is due since then, and callers that wait for
    /// a deadline are woken to look at it again.
    fn notice_suspension(&mut self) {
        if self.driver.suspension.look() {
            let now = self.now();
            tracing::info!(suspended = ?self.driver.suspension.seen(), "the machine was suspended");
            self.driver.session.tick(now);
            self.driver.status.send_modify(|_| {});
        }
    }

    fn happened(&mut self, happened: Happened, buffer: &[u8]) {
        let now = self.now();
        let session = &mut self.driver.session;
        match happened {
            Happened::Opened(link) => session.opened(now, link),
            Happened::Read(link, count) => session.received(now, link, &buffer[..count]),
            Happened::Wrote => {}
            Happened::Lost(link, error) => session.lost(now, link, &error.to_string()),
        }
    }

    fn command(&mut self, command: Command) {
        let now = self.now();
        let session = &mut self.driver.session;
        match command {
            Command::Submit { request, inbox, ticket } => {
                if let (Some(watch), Some(inbox)) = (&request.watch, inbox) {
                    self.inboxes.insert(watch.watcher, inbox);
                }
                session.submit(now, request, ticket);
            }
            Command::AddAuth { scheme, secret, ticket } => session.add_auth(now, &scheme, secret, ticket),
            Command::Unwatch(watcher) => {
                self.inboxes.remove(&watcher);
                session.unwatch(now, watcher);
            }
            Command::SetServers(servers) => session.set_servers(now, &servers),
            Command::Credentials(sender) => {
                // The asker may have gone.
                let _ = sender.send(session.credentials());
            }
            Command::HandOver(sender) => match session.hand_over(now) {
                Some(credentials) => self.heirs.push((credentials, sender)),
                None => {
                    let _ = sender.send(HandedOver::NoSession);
                }
            },
            Command::KeepLease => session.keep_lease(now),
            Command::LetLeaseGo => session.let_lease_go(),
            Command::Close(ticket) => session.close(now, ticket),
        }
    }

    /// Carries out what the machine asks for and hands its bytes to the stream.
    fn settle(&mut self) -> Life {
        let mut life = Life::Runs;
        self.notice_suspension();
        // Before the calls that were lost end: whoever knows of their end sees the new number.
        self.driver.losses.store(self.driver.session.losses(), Ordering::Release);
        // Before the state is told: whoever hears that the session is over sees no lease any more.
        self.driver.lease.set(self.driver.session.lease_deadline());
        while let Some(action) = self.driver.session.poll_action() {
            if let Action::End = action {
                life = Life::Over;
            }
            self.perform(action);
        }
        if let Some(out) = self.stage.batch() {
            let now = awake_now() + self.driver.suspension.seen();
            self.driver.session.poll_write(now, out);
            self.stage.start_write();
        }
        life
    }

    fn perform(&mut self, action: Action<Ticket>) {
        match action {
            Action::Open { link, server, patience } => {
                let connector = self.driver.connector.clone();
                let random = self.driver.random.bits();
                let open = async move {
                    match tokio::time::timeout(patience, connector.connect(&server, random)).await {
                        Ok(result) => result,
                        Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
                    }
                };
                self.stage = Stage::Opening { link, future: Box::pin(open) };
            }
            Action::Drop { link } => self.drop_link(link),
            Action::Complete { ticket, outcome } => ticket.complete(outcome),
            Action::Notify { watcher, event } => {
                if let Some(inbox) = self.inboxes.get(&watcher) {
                    inbox.push(event);
                }
            }
            Action::Status(status) => {
                log_status(&status);
                if status.state.is_connected() {
                    self.driver.trouble.clear();
                }
                self.driver.status.send_replace(status);
            }
            Action::Probe { server } => {
                let connector = self.driver.connector.clone();
                let random = self.driver.random.bits();
                self.probes.spawn(async move {
                    let takes_writes = probe::takes_writes(&*connector, &server, random).await;
                    (server, takes_writes)
                });
            }
            Action::Note(note) => {
                if let Note::LinkLost { server, reason } = &note {
                    self.driver.trouble.set(server, reason);
                }
                log_note(&note);
            }
            Action::End => {}
        }
    }

    fn drop_link(&mut self, link: LinkId) {
        if self.stage.link() == Some(link) {
            self.stage = Stage::None;
        }
    }

    /// Answers what came in while the session ended.
    fn finish(&mut self) {
        self.driver.commands.close();
        while let Ok(command) = self.driver.commands.try_recv() {
            self.command(command);
        }
        while let Some(action) = self.driver.session.poll_action() {
            self.perform(action);
        }
        for inbox in self.inboxes.values() {
            inbox.end();
        }
        // The connection is dropped before another client is told: the server must not see both.
        self.stage = Stage::None;
        for (credentials, heir) in self.heirs.drain(..) {
            // A session that ended meanwhile is no session to hand over.
            if self.driver.session.credentials() == Some(credentials) {
                let _ = heir.send(HandedOver::Session(credentials));
            }
        }
    }
}

fn log_status(status: &Status) {
    let server = status.session.server.as_deref().unwrap_or("none");
    let session = status.session.id;
    match status.state {
        SessionState::Expired | SessionState::AuthFailed => {
            tracing::warn!(state = ?status.state, %session, server, "session");
        }
        SessionState::Connecting
        | SessionState::Connected
        | SessionState::ReadOnly
        | SessionState::Suspended
        | SessionState::Reconnected
        | SessionState::Closed => tracing::info!(state = ?status.state, %session, server, "session"),
    }
}

fn log_note(note: &Note) {
    match note {
        Note::LinkLost { server, reason } => tracing::debug!(%server, %reason, "connection ended"),
        Note::UnknownEvent { kind } => tracing::warn!(kind, "an event of an unknown kind was left aside"),
        Note::WatchesRefused { code } => tracing::warn!(code, "the server refused to restore watches"),
    }
}
