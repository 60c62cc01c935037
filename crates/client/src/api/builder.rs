//! What a client can be told before it connects.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, watch};
use zebu_proto::Acl;

use super::client::{Client, ConnectError, Shared};
use super::compression::Compression;
use super::janitor::Janitor;
use super::retry::{Retry, RetryPolicy};
use crate::core::{
    Random, ReadOnlyServers, ServerList, Session, SessionCredentials, SessionPolicy, Settings,
};
use crate::net::{
    Command, Connector, Driver, Lease, Suspension, TcpConnector, Ticket, TlsConnector, Trouble, awake_now,
};

/// The largest request that servers accept unless they are configured otherwise.
const REQUEST_LIMIT: usize = 0xfffff;

/// Calls that wait in the client, each counting one and one more for every KiB.
const QUEUE_LIMIT: u32 = 1 << 18;

/// The highest limit on calls that can be set.
const UNITS_MAX: u32 = 1 << 24;

/// Settings of a client; see [`Client::builder`].
#[must_use = "a builder does nothing before connect"]
pub struct ClientBuilder {
    servers: ServerList,
    settings: Settings,
    credentials: Vec<(Box<str>, Bytes)>,
    retry: Arc<dyn RetryPolicy>,
    acl: Arc<[Acl]>,
    compression: Compression,
    request_limit: usize,
    queue_limit: u32,
    seed: Option<u64>,
    tls: Option<TlsConnector>,
}

impl ClientBuilder {
    pub(crate) fn new(servers: ServerList) -> ClientBuilder {
        ClientBuilder {
            servers,
            settings: Settings::default(),
            credentials: Vec::new(),
            retry: Arc::new(Retry::default()),
            acl: Acl::open().into(),
            compression: Compression::None,
            request_limit: REQUEST_LIMIT,
            queue_limit: QUEUE_LIMIT,
            seed: None,
            tls: None,
        }
    }

    /// The session timeout to ask for (30 s). Servers clamp it; see [`SessionInfo`](crate::SessionInfo).
    pub fn session_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.settings.session_timeout = timeout;
        self
    }

    /// How long an attempt to connect may take, and how long a call waits for a connection before it fails
    /// as not sent (15 s).
    pub fn connection_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.settings.connection_timeout = timeout;
        self
    }

    /// Whether a read-only server will do (no).
    pub fn read_only(mut self, servers: ReadOnlyServers) -> ClientBuilder {
        self.settings.read_only = servers;
        self
    }

    /// What follows an expired session (a new one).
    pub fn session_policy(mut self, policy: SessionPolicy) -> ClientBuilder {
        self.settings.policy = policy;
        self
    }

    /// Takes over a session of another client; see [`Client::hand_over`].
    pub fn resume(mut self, session: SessionCredentials) -> ClientBuilder {
        self.settings.resume = Some(session);
        self
    }

    /// A credential for every connection.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let servers = server.connect_string();
    /// use zebu_client::{Acl, Client, Permissions, digest_id};
    ///
    /// let client = Client::builder(&servers)?
    ///     .auth("digest", "user:secret")
    ///     .default_acl([Acl::new(Permissions::ALL, "digest", digest_id("user", "secret"))])
    ///     .connect()
    ///     .await?;
    /// client.create("/private").await?;
    /// # assert!(Client::connect(&servers).await?.get("/private").await.is_err());
    /// # Ok(()) });
    /// ```
    pub fn auth(mut self, scheme: &str, secret: impl Into<Bytes>) -> ClientBuilder {
        self.credentials.push((scheme.into(), secret.into()));
        self
    }

    /// The retry policy of all calls that name no other.
    pub fn retry(mut self, policy: impl RetryPolicy) -> ClientBuilder {
        self.retry = Arc::new(policy);
        self
    }

    /// The ACL of all nodes that are created without one (open to all).
    pub fn default_acl(mut self, acl: impl Into<Arc<[Acl]>>) -> ClientBuilder {
        self.acl = acl.into();
        self
    }

    /// Compression of all data that is written; compressed data is recognised when it is read.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let servers = server.connect_string();
    /// use zebu_client::{Client, Compression};
    ///
    /// let client = Client::builder(&servers)?.compression(Compression::Gzip).connect().await?;
    /// client.create("/large").data("word ".repeat(1000)).await?;
    /// let node = client.get("/large").await?;
    /// assert!(node.data.len() == 5000 && node.stat.data_length < 100);
    /// # Ok(()) });
    /// ```
    pub fn compression(mut self, compression: Compression) -> ClientBuilder {
        self.compression = compression;
        self
    }

    /// The largest request that is sent (1048575 bytes, as `jute.maxbuffer` of the servers).
    pub fn request_limit(mut self, bytes: usize) -> ClientBuilder {
        self.request_limit = bytes;
        self
    }

    /// The largest answer that is accepted (64 MiB).
    pub fn reply_limit(mut self, bytes: usize) -> ClientBuilder {
        self.settings.reply_limit = bytes;
        self
    }

    /// Calls in flight, each counting one and one more for every KiB (65536). Calls beyond it wait in the queue of
    /// the client, in their order.
    pub fn in_flight_limit(mut self, units: u32) -> ClientBuilder {
        self.settings.in_flight_limit = units.clamp(1, UNITS_MAX);
        self
    }

    /// Calls in the queue of the client, counted like those in flight (262144: 256 MiB of data). Beyond it
    /// `send` fails with [`Cause::QueueFull`](crate::Cause::QueueFull), and a call that is awaited waits for room.
    ///
    /// ```
    /// use zebu_client::{Cause, Client, ErrorKind};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let client = Client::builder("zk1")?.in_flight_limit(4).queue_limit(12).start();
    /// let sent: Vec<_> = (0..17).map(|_| client.get("/").send()).collect();
    /// let refused = sent.into_iter().last().expect("17 calls").await.unwrap_err();
    /// assert_eq!(refused.kind(), &ErrorKind::NotSent(Cause::QueueFull));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn queue_limit(mut self, units: u32) -> ClientBuilder {
        self.queue_limit = units.clamp(1, UNITS_MAX);
        self
    }

    /// Connects over TLS; see [`Tls`](crate::Tls) for an example.
    pub fn tls(mut self, connector: TlsConnector) -> ClientBuilder {
        self.tls = Some(connector);
        self
    }

    /// Fixes the order of servers, all jitter and the names of protected nodes. For tests: two clients with
    /// the same seed choose the same names.
    pub fn seed(mut self, seed: u64) -> ClientBuilder {
        self.seed = Some(seed);
        self
    }

    /// Connects over TCP, or over TLS if it was [asked for](ClientBuilder::tls), and waits for the session,
    /// for at most the connection timeout. [`Client::ready_or_unreachable`] gives up earlier.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = zebu_client::Client::builder("zk1,zk2,zk3")?.connect().await?;
    /// # Ok(()) }
    /// ```
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let (patience, servers) = (self.settings.connection_timeout, self.servers.to_string());
        within(patience, servers, self.start()).await
    }

    /// Connects over streams of another kind.
    pub async fn connect_with(self, connector: impl Connector) -> Result<Client, ConnectError> {
        let (patience, servers) = (self.settings.connection_timeout, self.servers.to_string());
        within(patience, servers, self.start_with(connector)).await
    }

    /// Returns at once and connects over TCP or TLS in the background. Needs a tokio runtime.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = zebu_client::Client::builder("zk1")?.start();
    /// client.ready().await?;
    /// # Ok(()) }
    /// ```
    pub fn start(mut self) -> Client {
        match self.tls.take() {
            Some(connector) => self.start_with(connector),
            None => self.start_with(TcpConnector),
        }
    }

    /// Returns at once and connects in the background over streams of another kind.
    pub fn start_with(mut self, connector: impl Connector) -> Client {
        let (now, suspension) = (awake_now(), Suspension::start());
        let units_limit = self.settings.in_flight_limit + self.queue_limit;
        // The room is the limit; the machine's own is never reached.
        self.settings.queue_limit = units_limit as usize;
        let mut random = Random::new(self.seed.unwrap_or_else(system_seed));
        let session = Session::new(self.settings.clone(), self.servers.servers(), random.bits(), now);
        let (commands, receiver) = mpsc::unbounded_channel();
        let (status, status_receiver) = watch::channel(session.status());
        let lease = Arc::new(Lease::new(now, suspension));
        let losses = Arc::new(AtomicU64::new(0));
        let trouble = Arc::new(Trouble::new());
        for (scheme, secret) in self.credentials {
            // The receiver lives in this function: sending cannot fail.
            let _ = commands.send(Command::AddAuth { scheme, secret, ticket: Ticket::nobody() });
        }
        let driver = Driver {
            session,
            connector: Arc::new(connector),
            commands: receiver,
            status,
            lease: lease.clone(),
            suspension,
            losses: losses.clone(),
            trouble: trouble.clone(),
            random: Random::new(random.bits()),
        };
        tokio::spawn(driver.run());
        let shared = Shared {
            commands,
            room: Arc::new(Semaphore::new(units_limit as usize)),
            units_limit,
            request_limit: self.request_limit,
            status: status_receiver,
            lease,
            losses,
            trouble,
            servers: AtomicU32::new(u32::try_from(self.servers.servers().len()).unwrap_or(u32::MAX)),
            watcher_ids: AtomicU64::new(1),
            random: Mutex::new(random),
            janitor: Janitor::default(),
            plain_create: AtomicBool::new(false),
            connection_timeout: self.settings.connection_timeout,
            runtime: tokio::runtime::Handle::current(),
        };
        Client {
            shared: Arc::new(shared),
            root: self.servers.chroot().into(),
            retry: self.retry,
            acl: self.acl,
            compression: self.compression,
        }
    }
}

/// Waits for the session of a client that was started.
async fn within(patience: Duration, servers: String, client: Client) -> Result<Client, ConnectError> {
    match tokio::time::timeout(patience, client.ready()).await {
        Ok(ready) => ready?,
        Err(_) => {
            let last = client.shared.trouble.last().unwrap_or_else(|| "no answer".into());
            return Err(ConnectError::Timeout { patience, servers, last });
        }
    };
    Ok(client)
}

/// A seed from the operating system; from the address of a fresh allocation if it has none to give, which
/// still differs between processes.
fn system_seed() -> u64 {
    getrandom::u64().unwrap_or_else(|_| &raw const *Box::new(0u8) as usize as u64)
}
