//! Clean-up that runs in the background when its owner is dropped, unless the owner disarms it.

use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::Handle;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Spawns a task when it is dropped. The runtime is the one that it was made on.
pub(crate) struct SpawnOnDrop {
    runtime: Handle,
    /// Under a mutex only so that guards stay `Sync`.
    task: Mutex<Option<Task>>,
}

impl SpawnOnDrop {
    pub(crate) fn new(task: impl Future<Output = ()> + Send + 'static) -> SpawnOnDrop {
        SpawnOnDrop { runtime: Handle::current(), task: Mutex::new(Some(Box::pin(task))) }
    }

    /// Drops the task without running it.
    pub(crate) fn disarm(mut self) {
        self.take();
    }

    fn take(&mut self) -> Option<Task> {
        self.task.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for SpawnOnDrop {
    fn drop(&mut self) {
        if let Some(task) = self.take() {
            self.runtime.spawn(task);
        }
    }
}

impl fmt::Debug for SpawnOnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnOnDrop").finish_non_exhaustive()
    }
}
