//! Cleaning up behind calls that could not finish: guaranteed deletes, and protected creates whose outcome
//! nobody waited for. One task per client, only while there is something to do; it never keeps a client
//! alive that everybody else has dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use zebu_proto::{Acl, ErrorCode};

use super::client::{Client, Shared};
use super::compression::Compression;
use super::error::Error;
use super::retry::Retry;
use super::types::Version;
use crate::path;

/// Chores that wait; one more is logged and dropped.
const CHORE_LIMIT: usize = 10_000;

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Something to clean up. Paths are the server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    /// Remove one node, whatever its version.
    Delete(String),
    /// Remove a node with all that is below it.
    DeleteTree(String),
    /// Remove the children of a node whose names start like this.
    Sweep { parent: String, prefix: String },
}

#[derive(Debug, Default)]
struct State {
    chores: VecDeque<Chore>,
    task: Task,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Task {
    #[default]
    None,
    Runs,
    /// The client is over; what is left stays.
    Stopped,
}

/// The list of chores.
#[derive(Debug, Default)]
pub(crate) struct Janitor {
    state: Mutex<State>,
    idle: Notify,
}

impl Janitor {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is nothing left, but not for ever; says how much is left.
    pub(crate) async fn drain(&self, patience: Duration) -> usize {
        let wait = async {
            loop {
                let idle = self.idle.notified();
                if self.is_settled() {
                    return;
                }
                idle.await;
            }
        };
        // What is left after the patience is reported.
        let _ = tokio::time::timeout(patience, wait).await;
        self.lock().chores.len()
    }

    fn is_settled(&self) -> bool {
        let state = self.lock();
        state.chores.is_empty() || state.task == Task::Stopped
    }

    fn first(&self) -> Option<Chore> {
        let mut state = self.lock();
        let first = state.chores.front().cloned();
        if first.is_none() {
            state.task = Task::None;
        }
        first
    }

    fn stop(&self) {
        self.lock().task = Task::Stopped;
        self.idle.notify_waiters();
    }

    fn done(&self) {
        self.lock().chores.pop_front();
        self.idle.notify_waiters();
    }
}

/// What came of an attempt.
enum Progress {
    Done,
    Again,
    /// The client is over.
    Never,
}

impl Client {
    /// Leaves a chore to the janitor. May be called where nothing can be awaited.
    pub(crate) fn clean_up(&self, chore: Chore) {
        let janitor = &self.shared.janitor;
        let mut state = janitor.lock();
        if state.chores.contains(&chore) {
            return;
        }
        if state.chores.len() >= CHORE_LIMIT {
            tracing::error!(?chore, "too much to clean up; this is left to an operator");
            return;
        }
        state.chores.push_back(chore);
        if state.task == Task::None {
            state.task = Task::Runs;
            self.shared.runtime.spawn(run(Arc::downgrade(&self.shared)));
        }
    }

    async fn attempt_chore(&self, chore: &Chore) -> Progress {
        let result = match chore {
            Chore::Delete(path) => self.delete(path).version(Version::Any).quiet().retry(Retry::Never).await,
            Chore::DeleteTree(path) => self.delete(path).recursive().quiet().retry(Retry::Never).await,
            Chore::Sweep { parent, prefix } => self.sweep(parent, prefix).await,
        };
        match result {
            Ok(()) => Progress::Done,
            Err(error) if error.is_final() => Progress::Never,
            Err(error) if was_not_tried(&error) => Progress::Again,
            Err(error) => {
                tracing::warn!(%error, "could not clean up");
                Progress::Done
            }
        }
    }

    async fn sweep(&self, parent: &str, prefix: &str) -> Result<(), Error> {
        for name in self.find_protected(parent, prefix).await? {
            self.delete(&path::join(parent, &name)).quiet().retry(Retry::Never).await?;
        }
        Ok(())
    }

    /// The names below `parent` that start like this, on a server that has caught up. A missing parent has
    /// none.
    pub(crate) async fn find_protected(&self, parent: &str, prefix: &str) -> Result<Vec<String>, Error> {
        // Without the sync a server that lags would not show a node that was created through another one.
        let synced = self.sync(parent).retry(Retry::Never).send();
        let listed = self.children(parent).retry(Retry::Never).send();
        synced.await?;
        match listed.await {
            Ok(children) => Ok(children.names.into_iter().filter(|name| name.starts_with(prefix)).collect()),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// Whether another attempt may end differently: no answer came, or the server says that it did not look at the request.
pub(crate) fn was_not_tried(error: &Error) -> bool {
    match error.code() {
        Some(code) => matches!(code, ErrorCode::ThrottledOp | ErrorCode::NotReadOnly),
        None => error.is_ambiguous() || error.is_not_sent(),
    }
}

async fn run(shared: Weak<Shared>) {
    let mut pause = Duration::ZERO;
    loop {
        tokio::time::sleep(pause).await;
        let Some(shared) = shared.upgrade() else { return };
        let Some(chore) = shared.janitor.first() else { return };
        let client = Client {
            shared: shared.clone(),
            root: "".into(),
            retry: Arc::new(Retry::Never),
            acl: Acl::open().into(),
            compression: Compression::None,
        };
        pause = match client.attempt_chore(&chore).await {
            Progress::Done => {
                shared.janitor.done();
                Duration::ZERO
            }
            Progress::Again => (pause * 2).clamp(Duration::from_millis(50), PAUSE_MAX),
            Progress::Never => return shared.janitor.stop(),
        };
    }
}
