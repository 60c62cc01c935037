//! Panics in tasks that serve one peer. A panic closes the connection of its task with an ERROR
//! line; other connections are not affected. The panic of a listener ends the process; see
//! `panic_guard.rs`.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use tracing::error;

/// The task has panicked. The panic hook has printed the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskPanicked;

/// Logs a panic and closes the connection. Lives as long as the work for the connection.
pub(super) struct CloseOnPanic<Close: FnOnce()> {
    task: &'static str,
    close: Option<Close>,
}

impl<Close: FnOnce()> CloseOnPanic<Close> {
    pub(super) fn new(task: &'static str, close: Close) -> CloseOnPanic<Close> {
        CloseOnPanic { task, close: Some(close) }
    }
}

impl<Close: FnOnce()> Drop for CloseOnPanic<Close> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(close) = self.close.take()
        {
            error!(task = self.task, "a task of a peer connection panicked; the connection is closed");
            close();
        }
    }
}

/// Runs the task of one connection; `close` is called if it panics.
pub(super) async fn close_on_panic<T>(
    name: &'static str,
    close: impl FnOnce(),
    task: impl Future<Output = T>,
) -> T {
    let _guard = CloseOnPanic::new(name, close);
    task.await
}

/// Runs a task and returns its panic as an error. The connections that the task owned are closed by then.
pub(super) async fn catch_panic<T>(
    name: &'static str,
    task: impl Future<Output = T>,
) -> Result<T, TaskPanicked> {
    let mut task = pin!(task);
    // The task is dropped after a panic and never polled again.
    let caught = poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
        Err(_) => Poll::Ready(Err(TaskPanicked)),
    });
    caught.await.inspect_err(|TaskPanicked| {
        error!(task = name, "a task of a peer connection panicked; the connection is closed");
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[tokio::test]
    async fn a_panic_closes_the_connection_and_an_end_does_not() {
        let closed = Arc::new(AtomicUsize::new(0));
        let close = || {
            let closed = closed.clone();
            move || {
                closed.fetch_add(1, Relaxed);
            }
        };
        tokio::spawn(close_on_panic("a link", close(), async {})).await.unwrap();
        assert_eq!(closed.load(Relaxed), 0);
        let panics = async {
            tokio::task::yield_now().await;
            panic!("as asked");
        };
        assert!(tokio::spawn(close_on_panic("a link", close(), panics)).await.is_err());
        assert_eq!(closed.load(Relaxed), 1);
    }

    #[tokio::test]
    async fn a_panic_is_caught_and_the_task_is_dropped() {
        let owned = Arc::new(());
        let task = |fails: bool| {
            let owned = owned.clone();
            async move {
                tokio::task::yield_now().await;
                assert!(!fails, "as asked");
                drop(owned);
            }
        };
        assert_eq!(catch_panic("an election connection", task(false)).await, Ok(()));
        assert_eq!(catch_panic("an election connection", task(true)).await, Err(TaskPanicked));
        assert_eq!(Arc::strong_count(&owned), 1);
    }
}
