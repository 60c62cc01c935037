//! What all requests of this console share: the servers, a client for visitors, and limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use zebu_client::{Client, ClientBuilder, ConnectStringError, Retry, ServerList};
use zebu_console::ConsoleAccess;

use super::listings::KeptListings;
use super::walks::KeptWalks;
use crate::protection::Protection;

/// How long a request waits for a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest answer of a server: the names of a very large node.
const REPLY_BYTES_MAX: usize = 128 << 20;
/// Event streams at once.
const STREAMS_MAX: usize = 32;
/// Questions by four-letter words at once.
const WORDS_MAX: usize = 8;

/// A client with an identity of its own.
#[derive(Clone)]
pub(crate) struct RemoteLogin {
    pub(super) client: Client,
    /// Tells the logins apart. Zero is the visitor.
    pub(super) number: u64,
}

/// The servers behind this console.
pub(super) struct Remote {
    pub(super) servers: Vec<String>,
    /// As the user named them.
    pub(super) name: String,
    pub(super) protection: Protection,
    pub(super) access: ConsoleAccess,
    pub(super) visitor: RemoteLogin,
    pub(super) listings: KeptListings,
    pub(super) walks: KeptWalks,
    pub(super) streams: Arc<Semaphore>,
    pub(super) words: Semaphore,
    logins: AtomicU64,
}

impl Remote {
    /// Begins to connect. Needs a runtime.
    pub(super) fn start(
        servers: &str,
        protection: Protection,
        access: ConsoleAccess,
    ) -> Result<Arc<Remote>, ConnectStringError> {
        let list: ServerList = servers.parse()?;
        let client = builder(servers, &protection)?.start();
        let names = list.servers().iter().map(ToString::to_string).collect();
        Ok(Arc::new(Remote {
            servers: names,
            name: servers.to_owned(),
            protection,
            access,
            visitor: RemoteLogin { client, number: 0 },
            listings: KeptListings::default(),
            walks: KeptWalks::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            words: Semaphore::new(WORDS_MAX),
            logins: AtomicU64::new(1),
        }))
    }

    /// A client for a user of the scheme digest. It keeps the password for later connections.
    pub(super) fn log_in(&self, user: &str, password: &str) -> Result<RemoteLogin, ConnectStringError> {
        let builder = builder(&self.name, &self.protection)?.auth("digest", format!("{user}:{password}"));
        Ok(RemoteLogin { client: builder.start(), number: self.logins.fetch_add(1, Ordering::Relaxed) })
    }
}

fn builder(servers: &str, protection: &Protection) -> Result<ClientBuilder, ConnectStringError> {
    let builder = Client::builder(servers)?
        .session_timeout(SESSION_TIMEOUT)
        .connection_timeout(CONNECTION_TIMEOUT)
        .reply_limit(protection.largest_answer.unwrap_or(REPLY_BYTES_MAX))
        // The user decides what is repeated.
        .retry(Retry::Never);
    Ok(protection.apply(builder))
}
