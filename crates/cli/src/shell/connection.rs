//! The session of the shell: a client seen from the chroot and one seen from the root of the server, for what
//! no chroot holds (quotas, the configuration).

use std::time::Duration;

use tokio::sync::watch;
use zebu_client::{
    Client, ConnectStringError, ConnectionFailures, ReadOnlyServers, Retry, ServerList, SessionState,
    SessionStatus,
};

use super::invocation::{Invocation, ReadOnly};
use super::reply::Event;
use crate::protection::Protection;

/// How long a command waits for a connection.
const TIME_LIMIT: Duration = Duration::from_secs(10);
const DEFAULT_LARGEST_ANSWER: usize = 64 << 20;

/// A session on its way or established.
pub(crate) struct Connection {
    /// As it was typed, for the prompt.
    pub(crate) servers: String,
    /// Paths start at the chroot.
    pub(crate) client: Client,
    /// Paths start at the server's root.
    pub(crate) outside: Client,
    pub(crate) chroot: String,
    states: watch::Receiver<SessionStatus>,
    failures: watch::Receiver<ConnectionFailures>,
    /// How many servers the connection string names.
    count: usize,
    /// The state and the number of the session that were told last.
    told: (SessionState, u64),
}

impl Connection {
    /// Starts to connect; needs a runtime.
    pub(crate) fn start(
        servers: &str,
        invocation: &Invocation,
        protection: &Protection,
    ) -> Result<Connection, ConnectStringError> {
        let list: ServerList = servers.parse()?;
        let chroot = list.chroot().to_owned();
        let without_chroot = servers.split('/').next().unwrap_or(servers);
        let builder = Client::builder(without_chroot)?
            .session_timeout(invocation.timeout)
            .connection_timeout(TIME_LIMIT.min(invocation.timeout))
            .read_only(match invocation.read_only {
                ReadOnly::Refuse => ReadOnlyServers::Refuse,
                ReadOnly::Accept => ReadOnlyServers::Accept,
            })
            .reply_limit(protection.largest_answer.unwrap_or(DEFAULT_LARGEST_ANSWER))
            // A person decides what is repeated.
            .retry(Retry::Never);
        let outside = protection.apply(builder).start();
        let client = match chroot.as_str() {
            "" => outside.clone(),
            root => outside.namespaced(root).expect("the connection string was parsed with this chroot"),
        };
        let states = outside.states();
        let failures = outside.connection_failures();
        Ok(Connection {
            servers: servers.to_owned(),
            client,
            outside,
            chroot,
            states,
            failures,
            count: list.servers().len(),
            told: (SessionState::Connecting, 0),
        })
    }

    /// A path as the server knows it.
    pub(crate) fn full_path(&self, path: &str) -> String {
        match path {
            "/" if !self.chroot.is_empty() => self.chroot.clone(),
            path => format!("{}{path}", self.chroot),
        }
    }

    /// Whether commands can be sent, now or once a server is reached.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.client.state(), SessionState::Closed | SessionState::AuthFailed)
    }

    /// The word for the prompt.
    pub(crate) fn state_word(&self) -> &'static str {
        match self.client.state() {
            SessionState::Connecting | SessionState::Suspended | SessionState::Expired => "CONNECTING",
            SessionState::Connected | SessionState::Reconnected => "CONNECTED",
            SessionState::ReadOnly => "CONNECTEDREADONLY",
            SessionState::AuthFailed => "AUTH_FAILED",
            SessionState::Closed => "CLOSED",
        }
    }

    /// Why no server can be reached: the last failure of each. Empty while there is a connection.
    pub(crate) fn failures(&self) -> Vec<String> {
        self.failures.borrow().each().iter().map(ToString::to_string).collect()
    }

    /// Waits until every server has failed, for the first time or again since there was a connection.
    pub(crate) fn unreachable(&self) -> impl Future<Output = Vec<String>> + use<> {
        let (mut failures, count) = (self.failures.clone(), self.count);
        async move {
            let all_failed = |failures: &ConnectionFailures| failures.attempts() as usize >= count;
            match failures.wait_for(all_failed).await {
                Ok(failures) => failures.each().iter().map(ToString::to_string).collect(),
                Err(_) => std::future::pending().await,
            }
        }
    }

    /// The newest change of the state that was not told yet.
    pub(crate) fn take_change(&mut self) -> Option<Event> {
        // The value stays readable when the client is over; whether it has changed does not.
        let status = self.states.borrow_and_update();
        let now = (status.state, status.session.epoch);
        drop(status);
        if std::mem::replace(&mut self.told, now) == now { None } else { event_of(now.0) }
    }

    /// Waits for a change of the state; never returns once the session is over.
    pub(crate) async fn changed(&mut self) {
        let mut states = self.states.clone();
        if states.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Ends the session.
    pub(crate) async fn close(self) -> Event {
        let Connection { client, outside, .. } = self;
        drop(client);
        let _ = outside.close().await;
        Event { state: "Closed", kind: "None", path: None, zxid: -1 }
    }
}

fn event_of(state: SessionState) -> Option<Event> {
    let state = match state {
        SessionState::Connecting => return None,
        SessionState::Connected | SessionState::Reconnected => "SyncConnected",
        SessionState::ReadOnly => "ConnectedReadOnly",
        SessionState::Suspended => "Disconnected",
        SessionState::Expired => "Expired",
        SessionState::AuthFailed => "AuthFailed",
        SessionState::Closed => "Closed",
    };
    Some(Event { state, kind: "None", path: None, zxid: -1 })
}
