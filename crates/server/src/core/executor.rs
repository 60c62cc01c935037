//! The core slot and its scheduling: decides which thread runs a round of the core.
//!
//! A thread that brings few events runs the round itself if the slot is free. That is cheaper and
//! faster than to wake the core thread.
//! The core thread runs all other rounds: for many events, for events that came during a round, and
//! for timers.

use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::clock::Clock;
use crate::core::inbox::CoreInbox;
use crate::sync::{AtomicI64, AtomicUsize, Mutex};

/// Longest sleep of the core thread, so that a clock that jumps cannot make it oversleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Most events, with transactions in flight, that the submitting thread handles itself. Larger
/// rounds are cheaper on the core thread, in one batch.
const INLINE_EVENTS_MAX: usize = 4;

/// A core that runs in rounds.
pub(crate) trait CoreTask {
    /// The result of the core's end.
    type Exit;

    /// Does all work that is due.
    fn run_round(&mut self) -> RoundOutcome<Self::Exit>;
}

/// How the executor goes on after a round.
#[derive(Debug)]
pub(crate) enum RoundOutcome<Exit> {
    /// Run the next round at this monotonic time or earlier. `in_flight` counts pending
    /// transactions.
    Continue { next_at_ms: i64, in_flight: usize },
    /// The core has ended.
    Finished(Exit),
}

/// Owns the core and runs its rounds.
pub(crate) struct CoreExecutor<Core: CoreTask> {
    slot: Mutex<CoreSlot<Core>>,
    /// Transactions in flight after the last round.
    in_flight: AtomicUsize,
    /// Monotonic time in ms at which the core thread wakes.
    sleeping_until_ms: AtomicI64,
}

enum CoreSlot<Core: CoreTask> {
    /// Not installed yet, or ended.
    Empty,
    Occupied(Core),
    /// Ended; the core thread has yet to return the result.
    Finished(Core::Exit),
}

impl<Core: CoreTask> fmt::Debug for CoreExecutor<Core> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreExecutor").finish_non_exhaustive()
    }
}

impl<Core: CoreTask> Default for CoreExecutor<Core> {
    fn default() -> CoreExecutor<Core> {
        CoreExecutor {
            slot: Mutex::new(CoreSlot::Empty),
            in_flight: AtomicUsize::new(0),
            sleeping_until_ms: AtomicI64::new(0),
        }
    }
}

impl<Core: CoreTask> CoreExecutor<Core> {
    pub(crate) fn install(&self, core: Core) {
        self.set_slot(CoreSlot::Occupied(core));
    }

    /// Runs a round for `amount` submitted events, or wakes the core thread. The caller holds no
    /// lock.
    pub(crate) fn run_or_wake(&self, inbox: &CoreInbox, amount: usize) {
        if amount + self.in_flight.load(Ordering::Relaxed) > INLINE_EVENTS_MAX {
            return inbox.wake();
        }
        // The running thread checks the inbox again after its round. If it panicked, the core
        // thread notices.
        let Ok(mut slot) = self.slot.try_lock() else { return };
        let wake_on_panic = WakeOnPanic(inbox);
        let next_ms = self.run_round(&mut slot);
        drop(slot);
        drop(wake_on_panic);
        match next_ms {
            Some(next_ms) if next_ms >= self.sleeping_until_ms.load(Ordering::Acquire) => {
                if inbox.is_due() {
                    inbox.wake();
                }
            }
            // The core thread sleeps too long, or must return the result.
            Some(_) | None => inbox.force_wake(),
        }
    }

    /// Runs the core thread until the core ends.
    ///
    /// # Panics
    /// If a round panicked, on any thread.
    pub(crate) fn run_thread(&self, inbox: &CoreInbox, clock: &Clock) -> Core::Exit {
        let _clear_on_exit = ClearOnExit(self);
        loop {
            let Ok(mut slot) = self.slot.lock() else {
                panic!("a round of the core failed on another thread")
            };
            let Some(next_ms) = self.run_round(&mut slot) else {
                match std::mem::replace(&mut *slot, CoreSlot::Empty) {
                    CoreSlot::Finished(how) => return how,
                    CoreSlot::Empty | CoreSlot::Occupied(_) => {
                        unreachable!("only this thread empties the slot")
                    }
                }
            };
            let sleep = clock.duration_until(next_ms).min(SLEEP_MAX);
            let until_ms = clock.monotonic_ms() + sleep.as_millis() as i64;
            self.sleeping_until_ms.store(until_ms, Ordering::Release);
            drop(slot);
            inbox.wait(sleep);
        }
    }

    /// Runs a round and returns the time of the next one, or `None` if the core has ended.
    fn run_round(&self, slot: &mut CoreSlot<Core>) -> Option<i64> {
        let CoreSlot::Occupied(core) = slot else { return None };
        match core.run_round() {
            RoundOutcome::Continue { next_at_ms: at_ms, in_flight } => {
                self.in_flight.store(in_flight, Ordering::Relaxed);
                Some(at_ms)
            }
            RoundOutcome::Finished(how) => {
                *slot = CoreSlot::Finished(how);
                None
            }
        }
    }

    fn set_slot(&self, slot: CoreSlot<Core>) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = slot;
    }
}

/// Wakes the core thread if a round panics.
struct WakeOnPanic<'a>(&'a CoreInbox);

impl Drop for WakeOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.force_wake();
        }
    }
}

/// Drops the core when its thread ends, also by a panic, so that no caller waits for it.
struct ClearOnExit<'a, Core: CoreTask>(&'a CoreExecutor<Core>);

impl<Core: CoreTask> Drop for ClearOnExit<'_, Core> {
    fn drop(&mut self) {
        self.0.set_slot(CoreSlot::Empty);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::{JoinHandle, ThreadId, current};

    use super::*;
    use crate::core::inbox::InboxBatch;

    const FAR_MS: i64 = i64::MAX;

    /// A core that reports the thread of each round and follows a script.
    struct ScriptedCore {
        inbox: Arc<CoreInbox>,
        rounds: Sender<ThreadId>,
        script: Receiver<ScriptStep>,
    }

    enum ScriptStep {
        Wait { begun: Sender<()>, until: Receiver<()> },
        Continue { at_ms: i64, in_flight: usize },
        Finish,
        Panic,
    }

    impl CoreTask for ScriptedCore {
        type Exit = &'static str;

        fn run_round(&mut self) -> RoundOutcome<&'static str> {
            self.inbox.drain_into(&mut InboxBatch::default());
            let order = self.script.try_recv();
            if let Ok(ScriptStep::Wait { begun, until }) = &order {
                begun.send(()).unwrap();
                until.recv().unwrap();
            }
            self.rounds.send(current().id()).unwrap();
            match order {
                Ok(ScriptStep::Continue { at_ms, in_flight }) => {
                    RoundOutcome::Continue { next_at_ms: at_ms, in_flight }
                }
                Ok(ScriptStep::Finish) => RoundOutcome::Finished("as asked"),
                Ok(ScriptStep::Panic) => panic!("as asked"),
                Ok(ScriptStep::Wait { .. }) | Err(_) => {
                    RoundOutcome::Continue { next_at_ms: FAR_MS, in_flight: 0 }
                }
            }
        }
    }

    #[derive(Clone)]
    struct ExecutorFixture {
        inbox: Arc<CoreInbox>,
        executor: Arc<CoreExecutor<ScriptedCore>>,
    }

    impl ExecutorFixture {
        /// Submits an event and runs or wakes the core.
        fn submit(&self, amount: usize) {
            self.inbox.push_without_wake(|_| ());
            self.executor.run_or_wake(&self.inbox, amount);
        }

        fn start_thread(&self) -> JoinHandle<&'static str> {
            let ExecutorFixture { inbox, executor } = self.clone();
            std::thread::spawn(move || executor.run_thread(&inbox, &Clock::start()))
        }
    }

    /// A fixture with an installed core; its thread sleeps for long.
    fn fixture() -> (ExecutorFixture, Receiver<ThreadId>, Sender<ScriptStep>) {
        let fixture = ExecutorFixture { inbox: Arc::new(CoreInbox::new(1, 1)), executor: Arc::default() };
        let ((told, rounds), (orders, script)) = (channel(), channel());
        fixture.executor.install(ScriptedCore { inbox: fixture.inbox.clone(), rounds: told, script });
        fixture.executor.sleeping_until_ms.store(1000, Ordering::Relaxed);
        (fixture, rounds, orders)
    }

    #[test]
    fn who_brings_a_little_does_the_round() {
        let (fixture, rounds, _orders) = fixture();
        fixture.submit(1);
        assert_eq!(rounds.try_recv(), Ok(current().id()));
        assert!(!fixture.inbox.is_due());
    }

    #[test]
    fn much_is_left_to_the_thread() {
        let (fixture, rounds, orders) = fixture();
        fixture.submit(INLINE_EVENTS_MAX + 1);
        assert!(rounds.try_recv().is_err() && fixture.inbox.is_due());
        orders.send(ScriptStep::Continue { at_ms: FAR_MS, in_flight: INLINE_EVENTS_MAX }).unwrap();
        fixture.submit(1);
        assert!(rounds.try_recv().is_ok() && !fixture.inbox.is_due());
        fixture.submit(1);
        assert!(rounds.try_recv().is_err() && fixture.inbox.is_due(), "much is on its way");
    }

    #[test]
    fn what_comes_during_a_round_is_left_to_the_thread() {
        let (fixture, rounds, orders) = fixture();
        let ((begun, begins), (go, until)) = (channel(), channel());
        orders.send(ScriptStep::Wait { begun, until }).unwrap();
        let first = std::thread::spawn({
            let fixture = fixture.clone();
            move || fixture.submit(1)
        });
        begins.recv().unwrap();
        fixture.submit(1);
        assert!(rounds.try_recv().is_err(), "somebody sits there");
        go.send(()).unwrap();
        let id = first.thread().id();
        first.join().unwrap();
        assert_eq!(rounds.try_iter().collect::<Vec<_>>(), [id]);
        assert!(fixture.inbox.is_due());
        orders.send(ScriptStep::Finish).unwrap();
        assert_eq!(fixture.start_thread().join().unwrap(), "as asked");
    }

    #[test]
    fn the_thread_hears_of_a_nearer_deadline() {
        let (fixture, _rounds, orders) = fixture();
        for (at_ms, looks) in [(1000, false), (999, true)] {
            orders.send(ScriptStep::Continue { at_ms, in_flight: 0 }).unwrap();
            fixture.submit(1);
            assert_eq!(fixture.inbox.is_due(), looks);
        }
    }

    #[test]
    fn the_thread_tells_how_the_core_has_ended() {
        let (fixture, rounds, orders) = fixture();
        let thread = fixture.start_thread();
        rounds.recv().unwrap();
        orders.send(ScriptStep::Finish).unwrap();
        fixture.submit(1);
        assert_eq!(thread.join().unwrap(), "as asked");
        assert!(orders.send(ScriptStep::Finish).is_err(), "the core is gone, and what it holds");
    }

    #[test]
    fn a_round_that_fails_ends_the_thread() {
        for amount in [1, INLINE_EVENTS_MAX + 1] {
            let (fixture, rounds, orders) = fixture();
            let thread = fixture.start_thread();
            rounds.recv().unwrap();
            orders.send(ScriptStep::Panic).unwrap();
            // Only the thread that runs the round panics.
            let bringing = std::thread::spawn({
                let fixture = fixture.clone();
                move || fixture.submit(amount)
            });
            assert!(bringing.join().is_ok() || amount == 1);
            assert!(thread.join().is_err());
            assert!(orders.send(ScriptStep::Finish).is_err(), "the core is gone, and what it holds");
            fixture.submit(1);
        }
    }
}
