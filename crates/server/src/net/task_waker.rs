//! Wakes the task of a connection when another thread changed the connection.
//!
//! It has no lock of its own: the lock of the connection protects it. Several signals before a poll
//! count as one, because the task then checks everything.

use std::task::{Context, Poll, Waker};

/// The wake flag and the waker of at most one task.
#[derive(Debug, Default)]
pub(crate) struct TaskWaker {
    /// Signalled and not polled since.
    is_signalled: bool,
    waker: Option<Waker>,
}

impl TaskWaker {
    /// Sets the flag. The caller wakes the returned waker after it has released its locks.
    #[must_use = "the task is not woken here"]
    pub(crate) fn signal(&mut self) -> Option<Waker> {
        self.is_signalled = true;
        self.waker.take()
    }

    /// Ready if signalled since the last time this was ready. Otherwise the next signal wakes the
    /// task.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.is_signalled) {
            return Poll::Ready(());
        }
        match &mut self.waker {
            Some(listener) => listener.clone_from(context.waker()),
            listener => *listener = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Forgets the waker, which would keep the memory of its task.
    pub(crate) fn clear(&mut self) {
        self.waker = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct CountingWake(AtomicUsize);

    impl Wake for CountingWake {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn signal_and_wake(task_waker: &mut TaskWaker) {
        task_waker.signal().into_iter().for_each(Waker::wake);
    }

    #[test]
    fn every_ring_is_heard() {
        let woken = Arc::new(CountingWake::default());
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let mut task_waker = TaskWaker::default();
        signal_and_wake(&mut task_waker);
        assert!(task_waker.poll(&mut context).is_ready(), "rung before anybody listened");
        for times in 1..=3 {
            assert!(task_waker.poll(&mut context).is_pending());
            assert!(task_waker.poll(&mut context).is_pending(), "woken for something else");
            signal_and_wake(&mut task_waker);
            signal_and_wake(&mut task_waker);
            assert_eq!(woken.0.load(Ordering::Relaxed), times);
            assert!(task_waker.poll(&mut context).is_ready());
        }
        assert!(task_waker.poll(&mut context).is_pending());
        task_waker.clear();
        drop(waker);
        assert_eq!(Arc::strong_count(&woken), 1);
    }

    #[test]
    fn the_last_who_listened_is_woken() {
        let (first, second) = (Arc::new(CountingWake::default()), Arc::new(CountingWake::default()));
        let mut task_waker = TaskWaker::default();
        for woken in [&first, &second] {
            assert!(task_waker.poll(&mut Context::from_waker(&Waker::from(woken.clone()))).is_pending());
        }
        signal_and_wake(&mut task_waker);
        assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (0, 1));
    }
}
