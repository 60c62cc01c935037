//! The bell of a connection: whoever has done something to its lane rings, and its task looks.
//!
//! It has no lock of its own: it lies beside the lane, and who rings has that locked anyway. Rung once is rung, however
//! often: the task looks at everything then.

use std::task::{Context, Poll, Waker};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Tone {
    #[default]
    Silent,
    /// Rung, and nobody has heard it yet.
    Rung,
}

/// One task at most listens to it.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    tone: Tone,
    listener: Option<Waker>,
}

impl Bell {
    /// Rings. The waker is for the caller to use when it has no lock any more.
    #[must_use = "the task is not woken here"]
    pub(crate) fn ring(&mut self) -> Option<Waker> {
        self.tone = Tone::Rung;
        self.listener.take()
    }

    /// Ready if it was rung since it was heard last. Otherwise the task is woken by the next ring.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.tone) == Tone::Rung {
            return Poll::Ready(());
        }
        match &mut self.listener {
            Some(listener) => listener.clone_from(context.waker()),
            listener => *listener = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Nobody listens any more. A waker that stays would keep the memory of its task.
    pub(crate) fn leave(&mut self) {
        self.listener = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn ring(bell: &mut Bell) {
        bell.ring().into_iter().for_each(Waker::wake);
    }

    #[test]
    fn every_ring_is_heard() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let mut bell = Bell::default();
        ring(&mut bell);
        assert!(bell.poll(&mut context).is_ready(), "rung before anybody listened");
        for times in 1..=3 {
            assert!(bell.poll(&mut context).is_pending());
            assert!(bell.poll(&mut context).is_pending(), "woken for something else");
            ring(&mut bell);
            ring(&mut bell);
            assert_eq!(woken.0.load(Ordering::Relaxed), times);
            assert!(bell.poll(&mut context).is_ready());
        }
        assert!(bell.poll(&mut context).is_pending());
        bell.leave();
        drop(waker);
        assert_eq!(Arc::strong_count(&woken), 1);
    }

    #[test]
    fn the_last_who_listened_is_woken() {
        let (first, second) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        let mut bell = Bell::default();
        for woken in [&first, &second] {
            assert!(bell.poll(&mut Context::from_waker(&Waker::from(woken.clone()))).is_pending());
        }
        ring(&mut bell);
        assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (0, 1));
    }
}
