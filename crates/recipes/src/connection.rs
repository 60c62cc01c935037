//! Going on after trouble with the connection. Recipes repeat by themselves what may be repeated, for as long
//! as the caller waits; the client's own retry policy is not used, so that there is one loop and not two.

use std::future::Future;
use std::time::Duration;

use zebu_client::{Cause, Client, Compression, Error, ErrorCode, ErrorKind, Transaction};

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pause after the second failure; the first one is repeated at once.
const PAUSE_FIRST: Duration = Duration::from_millis(20);

/// Whether the call may succeed later: there was no connection, or not one to a server that takes writes.
pub(crate) fn is_passing(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::NotSent(cause) | ErrorKind::Ambiguous(cause) => {
            !matches!(cause, Cause::Closed | Cause::AuthFailed)
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

/// A transaction that stores data as it is, whatever the compression of the client: nodes of recipes are shared with
/// programs that do not compress.
pub(crate) fn plain_transaction(client: &Client) -> Transaction {
    client.transaction().compression(Compression::None)
}

/// Counts failures and waits between attempts.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failures: u32,
}

impl Attempts {
    /// Waits until another attempt makes sense. Gives the error back if none ever will.
    pub(crate) async fn after(&mut self, client: &Client, error: Error) -> Result<(), Error> {
        if !is_passing(&error) {
            return Err(error);
        }
        tracing::debug!(%error, failures = self.failures, "goes on when a server can be reached");
        if let Some(doublings) = self.failures.checked_sub(1) {
            let pause = PAUSE_FIRST.saturating_mul(1 << doublings.min(10)).min(PAUSE_MAX);
            tokio::time::sleep(pause).await;
        }
        self.failures = self.failures.saturating_add(1);
        client.ready().await.map(drop)
    }
}

/// Repeats a call that is the same twice as once, until a server has answered it.
pub(crate) async fn persist<T, F>(client: &Client, mut call: impl FnMut() -> F) -> Result<T, Error>
where
    F: IntoFuture<Output = Result<T, Error>>,
{
    let mut attempts = Attempts::default();
    loop {
        match call().await {
            Ok(value) => return Ok(value),
            Err(error) => attempts.after(client, error).await?,
        }
    }
}

/// An answer, or `None` if the node is missing.
pub(crate) fn present<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Runs a future until it is done or the deadline has passed; no deadline means no end.
pub(crate) async fn before<F: Future>(
    deadline: Option<tokio::time::Instant>,
    future: F,
) -> Option<F::Output> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, future).await.ok(),
        None => Some(future.await),
    }
}
