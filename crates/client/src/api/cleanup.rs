//! Background clean-up: guaranteed deletes, and protected creates with an unknown outcome. There is one task
//! per client, only while the queue has entries. The task does not keep a client alive.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use zebu_proto::client::Freshness;
use zebu_proto::{Acl, ErrorCode};

use super::client::{Client, ClientShared};
use super::compression::Compression;
use super::error::Error;
use super::retry::Retry;
use super::types::Version;
use crate::path;

/// The limit of queued tasks; further ones are logged and dropped.
const TASKS_MAX: usize = 10_000;

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// One task. Paths are those of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CleanupTask {
    /// Deletes one node of any version.
    Delete(String),
    /// Deletes a node with all its descendants.
    DeleteTree(String),
    /// Deletes the children of a node whose names have this prefix.
    DeleteByPrefix { parent: String, prefix: String },
}

#[derive(Debug, Default)]
struct CleanupState {
    tasks: VecDeque<CleanupTask>,
    worker: Worker,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Worker {
    #[default]
    Idle,
    Running,
    /// The client is closed; the remaining tasks stay undone.
    Stopped,
}

/// The queue of clean-up tasks.
#[derive(Debug, Default)]
pub(crate) struct CleanupQueue {
    state: Mutex<CleanupState>,
    changed: Notify,
}

impl CleanupQueue {
    fn lock(&self) -> MutexGuard<'_, CleanupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the queue is empty, up to the timeout. Returns the number of remaining tasks.
    pub(crate) async fn drain(&self, timeout: Duration) -> usize {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                if self.is_idle() {
                    return;
                }
                changed.await;
            }
        };
        // The caller reports the tasks that remain after the timeout.
        let _ = tokio::time::timeout(timeout, wait).await;
        self.lock().tasks.len()
    }

    fn is_idle(&self) -> bool {
        let state = self.lock();
        state.tasks.is_empty() || state.worker == Worker::Stopped
    }

    fn next_task(&self) -> Option<CleanupTask> {
        let mut state = self.lock();
        let first = state.tasks.front().cloned();
        if first.is_none() {
            state.worker = Worker::Idle;
        }
        first
    }

    fn stop(&self) {
        self.lock().worker = Worker::Stopped;
        self.changed.notify_waiters();
    }

    fn remove_first(&self) {
        self.lock().tasks.pop_front();
        self.changed.notify_waiters();
    }
}

/// The outcome of one attempt.
enum CleanupOutcome {
    Done,
    Retry,
    ClientClosed,
}

/// Removes the children of a node whose names have a prefix, in the background, unless it is disarmed.
///
/// Made by [`Client::cleanup_guard`] before a create is sent. Dropped with an unknown outcome of the create,
/// it leaves the removal to the client.
#[must_use = "dropping it removes the nodes"]
pub struct CleanupGuard {
    client: Client,
    task: Option<CleanupTask>,
}

impl CleanupGuard {
    pub(crate) fn new(client: &Client, task: CleanupTask) -> CleanupGuard {
        CleanupGuard { client: client.clone(), task: Some(task) }
    }

    /// The outcome is known: nothing is removed.
    pub fn disarm(mut self) {
        self.task = None;
    }
}

impl std::fmt::Debug for CleanupGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CleanupGuard").field("task", &self.task).finish_non_exhaustive()
    }
}

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            self.client.schedule_cleanup(task);
        }
    }
}

impl Client {
    /// Guards a create with a unique name: unless the guard is disarmed, dropping it removes every child of
    /// `parent` whose name starts with `prefix`. The removal is repeated until a server answers;
    /// [`Client::close`] waits for it.
    ///
    /// [`Create::protected`](super::Create::protected) does this by itself. The guard is for nodes that a
    /// transaction creates.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.create("/members").await?;
    /// use zebu_client::CreateSpec;
    ///
    /// let guard = client.cleanup_guard("/members", "host-7");
    /// let mut transaction = client.transaction();
    /// transaction.create("/members/host-7", CreateSpec::new());
    /// transaction.await?;
    /// guard.disarm();
    /// # Ok(()) });
    /// ```
    pub fn cleanup_guard(&self, parent: &str, prefix: &str) -> CleanupGuard {
        let task = CleanupTask::DeleteByPrefix { parent: self.full_path(parent), prefix: prefix.to_owned() };
        CleanupGuard::new(self, task)
    }

    /// Queues a task. It may be called outside of async code.
    pub(crate) fn schedule_cleanup(&self, task: CleanupTask) {
        let cleanup = &self.shared.cleanup;
        let mut state = cleanup.lock();
        if state.tasks.contains(&task) {
            return;
        }
        if state.tasks.len() >= TASKS_MAX {
            tracing::error!(?task, "clean-up queue is full; remove the node manually");
            return;
        }
        state.tasks.push_back(task);
        if state.worker == Worker::Idle {
            state.worker = Worker::Running;
            self.shared.runtime.spawn(run(Arc::downgrade(&self.shared)));
        }
    }

    async fn run_cleanup_task(&self, task: &CleanupTask) -> CleanupOutcome {
        let result = match task {
            CleanupTask::Delete(path) => {
                self.delete(path).version(Version::Any).quiet().retry(Retry::Never).await
            }
            CleanupTask::DeleteTree(path) => self.delete(path).recursive().quiet().retry(Retry::Never).await,
            CleanupTask::DeleteByPrefix { parent, prefix } => self.delete_by_prefix(parent, prefix).await,
        };
        match result {
            Ok(()) => CleanupOutcome::Done,
            Err(error) if error.is_final() => CleanupOutcome::ClientClosed,
            Err(error) if may_succeed_later(&error) => CleanupOutcome::Retry,
            Err(error) => {
                tracing::warn!(%error, "clean-up failed");
                CleanupOutcome::Done
            }
        }
    }

    async fn delete_by_prefix(&self, parent: &str, prefix: &str) -> Result<(), Error> {
        for name in self.children_with_prefix(parent, prefix).await? {
            self.delete(&path::join(parent, &name)).quiet().retry(Retry::Never).await?;
        }
        Ok(())
    }

    /// The names below `parent` with this prefix, after a sync. A missing parent has none.
    pub(crate) async fn children_with_prefix(
        &self,
        parent: &str,
        prefix: &str,
    ) -> Result<Vec<String>, Error> {
        // Without the sync, a lagging server would not show a node that was created through another server.
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

/// Whether another attempt may succeed: no reply came, or the server did not process the request.
pub(crate) fn may_succeed_later(error: &Error) -> bool {
    match error.code() {
        Some(code) => matches!(code, ErrorCode::ThrottledOp | ErrorCode::NotReadOnly),
        None => error.is_ambiguous() || error.is_not_sent(),
    }
}

async fn run(shared: Weak<ClientShared>) {
    let mut pause = Duration::ZERO;
    loop {
        tokio::time::sleep(pause).await;
        let Some(shared) = shared.upgrade() else { return };
        let Some(task) = shared.cleanup.next_task() else { return };
        let client = Client {
            shared: shared.clone(),
            root: "".into(),
            retry: Arc::new(Retry::Never),
            acl: Acl::open().into(),
            compression: Compression::None,
            reads: Freshness::default(),
        };
        pause = match client.run_cleanup_task(&task).await {
            CleanupOutcome::Done => {
                shared.cleanup.remove_first();
                Duration::ZERO
            }
            CleanupOutcome::Retry => (pause * 2).clamp(Duration::from_millis(50), PAUSE_MAX),
            CleanupOutcome::ClientClosed => return shared.cleanup.stop(),
        };
    }
}
