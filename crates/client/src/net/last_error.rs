//! Failed attempts to connect since the last connection, for the errors of calls and for programs that need
//! the reason before a timeout.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// The limit of servers whose last failure is kept.
const SERVERS_MAX: usize = 64;

/// A failed connection or attempt to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionFailure {
    /// The server, as written in the connection string.
    pub server: Arc<str>,
    /// The text of the failure, such as "Connection refused (os error 111)".
    pub reason: Arc<str>,
}

impl fmt::Display for ConnectionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.server, self.reason)
    }
}

/// The failures since the last connection; empty while the client is connected. See
/// [`Client::connection_failures`](crate::Client::connection_failures).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionFailures {
    attempts: u32,
    each: Vec<ConnectionFailure>,
}

impl ConnectionFailures {
    /// Failed attempts in a row. As many as there are servers means that each of them has failed.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The last failure of each server, the newest at the end.
    pub fn each(&self) -> &[ConnectionFailure] {
        &self.each
    }

    /// The newest failure.
    pub fn last(&self) -> Option<&ConnectionFailure> {
        self.each.last()
    }
}

/// The recent failures; the driver writes them and callers read them.
#[derive(Debug)]
pub(crate) struct LastErrors(watch::Sender<ConnectionFailures>);

impl LastErrors {
    pub(crate) fn new() -> LastErrors {
        LastErrors(watch::Sender::new(ConnectionFailures::default()))
    }

    pub(crate) fn record(&self, server: &Arc<str>, reason: &str) {
        self.0.send_modify(|failures| {
            failures.attempts = failures.attempts.saturating_add(1);
            failures.each.retain(|failure| failure.server != *server);
            if failures.each.len() == SERVERS_MAX {
                failures.each.remove(0);
            }
            failures.each.push(ConnectionFailure { server: server.clone(), reason: reason.into() });
        });
    }

    /// Forgets all failures after a connection.
    pub(crate) fn clear(&self) {
        self.0.send_if_modified(|failures| {
            let had_any = failures.attempts > 0;
            *failures = ConnectionFailures::default();
            had_any
        });
    }

    /// The newest failure as `host:port: reason`.
    pub(crate) fn last(&self) -> Option<Arc<str>> {
        self.0.borrow().last().map(|failure| failure.to_string().into())
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<ConnectionFailures> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_is_there_with_its_last_failure() {
        let last_errors = LastErrors::new();
        for (server, reason) in [("a:1", "refused"), ("b:1", "unknown"), ("a:1", "silent")] {
            last_errors.record(&server.into(), reason);
        }
        let failures = last_errors.subscribe().borrow().clone();
        let texts: Vec<_> = failures.each().iter().map(ToString::to_string).collect();
        assert_eq!(
            (failures.attempts(), texts),
            (3, vec!["b:1: unknown".to_owned(), "a:1: silent".to_owned()])
        );
        last_errors.clear();
        assert_eq!(*last_errors.subscribe().borrow(), ConnectionFailures::default());
        (0..2 * SERVERS_MAX).for_each(|number| last_errors.record(&number.to_string().into(), "refused"));
        assert_eq!(last_errors.subscribe().borrow().each().len(), SERVERS_MAX);
    }
}
