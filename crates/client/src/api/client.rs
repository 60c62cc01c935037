//! The client handle. Clones share one session. A handle owns the channel to the driver and the root of its
//! paths.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, oneshot, watch};
use zebu_proto::client::Freshness;
use zebu_proto::{Acl, OpCode};

use super::builder::ClientBuilder;
use super::call::{ApiCall, CallAttempt};
use super::cleanup::CleanupQueue;
use super::compression::Compression;
use super::error::{Error, ErrorKind};
use super::freshness::DiscoveredFeatures;
use super::retry::RetryPolicy;
use crate::core::{
    ConnectStringError, Random, SaslRefusal, ServerList, SessionCredentials, SessionInfo, SessionState,
    SessionStatus, WatcherId,
};
use crate::net::{
    CommandSender, CompletionSender, ConnectionFailure, ConnectionFailures, DriverCommand, HandoverResult,
    LastErrors, LeaseDeadline,
};
use crate::path;

/// The state that all clones share.
#[derive(Debug)]
pub(crate) struct ClientShared {
    pub(crate) commands: CommandSender,
    /// Capacity for queued calls and calls in flight, which bounds their memory.
    pub(crate) capacity: Arc<Semaphore>,
    /// The total capacity in units.
    pub(crate) units_limit: u32,
    pub(crate) request_limit: usize,
    pub(crate) status: watch::Receiver<SessionStatus>,
    pub(crate) lease: Arc<LeaseDeadline>,
    pub(crate) disconnects: Arc<AtomicU64>,
    /// The number of the connection; zero without one.
    pub(crate) connection: Arc<AtomicU64>,
    pub(crate) last_errors: Arc<LastErrors>,
    pub(crate) sasl_refusal: Arc<OnceLock<SaslRefusal>>,
    /// The number of servers in the list.
    pub(crate) servers: AtomicU32,
    pub(crate) watcher_ids: AtomicU64,
    pub(crate) random: Mutex<Random>,
    /// Whether the caller chose the seed, so that names are reproducible.
    pub(crate) has_fixed_seed: bool,
    pub(crate) cleanup: CleanupQueue,
    pub(crate) features: DiscoveredFeatures,
    /// Set once a server has refused create2 (before 3.5).
    pub(crate) plain_create: AtomicBool,
    pub(crate) connection_timeout: Duration,
    /// The runtime of the clean-up task, which may be started outside of async code.
    pub(crate) runtime: tokio::runtime::Handle,
}

impl ClientShared {
    pub(crate) fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).bits()
    }

    /// See [`Client::unique_bits`].
    pub(crate) fn unique_bits(&self) -> u128 {
        let mut bytes = [0; 16];
        if !self.has_fixed_seed && getrandom::fill(&mut bytes).is_ok() {
            return u128::from_be_bytes(bytes);
        }
        (u128::from(self.random()) << 64) | u128::from(self.random())
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
    pub(crate) shared: Arc<ClientShared>,
    pub(crate) root: Arc<str>,
    pub(crate) retry: Arc<dyn RetryPolicy>,
    pub(crate) acl: Arc<[Acl]>,
    pub(crate) compression: Compression,
    /// How fresh the answers to reads must be, unless a read says otherwise.
    pub(crate) reads: Arc<Freshness>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("root", &self.root)
            .field("status", &*self.shared.status.borrow())
            .finish()
    }
}

/// The result of closing a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseReport {
    /// Whether a server has confirmed the close. If not, the ephemeral nodes stay until the session expires.
    pub confirmed: bool,
    /// The number of guaranteed deletes and abandoned protected creates that could not be cleaned up.
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

    /// Starts with a connection string.
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

    /// The same session with another root for paths, as with a chroot in the connection string.
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

    /// The root of all paths; empty for the server's root.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The time that a call waits for a connection before it fails as not sent; see
    /// [`ClientBuilder::connection_timeout`].
    pub fn connection_timeout(&self) -> Duration {
        self.shared.connection_timeout
    }

    /// 128 random bits for a unique name, from the operating system unless
    /// [`ClientBuilder::seed`](super::ClientBuilder::seed) is set.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.create("/uploads").await?;
    /// client.create(&format!("/uploads/{:032x}", client.unique_bits())).await?;
    /// # Ok(()) });
    /// ```
    pub fn unique_bits(&self) -> u128 {
        self.shared.unique_bits()
    }

    pub(crate) fn full_path(&self, path: &str) -> String {
        path::under(&self.root, path)
    }

    /// The session state.
    pub fn state(&self) -> SessionState {
        self.shared.status.borrow().state
    }

    /// The session: its id, its epoch, the negotiated timeout and the server.
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

    /// The session state and its changes. The newest value is never lost. A slow reader may skip older ones;
    /// [`SessionInfo::epoch`] shows whether a session was lost in between.
    ///
    /// ```no_run
    /// # async fn example(client: zebu_client::Client) {
    /// let mut states = client.states();
    /// while states.changed().await.is_ok() {
    ///     println!("{:?}", *states.borrow_and_update());
    /// }
    /// # }
    /// ```
    pub fn states(&self) -> watch::Receiver<SessionStatus> {
        self.shared.status.clone()
    }

    /// Waits until a server accepts calls.
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
        let usable = |status: &SessionStatus| status.state.is_connected();
        let over = |state| matches!(state, SessionState::Closed | SessionState::AuthFailed);
        match states.wait_for(|status| usable(status) || over(status.state)).await {
            Ok(status) if usable(&status) => return Ok(status.session.clone()),
            Ok(_) | Err(_) => {}
        }
        Err(self.closed_error(&ApiCall::new("wait for a connection", "", OpCode::Ping)))
    }

    /// The failed attempts to connect since the last connection, each as soon as it has failed. Empty while
    /// the client is connected.
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
        self.shared.last_errors.subscribe()
    }

    /// Waits like [`ready`](Client::ready), but fails with [`ConnectError::Unreachable`] when each server of
    /// the list has failed. The client keeps trying; this may be called again.
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
                // The other future returns the reason.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            ready = self.ready() => Ok(ready?),
            failures = unreachable => Err(ConnectError::Unreachable { failures }),
        }
    }

    /// The time until which no server can have expired this session: the session timeout after the last
    /// message that certainly reached the leader. It is on the monotonic clock; `None` without a session. A
    /// suspension of the machine brings it nearer (on Linux): read it when it is needed, not before.
    ///
    /// The holder of a lock through an ephemeral node holds it at least until then, whatever the network
    /// does. This assumes a session timeout of two ticks or more, the default, and clocks of equal speed. A
    /// server without a leader still answers pings and reads; these do not extend the lease. Connecting,
    /// writes and syncs do, and [`keep_lease`](Client::keep_lease) extends it continuously. Without that, the
    /// deadline may be in the past although the session is alive.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// use std::time::Instant;
    ///
    /// if client.lease_deadline().is_some_and(|deadline| Instant::now() < deadline) {
    ///     println!("no other client can own the locks of this session");
    /// }
    /// # Ok(()) });
    /// ```
    pub fn lease_deadline(&self) -> Option<Instant> {
        self.shared.lease.deadline()
    }

    /// The credentials with which another process can take over this session by
    /// [`ClientBuilder::resume`](super::ClientBuilder::resume) if this process dies. Keep them secret.
    ///
    /// Two live clients of one session take the connection from each other, and the first one that closes
    /// ends it for both. Use [`hand_over`](Client::hand_over) to pass a session on.
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
        self.shared.commands.send_control(DriverCommand::Credentials(sender)).await.ok()?;
        receiver.await.ok().flatten()
    }

    /// Ends this client without closing its session, so that another client can continue it: its ephemeral
    /// nodes stay. Earlier calls are answered first; then the client is closed, with all its clones. The
    /// other client must call [`ClientBuilder::resume`](super::ClientBuilder::resume) within the session
    /// timeout.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # let servers = server.connect_string();
    /// use zebu_client::Client;
    ///
    /// client.create("/mine").ephemeral().await?;
    /// let session = client.hand_over().await?;
    /// let waiter = Client::builder(&servers)?.resume(session).connect().await?;
    /// assert_eq!(waiter.session().id, session.id);
    /// assert!(waiter.exists("/mine").await?.is_some());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// There is no session, or only one of a read-only server, or it ended before the handover. In the first
    /// two cases the client continues.
    #[tracing::instrument(level = "debug", skip_all)]
    pub async fn hand_over(self) -> Result<SessionCredentials, Error> {
        let call = ApiCall::new("hand over", "", OpCode::CloseSession);
        self.shared.cleanup.drain(self.shared.connection_timeout).await;
        let (sender, receiver) = oneshot::channel();
        if self.shared.commands.send_control(DriverCommand::HandOver(sender)).await.is_err() {
            return Err(self.closed_error(&call));
        }
        match receiver.await {
            Ok(HandoverResult::Session(credentials)) => Ok(credentials),
            Ok(HandoverResult::NoSession) => {
                Err(call.error(ErrorKind::InvalidOptions("there is no session to hand over")))
            }
            Err(_) => Err(self.closed_error(&call)),
        }
    }

    /// Replaces the list of servers. Clients move with a probability that spreads them evenly over the new
    /// list; calls in flight are answered before. The chroot must not change.
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
        self.shared.commands.set_servers(list.servers().to_vec());
        Ok(())
    }

    /// Closes the session. Earlier calls are answered, ephemeral nodes are deleted at once, and pending
    /// clean-up is done if a server is reachable.
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
        let left_behind = self.shared.cleanup.drain(self.shared.connection_timeout).await;
        let (completion, receiver) = CompletionSender::new(None);
        if self.shared.commands.send_control(DriverCommand::Close(completion)).await.is_err() {
            return Ok(CloseReport { confirmed: self.state() == SessionState::Closed, left_behind });
        }
        let confirmed = matches!(receiver.await, Ok(Ok(reply)) if reply.code == 0);
        Ok(CloseReport { confirmed, left_behind })
    }

    /// Adds a credential to this and every later connection of the session. A refused credential ends the
    /// client.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// client.add_auth("digest", "user:secret").await?;
    /// # Ok(()) });
    /// ```
    #[tracing::instrument(level = "debug", skip_all, fields(scheme = %scheme))]
    pub async fn add_auth(&self, scheme: &str, secret: impl Into<bytes::Bytes>) -> Result<(), Error> {
        let call = ApiCall::new("add auth", scheme, OpCode::Auth);
        let (completion, receiver) = CompletionSender::new(None);
        let command = DriverCommand::AddAuth { scheme: scheme.into(), secret: secret.into(), completion };
        let attempt = match self.shared.commands.send_control(command).await {
            Ok(()) => CallAttempt::Sent(receiver),
            Err(_) => CallAttempt::Refused(self.closed_error(&call)),
        };
        self.reply_of(&call, attempt).await.map(drop)
    }

    /// The compression of the client's data; see
    /// [`ClientBuilder::compression`](crate::ClientBuilder::compression).
    pub fn compression(&self) -> Compression {
        self.compression
    }

    pub(crate) fn invalid(&self, operation: &'static str, path: &str, reason: &'static str) -> Error {
        Error::new(ErrorKind::InvalidOptions(reason), operation, path)
    }
}

/// The reason why a client could not connect.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The connection string is invalid.
    #[error(transparent)]
    ConnectString(#[from] ConnectStringError),
    /// No server opened a session in time.
    #[error("no session within {timeout:?}; the servers are {servers}; the last failure was {last}")]
    Timeout {
        /// The connection timeout.
        timeout: Duration,
        /// The connection string.
        servers: String,
        /// The server of the last failed attempt, and the reason.
        last: Arc<str>,
    },
    /// Each server of the list has failed.
    #[error("no server can be reached: {}", listed(failures))]
    Unreachable {
        /// The failure of each server, the newest last.
        failures: Vec<ConnectionFailure>,
    },
    /// The session ended before it was established.
    #[error(transparent)]
    Refused(#[from] Error),
}

fn listed(failures: &[ConnectionFailure]) -> String {
    let texts: Vec<String> = failures.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
