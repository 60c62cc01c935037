//! The common interface of all guards, and work that ends with ownership.

use std::future::Future;
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use zebu_client::{Error, ErrorCode, ErrorKind, OpRef, Transaction, Version};

use super::policy::{FencingToken, LossReason};
use super::state::OwnershipState;

/// Ownership of a lock, a permit or leadership.
pub trait Ownership {
    /// The state of the ownership.
    fn ownership_state(&self) -> &OwnershipState;

    /// The owner's node.
    fn path(&self) -> &str {
        self.ownership_state().path()
    }

    /// The fencing token, greater than that of every earlier owner.
    fn token(&self) -> FencingToken {
        self.ownership_state().token()
    }

    /// Whether ownership holds, without a request; see [`OwnershipState::check`].
    fn check(&self) -> Result<(), LossReason> {
        self.ownership_state().check()
    }

    /// Whether ownership holds, after a sync and a read.
    fn verify(&self) -> impl Future<Output = Result<(), LossReason>> + Send {
        let ownership_state = self.ownership_state().clone();
        async move { ownership_state.verify().await }
    }

    /// Completes when ownership ends, with the reason.
    fn lost(&self) -> impl Future<Output = LossReason> + Send + 'static {
        let ownership_state = self.ownership_state().clone();
        async move { ownership_state.lost().await }
    }

    /// A token that is cancelled when ownership ends.
    fn cancellation(&self) -> CancellationToken {
        self.ownership_state().cancellation()
    }

    /// The time until which ownership is safe if the leader does not answer; `None` if it is lost.
    fn lease_deadline(&self) -> Option<Instant> {
        self.ownership_state().lease_deadline()
    }
}

/// Ownership by a node with a unique name, so that a transaction can check it.
pub trait Fenced: Ownership {
    /// Adds a condition to a transaction of the same client: it commits only if ownership still holds at that
    /// point of the history. [`is_fenced_out`] tells whether the condition failed.
    fn fence(&self, transaction: &mut Transaction) -> OpRef<()> {
        transaction.check(self.path(), Version::Any)
    }

    /// Starts a transaction with that condition as its first operation.
    fn transaction(&self) -> Transaction {
        let mut transaction = self.ownership_state().client().transaction();
        self.fence(&mut transaction);
        transaction
    }
}

/// Whether a transaction failed because of the condition of [`Fenced::fence`] or [`Fenced::transaction`]
/// (operation 0).
pub fn is_fenced_out(error: &Error, condition: usize) -> bool {
    matches!(error.kind(), ErrorKind::Transaction { index, code: ErrorCode::NoNode } if *index == condition)
}

/// Runs work during ownership. When ownership is lost, the work is dropped at its next await, by the local
/// clock before another client can own it.
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
pub async fn run_while_held<G: Ownership + ?Sized, F: Future>(
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
