//! What all guards have in common, and work that ends with what it depends on.

use std::future::Future;
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use zebu_client::{Error, ErrorCode, ErrorKind, OpRef, Transaction, Version};

use super::state::Holding;
use super::terms::{FencingToken, LossReason};

/// Something that is held: a lock, a lease, leadership.
pub trait Held {
    /// What is known of the hold.
    fn holding(&self) -> &Holding;

    /// The node that stands for it.
    fn path(&self) -> &str {
        self.holding().path()
    }

    /// A number that is greater than that of every earlier holder.
    fn token(&self) -> FencingToken {
        self.holding().token()
    }

    /// Whether it is held, without asking a server; see [`Holding::check`].
    fn check(&self) -> Result<(), LossReason> {
        self.holding().check()
    }

    /// Whether it is held, by asking a server that has caught up.
    fn verify(&self) -> impl Future<Output = Result<(), LossReason>> + Send {
        let holding = self.holding().clone();
        async move { holding.verify().await }
    }

    /// Comes to its end with the hold, and says why.
    fn lost(&self) -> impl Future<Output = LossReason> + Send + 'static {
        let holding = self.holding().clone();
        async move { holding.lost().await }
    }

    /// Is cancelled with the end of the hold.
    fn cancellation(&self) -> CancellationToken {
        self.holding().cancellation()
    }

    /// Until when it is certainly held if the leader is not heard of any more; `None` if it is lost.
    fn lease_deadline(&self) -> Option<Instant> {
        self.holding().lease_deadline()
    }
}

/// Something whose node no other holder will ever have, so that a transaction can be bound to it.
pub trait Fenced: Held {
    /// Adds a condition to a transaction of the same client: it is carried out only if this is still held at
    /// that moment, as the ensemble sees it. Whether it failed because of that tells [`fenced_out`].
    fn fence(&self, transaction: &mut Transaction) -> OpRef<()> {
        transaction.check(self.path(), Version::Any)
    }

    /// Begins a transaction with that condition as its first operation.
    fn transaction(&self) -> Transaction {
        let mut transaction = self.holding().client().transaction();
        self.fence(&mut transaction);
        transaction
    }
}

/// Whether a transaction failed because of the condition that [`Fenced::fence`] or
/// [`Fenced::transaction`] (then it is operation 0) has put into it.
pub fn fenced_out(error: &Error, condition: usize) -> bool {
    matches!(error.kind(), ErrorKind::Transaction { index, code: ErrorCode::NoNode } if *index == condition)
}

/// Runs work for as long as something is held. When it is lost the work is dropped at its next await, by the
/// holder's clock before anybody else can hold it.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{Mutex, run_while_held};
///
/// let guard = Mutex::new(&client, "/locks/report").acquire().await?;
/// let pages = run_while_held(&guard, async { 12 }).await?;
/// assert_eq!(pages, 12);
/// guard.release().await?;
/// # Ok(()) });
/// ```
pub async fn run_while_held<G: Held + ?Sized, F: Future>(
    guard: &G,
    work: F,
) -> Result<F::Output, LossReason> {
    guard.check()?;
    tokio::select! {
        biased;
        reason = guard.lost() => Err(reason),
        output = work => Ok(output),
    }
}

impl std::error::Error for LossReason {}
