//! The settings of a client.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, watch};
use zebu_proto::Acl;
use zebu_proto::client::Freshness;

use super::cleanup::CleanupQueue;
use super::client::{Client, ClientShared, ConnectError};
use super::compression::Compression;
use super::freshness::DiscoveredFeatures;
use super::retry::{Retry, RetryPolicy};
use crate::core::{
    Random, ReadOnlyServers, SaslLogin, SaslSettings, ServerList, ServerMoves, SessionCredentials,
    SessionMachine, SessionPolicy, SessionSettings,
};
use crate::net::{
    ClientDriver, CompletionSender, Connector, DriverCommand, LastErrors, LeaseDeadline, Suspension,
    TcpConnector, TlsConnector, awake_now, command_channel,
};

/// The largest request that servers accept by default.
const REQUEST_LIMIT: usize = 0xfffff;

/// The default limit of queued calls, in units.
const QUEUE_LIMIT: u32 = 1 << 18;

/// The largest limit of calls that can be set, in units.
const UNITS_MAX: u32 = 1 << 24;

/// Settings of a client; see [`Client::builder`].
#[must_use = "a builder does nothing before connect"]
pub struct ClientBuilder {
    servers: ServerList,
    settings: SessionSettings,
    credentials: Vec<(Box<str>, Bytes)>,
    retry: Arc<dyn RetryPolicy>,
    acl: Arc<[Acl]>,
    compression: Compression,
    reads: Freshness,
    request_limit: usize,
    queue_limit: u32,
    seed: Option<u64>,
    tls: Option<TlsConnector>,
}

impl ClientBuilder {
    pub(crate) fn new(servers: ServerList) -> ClientBuilder {
        ClientBuilder {
            servers,
            settings: SessionSettings { moves: ServerMoves::Follow, ..SessionSettings::default() },
            credentials: Vec::new(),
            retry: Arc::new(Retry::default()),
            acl: Acl::open().into(),
            compression: Compression::None,
            reads: Freshness::default(),
            request_limit: REQUEST_LIMIT,
            queue_limit: QUEUE_LIMIT,
            seed: None,
            tls: None,
        }
    }

    /// The requested session timeout (30 s). Servers clamp it; see [`SessionInfo`](crate::SessionInfo).
    pub fn session_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.settings.session_timeout = timeout;
        self
    }

    /// The limit of one attempt to connect, and of the time that a call waits for a connection before it
    /// fails as not sent (15 s).
    pub fn connection_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.settings.connection_timeout = timeout;
        self
    }

    /// Whether the client accepts a read-only server (no).
    pub fn read_only(mut self, servers: ReadOnlyServers) -> ClientBuilder {
        self.settings.read_only = servers;
        self
    }

    /// Whether the client moves to another server, with its session, when a server that stops asks for it
    /// (yes). No call fails then, and no state but [`SessionState::Reconnected`](crate::SessionState) is
    /// reported. The client asks each server once per connection whether it has this feature.
    pub fn moves(mut self, moves: ServerMoves) -> ClientBuilder {
        self.settings.moves = moves;
        self
    }

    /// The reaction to an expired session (open a new one).
    pub fn session_policy(mut self, policy: SessionPolicy) -> ClientBuilder {
        self.settings.policy = policy;
        self
    }

    /// Resumes the session of another client; see [`Client::hand_over`].
    pub fn resume(mut self, session: SessionCredentials) -> ClientBuilder {
        self.settings.resume = Some(session);
        self
    }

    /// Adds a credential for every connection.
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

    /// Authenticates this user by SASL on every connection, before any other request. If a server refuses the
    /// user, the client ends with [`Cause::SaslRefused`](crate::Cause::SaslRefused).
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use zebu_client::{Acl, Client, Permissions, SaslLogin, Tls};
    ///
    /// let password = std::fs::read_to_string("/etc/zebu/shop.password")?;
    /// let tls = Tls::new().trust_file("/etc/zebu/authority.pem")?.connector()?;
    /// let client = Client::builder("zk1:2281,zk2:2281,zk3:2281")?
    ///     .tls(tls)
    ///     .sasl(SaslLogin::digest_md5("shop", password.trim_end_matches('\n')))
    ///     .connect()
    ///     .await?;
    /// client.create("/shop").acl([Acl::new(Permissions::ALL, "sasl", "shop")]).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// With the feature `kerberos`, [`SaslLogin::kerberos`] authenticates with a ticket instead.
    ///
    /// DIGEST-MD5 does not send the password, and both sides prove that they know it. It protects no other
    /// request: use it over TLS.
    pub fn sasl(mut self, login: SaslLogin) -> ClientBuilder {
        self.settings.sasl = Some(SaslSettings { login, nonce_seed: nonce_seed() });
        self
    }

    /// The retry policy of all calls without one of their own.
    pub fn retry(mut self, policy: impl RetryPolicy) -> ClientBuilder {
        self.retry = Arc::new(policy);
        self
    }

    /// The ACL of nodes that are created without one (open to all).
    pub fn default_acl(mut self, acl: impl Into<Arc<[Acl]>>) -> ClientBuilder {
        self.acl = acl.into();
        self
    }

    /// How fresh the answers to reads must be. A read may ask for more.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let servers = server.connect_string();
    /// use zebu_client::{Client, Freshness};
    ///
    /// let client = Client::builder(&servers)?.reads(Freshness::LINEARIZABLE).connect().await?;
    /// # client.create("/config").await?;
    /// println!("{:?}", client.get("/config").await?.data);
    /// # Ok(()) });
    /// ```
    pub fn reads(mut self, freshness: Freshness) -> ClientBuilder {
        self.reads = freshness;
        self
    }

    /// The compression of written data. Reads recognise compressed data.
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

    /// The largest accepted reply (64 MiB).
    pub fn reply_limit(mut self, bytes: usize) -> ClientBuilder {
        self.settings.reply_limit = bytes;
        self
    }

    /// The limit of calls in flight, in units: one per call and one more per KiB (65536). Further calls wait
    /// in the client's queue, in order.
    pub fn in_flight_limit(mut self, units: u32) -> ClientBuilder {
        self.settings.in_flight_limit = units.clamp(1, UNITS_MAX);
        self
    }

    /// The limit of queued calls, in the same units (262144: 256 MiB of data). Beyond it, `send` fails with
    /// [`Cause::QueueFull`](crate::Cause::QueueFull), and an awaited call waits for capacity.
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

    /// Fixes the order of servers, all jitter and all [unique names](Client::unique_bits). For tests: two
    /// clients with the same seed generate the same names.
    pub fn seed(mut self, seed: u64) -> ClientBuilder {
        self.seed = Some(seed);
        self
    }

    /// Connects over TCP, or over [TLS](ClientBuilder::tls), and waits for the session until the connection
    /// timeout. [`Client::ready_or_unreachable`] fails earlier.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = zebu_client::Client::builder("zk1,zk2,zk3")?.connect().await?;
    /// # Ok(()) }
    /// ```
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let (timeout, servers) = (self.settings.connection_timeout, self.servers.to_string());
        within(timeout, servers, self.start()).await
    }

    /// Connects over streams of another connector.
    pub async fn connect_with(self, connector: impl Connector) -> Result<Client, ConnectError> {
        let (timeout, servers) = (self.settings.connection_timeout, self.servers.to_string());
        within(timeout, servers, self.start_with(connector)).await
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

    /// Returns at once and connects in the background over streams of another connector.
    pub fn start_with(self, connector: impl Connector) -> Client {
        let (client, driver) = self.build(connector);
        tokio::spawn(driver.run());
        client
    }

    /// The client and its driver, which the caller must run.
    pub(crate) fn build<C: Connector>(mut self, connector: C) -> (Client, ClientDriver<C>) {
        let (now, suspension) = (awake_now(), Suspension::start());
        let units_limit = self.settings.in_flight_limit + self.queue_limit;
        // The semaphore enforces the limit; the machine's own limit is never reached.
        self.settings.queue_limit = units_limit as usize;
        let mut random = Random::new(self.seed.unwrap_or_else(system_seed));
        let session = SessionMachine::new(self.settings.clone(), self.servers.servers(), random.bits(), now);
        let (commands, receiver) = command_channel();
        let (status, status_receiver) = watch::channel(session.status());
        let lease = Arc::new(LeaseDeadline::new(now, suspension));
        let (disconnects, connection) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let last_errors = Arc::new(LastErrors::new());
        let sasl_refusal = Arc::new(OnceLock::new());
        for (scheme, secret) in self.credentials {
            // The receiver is alive in this function: sending cannot fail.
            let _ = commands.send(DriverCommand::AddAuth {
                scheme,
                secret,
                completion: CompletionSender::none(),
            });
        }
        let driver = ClientDriver {
            session,
            connector: Arc::new(connector),
            commands: receiver,
            status,
            lease: lease.clone(),
            suspension,
            disconnects: disconnects.clone(),
            connection: connection.clone(),
            last_errors: last_errors.clone(),
            sasl_refusal: sasl_refusal.clone(),
            sasl_login: self.settings.sasl.as_ref().map(|sasl| sasl.login.clone()),
            random: Random::new(random.bits()),
        };
        let shared = ClientShared {
            commands,
            capacity: Arc::new(Semaphore::new(units_limit as usize)),
            units_limit,
            request_limit: self.request_limit,
            status: status_receiver,
            lease,
            disconnects,
            connection,
            last_errors,
            sasl_refusal,
            servers: AtomicU32::new(u32::try_from(self.servers.servers().len()).unwrap_or(u32::MAX)),
            watcher_ids: AtomicU64::new(1),
            random: Mutex::new(random),
            has_fixed_seed: self.seed.is_some(),
            cleanup: CleanupQueue::default(),
            features: DiscoveredFeatures::default(),
            plain_create: AtomicBool::new(false),
            connection_timeout: self.settings.connection_timeout,
            runtime: tokio::runtime::Handle::current(),
        };
        let client = Client {
            shared: Arc::new(shared),
            root: self.servers.chroot().into(),
            retry: self.retry,
            acl: self.acl,
            compression: self.compression,
            reads: Arc::new(self.reads),
        };
        (client, driver)
    }
}

/// Waits for the first session of a client.
async fn within(timeout: Duration, servers: String, client: Client) -> Result<Client, ConnectError> {
    match tokio::time::timeout(timeout, client.ready()).await {
        Ok(ready) => ready?,
        Err(_) => {
            let last = client.shared.last_errors.last().unwrap_or_else(|| "no reply".into());
            return Err(ConnectError::Timeout { timeout, servers, last });
        }
    };
    Ok(client)
}

/// Bytes for the nonces of SASL.
fn nonce_seed() -> [u8; 32] {
    let mut seed = [0; 32];
    if getrandom::fill(&mut seed).is_err() {
        let mut random = Random::new(system_seed());
        seed.chunks_exact_mut(8).for_each(|bytes| bytes.copy_from_slice(&random.bits().to_be_bytes()));
    }
    seed
}

/// A seed from the operating system. Without one, the address of an allocation still differs between
/// processes.
fn system_seed() -> u64 {
    getrandom::u64().unwrap_or_else(|_| &raw const *Box::new(0u8) as usize as u64)
}
