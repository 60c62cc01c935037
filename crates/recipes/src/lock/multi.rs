//! Several locks as one: all or none, and always in the same order, so that two callers never wait for each
//! other in a circle.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use zebu_client::Transaction;

use super::mutex::{Mutex, MutexGuard};
use crate::error::RecipeError;
use crate::hold::{Fenced, Held, LossReason};
use crate::line::{Patience, for_a_moment};

/// Waits for all of these locks. They are taken in the order of their paths on the server, whatever the order of
/// the list and the namespaces of their clients; if one cannot be had, those before it are given back.
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
/// A lost connection, a lost session, a crash and a dropped future do to each of them what they do to a
/// [`Mutex`]; the loss of one is the loss of all.
pub async fn acquire_all(locks: &[&Mutex]) -> Result<MultiGuard, RecipeError> {
    loop {
        if let Some(guard) = acquire(locks, Patience::Endless).await? {
            return Ok(guard);
        }
    }
}

/// Waits for all of these locks, but not for longer than this in total.
pub async fn acquire_all_within(
    locks: &[&Mutex],
    patience: Duration,
) -> Result<Option<MultiGuard>, RecipeError> {
    acquire(locks, Patience::of(patience)).await
}

async fn acquire(locks: &[&Mutex], patience: Patience) -> Result<Option<MultiGuard>, RecipeError> {
    let mut sorted = locks.to_vec();
    // The path as the server has it: the same lock may be named through different namespaces.
    let key = |mutex: &Mutex| format!("{}{}", mutex.line().client.root(), mutex.path());
    sorted.sort_by_key(|mutex| key(mutex));
    if let Some(pair) = sorted.windows(2).find(|pair| key(pair[0]) == key(pair[1])) {
        let path = key(pair[0]);
        return Err(RecipeError::Invalid(format!("{path} is in the list twice; it would wait for itself")));
    }
    let mut guards = MultiGuard { guards: Vec::with_capacity(sorted.len()) };
    for mutex in sorted {
        match mutex.acquire_by(patience).await {
            Ok(Some(guard)) => guards.guards.push(guard),
            Ok(None) => {
                for_a_moment(guards.release()).await;
                return Ok(None);
            }
            Err(error) => {
                for_a_moment(guards.release()).await;
                return Err(error);
            }
        }
    }
    // The first may have been lost while the last was waited for.
    match guards.check() {
        Ok(()) => Ok(Some(guards)),
        Err(reason) => {
            let path = guards.guards.iter().find(|guard| guard.check().is_err());
            let path = path.map(|guard| guard.path().to_owned()).unwrap_or_default();
            Err(RecipeError::Lost { path, reason })
        }
    }
}

/// Several locks are held.
#[derive(Debug)]
#[must_use = "dropping it gives the locks back"]
pub struct MultiGuard {
    guards: Vec<MutexGuard>,
}

impl MultiGuard {
    /// The guards, in the order in which they were taken.
    pub fn guards(&self) -> &[MutexGuard] {
        &self.guards
    }

    /// Whether all are held; see [`Held::check`].
    pub fn check(&self) -> Result<(), LossReason> {
        self.guards.iter().try_for_each(Held::check)
    }

    /// Comes to its end when the first of them is lost, and says why. Never, if there are none.
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

    /// Binds a transaction to all of them; see [`Fenced::fence`].
    pub fn fence(&self, transaction: &mut Transaction) {
        for guard in &self.guards {
            guard.fence(transaction);
        }
    }

    /// Gives all of them back, the last one first. Those after one that fails are released too; the first
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
