//! Several locks at once: all or none, always in the same order, so that two callers cannot deadlock.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use zebu_client::Transaction;

use super::mutex::{Mutex, MutexGuard};
use crate::error::RecipeError;
use crate::ownership::{Fenced, LossReason, Ownership};
use crate::wait_queue::{WaitLimit, with_leave_timeout};

/// Waits for all of these locks. They are acquired in the order of their full paths, whatever the order of
/// the list and the namespaces of their clients. If one cannot be acquired, the earlier ones are released.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{Mutex, acquire_all};
///
/// let (from, to) = (Mutex::new(&client, "/accounts/7"), Mutex::new(&client, "/accounts/3"));
/// let both = acquire_all(&[&from, &to]).await?;
/// both.check()?;
/// both.release().await?;
/// # Ok(()) });
/// ```
///
/// The effects of a lost connection, a lost session, a crash and a dropped future are those of a [`Mutex`].
/// The loss of one lock is the loss of all.
pub async fn acquire_all(locks: &[&Mutex]) -> Result<MultiGuard, RecipeError> {
    loop {
        if let Some(guard) = acquire(locks, WaitLimit::Unlimited).await? {
            return Ok(guard);
        }
    }
}

/// Waits for all of these locks, up to the timeout in total.
pub async fn acquire_all_within(
    locks: &[&Mutex],
    timeout: Duration,
) -> Result<Option<MultiGuard>, RecipeError> {
    acquire(locks, WaitLimit::within(timeout)).await
}

async fn acquire(locks: &[&Mutex], limit: WaitLimit) -> Result<Option<MultiGuard>, RecipeError> {
    let mut sorted = locks.to_vec();
    // The full path: different namespaces may name the same lock.
    let key = |mutex: &Mutex| format!("{}{}", mutex.queue().client.root(), mutex.path());
    sorted.sort_by_key(|mutex| key(mutex));
    if let Some(pair) = sorted.windows(2).find(|pair| key(pair[0]) == key(pair[1])) {
        let path = key(pair[0]);
        return Err(RecipeError::Invalid(format!("{path} is in the list twice and would deadlock")));
    }
    let mut guards = MultiGuard { guards: Vec::with_capacity(sorted.len()) };
    for mutex in sorted {
        match mutex.acquire_by(limit).await {
            Ok(Some(guard)) => guards.guards.push(guard),
            Ok(None) => {
                with_leave_timeout(guards.release()).await;
                return Ok(None);
            }
            Err(error) => {
                with_leave_timeout(guards.release()).await;
                return Err(error);
            }
        }
    }
    // The first lock may have been lost during the wait for the last.
    match guards.check() {
        Ok(()) => Ok(Some(guards)),
        Err(reason) => {
            let path = guards.guards.iter().find(|guard| guard.check().is_err());
            let path = path.map(|guard| guard.path().to_owned()).unwrap_or_default();
            Err(RecipeError::Lost { path, reason })
        }
    }
}

/// Ownership of several locks.
#[derive(Debug)]
#[must_use = "dropping it releases the locks"]
pub struct MultiGuard {
    guards: Vec<MutexGuard>,
}

impl MultiGuard {
    /// The guards, in the order of acquisition.
    pub fn guards(&self) -> &[MutexGuard] {
        &self.guards
    }

    /// Whether all are owned; see [`Ownership::check`].
    pub fn check(&self) -> Result<(), LossReason> {
        self.guards.iter().try_for_each(Ownership::check)
    }

    /// Completes when the first of them is lost, with the reason. Without locks it never completes.
    pub async fn lost(&self) -> LossReason {
        type Lost<'a> = Pin<Box<dyn Future<Output = LossReason> + Send + 'a>>;
        let mut losses: Vec<Lost<'_>> = Vec::new();
        for guard in &self.guards {
            losses.push(Box::pin(guard.lost()));
        }
        poll_fn(|context| {
            for loss in &mut losses {
                if let Poll::Ready(reason) = loss.as_mut().poll(context) {
                    return Poll::Ready(reason);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Adds conditions for all of them to a transaction; see [`Fenced::fence`].
    pub fn fence(&self, transaction: &mut Transaction) {
        for guard in &self.guards {
            guard.fence(transaction);
        }
    }

    /// Releases all of them, the last one first. A failure does not stop the release of the others; the first
    /// failure is returned.
    pub async fn release(mut self) -> Result<(), RecipeError> {
        let mut result = Ok(());
        while let Some(guard) = self.guards.pop() {
            let released = guard.release().await;
            result = result.and(released);
        }
        result
    }
}
