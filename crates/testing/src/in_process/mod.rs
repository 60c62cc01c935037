//! A server inside the test's own process: started in milliseconds, gone with its handle, with faults on
//! demand. It owns the server's thread, the wire that clients go through, and the directory.
//!
//! The faults are made on the wire and by ending the server; the server itself is the one that ships.

mod ensemble;
mod running;
mod splitter;
mod wire;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::Mutex;
use zebu_proto::{OpCode, SessionId};
use zebu_server::config::{BindAddress, ConfigInputs, Environment, LocalSystem, ServerConfig, load};
use zebu_server::{ServeError, ShutdownMode};

pub use self::ensemble::{TestEnsemble, TestEnsembleBuilder};
use self::running::Running;
use self::wire::{Flow, Whose, Wire};
use crate::raw::{RawClient, RawError, Session};

/// What every server here gets: short ticks, so that sessions can be short, and every feature that needs a
/// switch. Nothing has to survive the machine's loss of power, so the log is not synced.
const BASE: &str = "feed.readers=world:anyone\ntickTime=100\nminSessionTimeout=200\nmaxSessionTimeout=60000\nmaxClientCnxns=0\n\
                    admin.enableServer=false\nforceSync=no\npreAllocSize=1024\n";

/// Why a test has no server, or why a fault could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TestServerError {
    /// Directory, configuration file, port or thread could not be had.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The lines of the builder are not a configuration.
    #[error("the server's configuration is not usable: {0}")]
    Config(String),
    /// The server did not start, or ended badly.
    #[error(transparent)]
    Server(#[from] ServeError),
    /// It needs a server that runs.
    #[error("the server does not run; call restart first")]
    NotRunning,
    /// The members of an ensemble did not agree on a leader.
    #[error(
        "the ensemble had no leader and all members serving within {0:?}; is a quorum running and connected?"
    )]
    NoLeader(Duration),
    /// The server did not answer.
    #[error(transparent)]
    Raw(#[from] RawError),
}

/// What a server is to be started with; see [`TestServer::builder`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing before start"]
pub struct TestServerBuilder {
    lines: Vec<String>,
    properties: Vec<String>,
}

impl TestServerBuilder {
    /// A line of zoo.cfg, such as `maxSessionTimeout=5000`; the last one for a key counts.
    pub fn line(mut self, line: impl Into<String>) -> TestServerBuilder {
        self.lines.push(line.into());
        self
    }

    /// A property, as `-Dname=value` on a command line.
    pub fn property(mut self, name: &str, value: &str) -> TestServerBuilder {
        self.properties.push(format!("{name}={value}"));
        self
    }

    /// Starts the server; it serves when this returns.
    pub async fn start(self) -> Result<TestServer, TestServerError> {
        let directory = TempDir::new().map_err(failed("make a directory for the server"))?;
        let config = self.config(directory.path())?;
        let wire = Wire::start().map_err(failed("open a port for the server"))?;
        let running = Running::start(config.clone()).await?;
        wire.lead_to(Some(running.address()));
        Ok(TestServer { config, wire, running: Mutex::new(Some(running)), directory })
    }

    fn config(&self, directory: &Path) -> Result<ServerConfig, TestServerError> {
        let data = directory.join("data");
        fs::create_dir(&data).map_err(failed("make a data directory"))?;
        let mut text = format!("{BASE}dataDir={}\nclientPort=2181\n", data.display());
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        let path = directory.join("zoo.cfg");
        fs::write(&path, text).map_err(failed("write zoo.cfg"))?;
        let mut properties = vec![
            "zookeeper.4lw.commands.whitelist=*".to_owned(),
            "zookeeper.extendedTypesEnabled=true".to_owned(),
        ];
        properties.extend(self.properties.iter().cloned());
        let inputs = ConfigInputs {
            arguments: vec![path.display().to_string()],
            properties,
            // A developer's variables are not part of a test.
            environment: Environment::default(),
        };
        let loaded = load(&inputs, &LocalSystem);
        let Some(mut config) = loaded.config else {
            let errors: Vec<String> = loaded.diagnostics.errors.iter().map(ToString::to_string).collect();
            return Err(TestServerError::Config(errors.join("; ")));
        };
        // Behind the wire any port will do.
        config.listen.client = Some(BindAddress::Address((Ipv4Addr::LOCALHOST, 0).into()));
        Ok(config)
    }
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> TestServerError {
    move |source| TestServerError::Io { what, source }
}

/// A Zebu server for a test, in the test's own process.
///
/// Everything is gone when it is dropped. Sessions of 200 ms to 60 s are granted, every four-letter word is
/// answered, TTL nodes are on, every client may open feeds.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use zebu_client::Client;
/// use zebu_testing::TestServer;
///
/// let server = TestServer::start().await?;
/// let client = Client::connect(&server.connect_string()).await?;
/// client.create("/greeting").data("hello").await?;
/// assert_eq!(&client.get("/greeting").await?.data[..], b"hello");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct TestServer {
    // In the order in which they go: the server before its directory.
    config: ServerConfig,
    wire: Wire,
    running: Mutex<Option<Running>>,
    directory: TempDir,
}

impl TestServer {
    /// Starts a server with the defaults. The error says what the machine lacks.
    pub async fn start() -> Result<TestServer, TestServerError> {
        TestServer::builder().start().await
    }

    /// Begins a server with other settings.
    pub fn builder() -> TestServerBuilder {
        TestServerBuilder::default()
    }

    /// Where clients connect. It stays the same over every restart.
    pub fn address(&self) -> SocketAddr {
        self.wire.address()
    }

    /// What clients are given: `127.0.0.1:port`.
    pub fn connect_string(&self) -> String {
        self.wire.address().to_string()
    }

    /// Its data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Stops the server as an operator would: it answers the pending requests. Sessions stay in its files;
    /// clients cannot connect until [`TestServer::restart`].
    pub async fn stop(&self) -> Result<(), TestServerError> {
        let mut running = self.running.lock().await;
        self.wire.lead_to(None);
        let result = match running.take() {
            Some(server) => server.end(ShutdownMode::Graceful).await,
            None => Ok(()),
        };
        self.wire.cut(Whose::All);
        Ok(result?)
    }

    /// Ends the server like a crash: connections break, pending requests get no reply, and writes that are
    /// not in its log are lost. Acknowledged writes are kept.
    pub async fn kill(&self) -> Result<(), TestServerError> {
        let mut running = self.running.lock().await;
        self.wire.lead_to(None);
        self.wire.cut(Whose::All);
        match running.take() {
            Some(server) => Ok(server.end(ShutdownMode::Abort).await?),
            None => Ok(()),
        }
    }

    /// Starts it again on the same port and files, after [`TestServer::stop`] or [`TestServer::kill`]; one
    /// that runs is stopped first.
    pub async fn restart(&self) -> Result<(), TestServerError> {
        self.stop().await?;
        let mut running = self.running.lock().await;
        let server = Running::start(self.config.clone()).await?;
        self.wire.lead_to(Some(server.address()));
        *running = Some(server);
        Ok(())
    }

    /// Ends a session now, as if its client had been silent for its whole timeout: its ephemeral nodes are
    /// gone when this returns, and its client learns it when it reconnects, which it has to do at once.
    pub async fn expire(&self, session: SessionId) -> Result<(), TestServerError> {
        let address = {
            let running = self.running.lock().await;
            running.as_ref().ok_or(TestServerError::NotRunning)?.address()
        };
        // Or the client would take its session back before it is closed.
        let _held = self.wire.hold_newcomers();
        self.wire.cut(Whose::Session(session));
        let closed = tokio::task::spawn_blocking(move || close_session(address, session)).await;
        closed.map_err(|error| failed("close the session")(io::Error::other(error)))?
    }

    /// The next answer to a request of this session is thrown away, after the server has carried the
    /// request out, and the connection is cut: the client cannot know whether it was.
    ///
    /// Pings, events and what a client sends by itself after a reconnect do not count.
    pub fn drop_next_reply(&self, session: SessionId) {
        self.wire.doom(session);
    }

    /// Cuts the connection of a session; it can come back at once.
    pub fn cut(&self, session: SessionId) {
        self.wire.cut(Whose::Session(session));
    }

    /// Cuts every connection; clients can come back at once.
    pub fn cut_all(&self) {
        self.wire.cut(Whose::All);
    }

    /// Holds all bytes of a session, in both directions, on this and on its later connections. Nothing is
    /// lost; a session that is held for longer than its timeout expires.
    pub async fn pause(&self, session: SessionId) {
        self.wire.set_flow(Whose::Session(session), Flow::Held).await;
    }

    /// Lets the bytes of a session pass again.
    pub async fn resume(&self, session: SessionId) {
        self.wire.set_flow(Whose::Session(session), Flow::Free).await;
    }

    /// Holds all bytes of all connections, new ones too.
    pub async fn pause_all(&self) {
        self.wire.set_flow(Whose::All, Flow::Held).await;
    }

    /// Lets all bytes pass again, except those of sessions that were paused by themselves.
    pub async fn resume_all(&self) {
        self.wire.set_flow(Whose::All, Flow::Free).await;
    }
}

/// Takes the session over and closes it. One that is over already is as good.
fn close_session(address: SocketAddr, session: SessionId) -> Result<(), TestServerError> {
    let (mut client, response) = RawClient::resume(address, &Session::of(session))?;
    client.set_patience(Duration::from_secs(30));
    if response.session_id != 0 {
        client.call(OpCode::CloseSession, |_| {})?;
    }
    Ok(())
}
