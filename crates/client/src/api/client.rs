//! The handle: cheap to clone, all clones share one session. It owns nothing but the way to the driver and
//! the root that its paths start from.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use zebu_proto::{Acl, OpCode};

use super::builder::ClientBuilder;
use super::call::{Attempt, Call};
use super::compression::Compression;
use super::error::{Error, ErrorKind};
use super::janitor::Janitor;
use super::retry::RetryPolicy;
use crate::core::{
    ConnectStringError, Random, ServerList, SessionCredentials, SessionInfo, SessionState, Status, WatcherId,
};
use crate::net::{Command, ConnectionFailure, ConnectionFailures, HandedOver, Lease, Ticket, Trouble};
use crate::path;

/// What all clones share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    /// Taken by calls that wait or are in flight, so that their data does not fill the memory.
    pub(crate) room: Arc<Semaphore>,
    /// All the room that there is.
    pub(crate) units_limit: u32,
    pub(crate) request_limit: usize,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) losses: Arc<AtomicU64>,
    pub(crate) trouble: Arc<Trouble>,
    /// How many servers the list has.
    pub(crate) servers: AtomicU32,
    pub(crate) watcher_ids: AtomicU64,
    pub(crate) random: Mutex<Random>,
    pub(crate) janitor: Janitor,
    /// Set once a server has said that it does not know create2 (before 3.5).
    pub(crate) plain_create: AtomicBool,
    pub(crate) connection_timeout: Duration,
    /// Where the janitor works, also when it is called from outside of any task.
    pub(crate) runtime: tokio::runtime::Handle,
}

impl Shared {
    pub(crate) fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).bits()
    }

    pub(crate) fn watcher_id(&self) -> WatcherId {
        WatcherId(self.watcher_ids.fetch_add(1, Ordering::Relaxed))
    }
}

/// A client of an ensemble.
///
/// Clones share one session. The session is closed by [`Client::close`], or in the background when the
/// last clone is dropped.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zebu_client::Client;
///
/// let client = Client::connect("zk1,zk2,zk3/apps").await?;
/// client.create("/greeting").data("hello").await?;
/// let node = client.get("/greeting").await?;
/// assert_eq!(&node.data[..], b"hello");
/// client.close().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    pub(crate) root: Arc<str>,
    pub(crate) retry: Arc<dyn RetryPolicy>,
    pub(crate) acl: Arc<[Acl]>,
    pub(crate) compression: Compression,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("root", &self.root)
            .field("status", &*self.shared.status.borrow())
            .finish()
    }
}

/// How a client went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseReport {
    /// Whether a server has confirmed the end of the session. If not, its ephemeral nodes stay until the
    /// session times out.
    pub confirmed: bool,
    /// Nodes of guaranteed deletes and abandoned protected creates that could not be removed.
    pub left_behind: usize,
}

impl Client {
    /// Connects with the defaults; the string is `host:port,host:port/chroot`.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let servers = server.connect_string();
    /// use zebu_client::{Client, SessionState};
    ///
    /// let client = Client::connect(&servers).await?; // "zk1:2181,zk2:2181,zk3:2181"
    /// assert_eq!(client.state(), SessionState::Connected);
    /// # Ok(()) });
    /// ```
    pub async fn connect(servers: &str) -> Result<Client, ConnectError> {
        Client::builder(servers)?.connect().await
    }

    /// Begins with a connection string.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use zebu_client::{Client, Retry};
    ///
    /// let client = Client::builder("zk1,zk2,[2001:db8::3]:2182/apps")?
    ///     .session_timeout(Duration::from_secs(10))
    ///     .auth("digest", "user:secret")
    ///     .retry(Retry::UntilElapsed { total: Duration::from_secs(60), pause: Duration::from_secs(1) })
    ///     .connect()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn builder(servers: &str) -> Result<ClientBuilder, ConnectStringError> {
        Ok(ClientBuilder::new(servers.parse()?))
    }

    /// The same session, seen from a node: paths start there, as with a chroot in the connection string.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// let shop = client.namespaced("/apps/shop")?;
    /// shop.ensure_path("/").await?;
    /// shop.create("/cart").await?; // /apps/shop/cart
    /// # Ok(()) });
    /// ```
    pub fn namespaced(&self, root: &str) -> Result<Client, Error> {
        let full = self.resolve("namespace", root)?;
        let root: Arc<str> = if full == "/" { "".into() } else { full.into() };
        Ok(Client { root, ..self.clone() })
    }

    /// The node that paths start from; empty for the server's root.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// How long a call waits for a connection before it fails as not sent; see
    /// [`ClientBuilder::connection_timeout`].
    pub fn connection_timeout(&self) -> Duration {
        self.shared.connection_timeout
    }

    pub(crate) fn full_path(&self, path: &str) -> String {
        path::under(&self.root, path)
    }

    /// How the session stands.
    pub fn state(&self) -> SessionState {
        self.shared.status.borrow().state
    }

    /// The session: its id, its number, the agreed timeout and the server.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// let session = client.session();
    /// println!("session {} of {:?} on {:?}", session.id, session.timeout, session.server);
    /// # Ok(()) });
    /// ```
    pub fn session(&self) -> SessionInfo {
        self.shared.status.borrow().session.clone()
    }

    /// The state and every change of it. The newest value is never lost; a slow reader may skip older
    /// ones, and sees from [`SessionInfo::epoch`] whether a session was lost in between.
    ///
    /// ```no_run
    /// # async fn example(client: zebu_client::Client) {
    /// let mut states = client.states();
    /// while states.changed().await.is_ok() {
    ///     println!("{:?}", *states.borrow_and_update());
    /// }
    /// # }
    /// ```
    pub fn states(&self) -> watch::Receiver<Status> {
        self.shared.status.clone()
    }

    /// Waits until calls are answered.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// let session = client.ready().await?;
    /// println!("session {} on {:?}", session.id, session.server);
    /// # Ok(()) });
    /// ```
    pub async fn ready(&self) -> Result<SessionInfo, Error> {
        let mut states = self.states();
        let usable = |status: &Status| status.state.is_connected();
        let over = |state| matches!(state, SessionState::Closed | SessionState::AuthFailed);
        match states.wait_for(|status| usable(status) || over(status.state)).await {
            Ok(status) if usable(&status) => return Ok(status.session.clone()),
            Ok(_) | Err(_) => {}
        }
        Err(self.over(&Call::new("wait for a connection", "", OpCode::Ping)))
    }

    /// Why no server can be reached: the attempts that have failed since the client was connected last, each as soon
    /// as it has. Empty while it is connected.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let client = zebu_client::Client::builder("127.0.0.1:1")?.start();
    /// let mut failures = client.connection_failures();
    /// failures.wait_for(|failures| failures.attempts() > 0).await?;
    /// println!("{}", failures.borrow().last().expect("there is one")); // 127.0.0.1:1: Connection refused
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn connection_failures(&self) -> watch::Receiver<ConnectionFailures> {
        self.shared.trouble.subscribe()
    }

    /// Waits until calls are answered, like [`ready`](Client::ready), but gives up with [`ConnectError::Unreachable`]
    /// when each server of the list has failed. The client goes on to try; this may be called again.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let client = zebu_client::Client::builder("127.0.0.1:1")?.start();
    /// let error = client.ready_or_unreachable().await.unwrap_err();
    /// println!("{error}"); // no server can be reached: 127.0.0.1:1: Connection refused (os error 111)
    /// # assert!(error.to_string().contains("127.0.0.1:1: "), "{error}");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub async fn ready_or_unreachable(&self) -> Result<SessionInfo, ConnectError> {
        let mut failures = self.connection_failures();
        let all_failed = |failures: &ConnectionFailures| {
            failures.attempts() >= self.shared.servers.load(Ordering::Relaxed)
        };
        let unreachable = async {
            match failures.wait_for(all_failed).await {
                Ok(failures) => failures.each().to_vec(),
                // The other future says how the client has ended.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            ready = self.ready() => Ok(ready?),
            failures = unreachable => Err(ConnectError::Unreachable { failures }),
        }
    }

    /// Until when no server can have expired this session: the session timeout after the last message that the
    /// ensemble's leader is known to have heard of. On the monotonic clock; `None` without a session. A suspension of the
    /// machine brings it nearer (on Linux): ask for it when it is needed, not before.
    ///
    /// Who holds a lock through an ephemeral node holds it at least until then, whatever the network does, if
    /// sessions last two ticks or more, as by default, and clocks run equally fast. A server that is cut off from
    /// its leader still answers pings and reads: they prove nothing and do not move it. Connecting, writes and syncs
    /// do, and [`keep_lease`](Client::keep_lease) makes it move all the time. Without that it may lie in the past
    /// while all is well.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// use std::time::Instant;
    ///
    /// if client.lease_deadline().is_some_and(|deadline| Instant::now() < deadline) {
    ///     println!("nobody else can hold what this session holds");
    /// }
    /// # Ok(()) });
    /// ```
    pub fn lease_deadline(&self) -> Option<Instant> {
        self.shared.lease.deadline()
    }

    /// What another process needs to take this session over with
    /// [`ClientBuilder::resume`](super::ClientBuilder::resume) if this process dies: keep it in a safe place.
    ///
    /// Two living clients of one session take the connection from each other, and the first one that closes ends it for
    /// both. Use [`hand_over`](Client::hand_over) to pass a session on.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// let credentials = client.credentials().await.expect("there is a session");
    /// assert_eq!(credentials.id, client.session().id);
    /// # Ok(()) });
    /// ```
    pub async fn credentials(&self) -> Option<SessionCredentials> {
        let (sender, receiver) = oneshot::channel();
        self.shared.commands.send(Command::Credentials(sender)).ok()?;
        receiver.await.ok().flatten()
    }

    /// Ends this client without ending its session, so that another client can go on with it: its ephemeral nodes stay.
    /// Calls made before are answered first; then the client is closed, with all its clones. The other client has the
    /// session timeout to take it over with [`ClientBuilder::resume`](super::ClientBuilder::resume).
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # let servers = server.connect_string();
    /// use zebu_client::Client;
    ///
    /// client.create("/mine").ephemeral().await?;
    /// let session = client.hand_over().await?;
    /// let heir = Client::builder(&servers)?.resume(session).connect().await?;
    /// assert_eq!(heir.session().id, session.id);
    /// assert!(heir.exists("/mine").await?.is_some());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// There is no session, or only one of a read-only server, or it ended before the client let go of it. In the first
    /// two cases the client goes on.
    #[tracing::instrument(level = "debug", skip_all)]
    pub async fn hand_over(self) -> Result<SessionCredentials, Error> {
        let call = Call::new("hand over", "", OpCode::CloseSession);
        self.shared.janitor.drain(self.shared.connection_timeout).await;
        let (sender, receiver) = oneshot::channel();
        if self.shared.commands.send(Command::HandOver(sender)).is_err() {
            return Err(self.over(&call));
        }
        match receiver.await {
            Ok(HandedOver::Session(credentials)) => Ok(credentials),
            Ok(HandedOver::NoSession) => Err(call
                .error(ErrorKind::InvalidOptions("there is no session that another client could take over"))),
            Err(_) => Err(self.over(&call)),
        }
    }

    /// Takes another list of servers. Connections move, with the probability that spreads all clients
    /// evenly over the new list; calls in flight are answered before. A chroot must not change.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// client.update_servers("zk1,zk2,zk3,zk4,zk5")?;
    /// # Ok(()) });
    /// ```
    pub fn update_servers(&self, servers: &str) -> Result<(), ConnectStringError> {
        let list: ServerList = servers.parse()?;
        let count = u32::try_from(list.servers().len()).unwrap_or(u32::MAX);
        self.shared.servers.store(count, Ordering::Relaxed);
        // A closed client has no use for servers.
        let _ = self.shared.commands.send(Command::SetServers(list.servers().to_vec()));
        Ok(())
    }

    /// Ends the session: calls made before are answered, ephemeral nodes go at once, what the client still
    /// had to clean up is cleaned up if a server can be reached.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// let report = client.close().await?;
    /// assert!(report.confirmed && report.left_behind == 0);
    /// # Ok(()) });
    /// ```
    #[tracing::instrument(level = "debug", skip_all)]
    pub async fn close(self) -> Result<CloseReport, Error> {
        let left_behind = self.shared.janitor.drain(self.shared.connection_timeout).await;
        let (ticket, receiver) = Ticket::new(None);
        if self.shared.commands.send(Command::Close(ticket)).is_err() {
            return Ok(CloseReport { confirmed: self.state() == SessionState::Closed, left_behind });
        }
        let confirmed = matches!(receiver.await, Ok(Ok(answer)) if answer.code == 0);
        Ok(CloseReport { confirmed, left_behind })
    }

    /// Adds a credential to this and every later connection of the session. A refused one ends the client.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// client.add_auth("digest", "user:secret").await?;
    /// # Ok(()) });
    /// ```
    #[tracing::instrument(level = "debug", skip_all, fields(scheme = %scheme))]
    pub async fn add_auth(&self, scheme: &str, secret: impl Into<bytes::Bytes>) -> Result<(), Error> {
        let call = Call::new("add auth", scheme, OpCode::Auth);
        let (ticket, receiver) = Ticket::new(None);
        let command = Command::AddAuth { scheme: scheme.into(), secret: secret.into(), ticket };
        let attempt = match self.shared.commands.send(command) {
            Ok(()) => Attempt::Sent(receiver),
            Err(_) => Attempt::Refused(self.over(&call)),
        };
        self.finish(&call, attempt).await.map(drop)
    }

    pub(crate) fn invalid(&self, operation: &'static str, path: &str, reason: &'static str) -> Error {
        Error::new(ErrorKind::InvalidOptions(reason), operation, path)
    }
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The connection string is not one.
    #[error(transparent)]
    ConnectString(#[from] ConnectStringError),
    /// No server opened a session in time.
    #[error("no session within {patience:?}; the servers are {servers}; the last failure was {last}")]
    Timeout {
        /// The connection timeout.
        patience: Duration,
        /// The connection string.
        servers: String,
        /// The server of the last attempt that failed, and why it did.
        last: Arc<str>,
    },
    /// Each server of the list has failed.
    #[error("no server can be reached: {}", listed(failures))]
    Unreachable {
        /// Each server's failure, the newest at the end.
        failures: Vec<ConnectionFailure>,
    },
    /// The session ended before it began.
    #[error(transparent)]
    Refused(#[from] Error),
}

fn listed(failures: &[ConnectionFailure]) -> String {
    let texts: Vec<String> = failures.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
