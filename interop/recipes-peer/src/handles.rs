//! The locks and other handles that the peer holds, by the names of the suite.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard as StdGuard, PoisonError};

use anyhow::Context;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use zebu_recipes::{
    EnteredBarrier, LeaderLatch, LeaderSelector, MutexGuard, PartyMember, Permit, ReadGuard, RecipeError,
    ServiceRegistration, WriteGuard,
};

/// Something that is held.
pub(crate) enum Handle {
    Mutex(MutexGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permit(Permit),
    Latch(Arc<LeaderLatch>),
    EnteredBarrier(EnteredBarrier),
    ServiceRegistration(ServiceRegistration<String>),
    Party(PartyMember),
    Term(Term),
}

/// Leadership that lasts until it is released.
pub(crate) struct Term {
    stop: Arc<Notify>,
    task: JoinHandle<Result<(), RecipeError>>,
}

impl Term {
    /// Waits until it leads.
    pub(crate) async fn begin(selector: LeaderSelector) -> anyhow::Result<Term> {
        let (begun, stop) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (tell, wait) = (begun.clone(), stop.clone());
        let task = tokio::spawn(async move {
            let work = |_leadership| async {
                tell.notify_one();
                wait.notified().await;
                ControlFlow::Break(())
            };
            selector.run(work).await
        });
        begun.notified().await;
        Ok(Term { stop, task })
    }
}

impl Handle {
    /// Gives it back, in the normal way.
    pub(crate) async fn release(self) -> anyhow::Result<()> {
        match self {
            Handle::Mutex(guard) => guard.release().await?,
            Handle::Read(guard) => guard.release().await?,
            Handle::Write(guard) => guard.release().await?,
            Handle::Permit(permit) => permit.release().await?,
            Handle::Latch(latch) => {
                let latch = Arc::into_inner(latch).context("somebody still asks the latch")?;
                latch.leave().await?;
            }
            Handle::EnteredBarrier(entered) => entered.leave().await?,
            Handle::ServiceRegistration(registration) => registration.unregister().await?,
            Handle::Party(member) => member.leave().await?,
            Handle::Term(term) => {
                term.stop.notify_one();
                term.task.await??;
            }
        }
        Ok(())
    }
}

#[derive(Default)]
pub(crate) struct Handles(StdMutex<BTreeMap<String, Handle>>);

impl Handles {
    fn lock(&self) -> StdGuard<'_, BTreeMap<String, Handle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, name: &str, handle: Handle) {
        self.lock().insert(name.to_owned(), handle);
    }

    pub(crate) fn take(&self, name: &str) -> anyhow::Result<Handle> {
        self.lock().remove(name).with_context(|| format!("nothing is held as {name}"))
    }

    pub(crate) fn latch(&self, name: &str) -> anyhow::Result<Arc<LeaderLatch>> {
        match self.lock().get(name) {
            Some(Handle::Latch(latch)) => Ok(latch.clone()),
            _ => anyhow::bail!("{name} is no latch"),
        }
    }
}
