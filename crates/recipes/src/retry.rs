//! Retries of recipes after a lost connection. A recipe repeats every call that is safe to repeat, for as
//! long as the caller waits. It bypasses the client's retry policy, so that there is one retry loop and not
//! two.

use std::future::Future;
use std::time::Duration;

use zebu_client::{Cause, Client, Compression, Error, ErrorCode, ErrorKind, RetryPolicy, Transaction};

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pause after the second failure. The first failure is repeated at once.
const PAUSE_FIRST: Duration = Duration::from_millis(20);

/// Whether the call may succeed later: there was no connection, or none to a server that takes writes.
pub(crate) fn is_transient(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::NotSent(cause) | ErrorKind::Ambiguous(cause) => {
            !matches!(cause, Cause::Closed | Cause::AuthFailed | Cause::SaslRefused(_))
        }
        ErrorKind::Server(code) | ErrorKind::Transaction { code, .. } => matches!(
            code,
            ErrorCode::ThrottledOp
                | ErrorCode::NotReadOnly
                | ErrorCode::ConnectionLoss
                | ErrorCode::OperationTimeout
                | ErrorCode::SessionMoved
                | ErrorCode::SessionExpired
        ),
        _ => false,
    }
}

/// The pause after so many earlier failures.
fn pause_after(earlier_failures: u32) -> Duration {
    match earlier_failures.checked_sub(1) {
        Some(doublings) => PAUSE_FIRST.saturating_mul(1 << doublings.min(10)).min(PAUSE_MAX),
        None => Duration::ZERO,
    }
}

/// A transaction without compression, whatever the client does: programs that do not compress share the nodes
/// of recipes.
pub(crate) fn uncompressed_transaction(client: &Client) -> Transaction {
    client.transaction().compression(Compression::None)
}

/// The retry loop of one operation: counts failures and waits for a connection between attempts.
#[derive(Debug, Default)]
pub(crate) struct ReconnectRetry {
    failures: u32,
}

impl ReconnectRetry {
    /// Waits until another attempt is worthwhile. Returns the error if no attempt can succeed.
    pub(crate) async fn after(&mut self, client: &Client, error: Error) -> Result<(), Error> {
        if !is_transient(&error) {
            return Err(error);
        }
        tracing::debug!(%error, failures = self.failures, "waiting for a server before the next attempt");
        if self.failures > 0 {
            tokio::time::sleep(pause_after(self.failures)).await;
        }
        self.failures = self.failures.saturating_add(1);
        client.ready().await.map(drop)
    }
}

/// The policy of a protected create: the same pauses without a limit, until the client is closed.
pub(crate) struct UntilAnswered {
    client: Client,
}

impl UntilAnswered {
    pub(crate) fn new(client: &Client) -> UntilAnswered {
        UntilAnswered { client: client.clone() }
    }
}

impl RetryPolicy for UntilAnswered {
    fn pause(&self, failures: u32, _elapsed: Duration, _random: f64) -> Option<Duration> {
        // The sender of the state is gone when the client has ended.
        let is_closed = self.client.states().has_changed().is_err();
        (!is_closed).then(|| pause_after(failures.saturating_sub(1)))
    }
}

/// Repeats an idempotent call until a server has answered it.
pub(crate) async fn retry_until_answered<T, F>(
    client: &Client,
    mut call: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: IntoFuture<Output = Result<T, Error>>,
{
    let mut retry = ReconnectRetry::default();
    loop {
        match call().await {
            Ok(value) => return Ok(value),
            Err(error) => retry.after(client, error).await?,
        }
    }
}

/// The reply, or `None` if the node is missing.
pub(crate) fn none_if_missing<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Runs a future until it completes or the deadline has passed. Without a deadline it runs to its end.
pub(crate) async fn with_deadline<F: Future>(
    deadline: Option<tokio::time::Instant>,
    future: F,
) -> Option<F::Output> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, future).await.ok(),
        None => Some(future.await),
    }
}
