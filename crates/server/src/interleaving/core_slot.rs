//! The core slot and the inbox: every event gets a round, every deadline and the end of the core reach
//! the core thread.

use std::sync::Arc;

use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;

use super::explore;
use crate::clock::Clock;
use crate::core::executor::{CoreExecutor, CoreTask, RoundOutcome};
use crate::core::inbox::{ControlEvent, CoreInbox, InboxBatch};

const FAR_MS: i64 = i64::MAX;

/// More events than a submitting thread handles itself.
const MANY: usize = 100;

/// The work of a core that its test waits for.
#[derive(Debug, Default)]
struct CoreProgress {
    done: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl CoreProgress {
    fn add(&self, events: usize, timers: usize) {
        let mut done = self.done.lock().unwrap();
        done.0 += events;
        done.1 += timers;
        drop(done);
        self.changed.notify_one();
    }

    /// Waits for this many events and fired timers.
    fn wait_for(&self, events: usize, timers: usize) {
        let mut done = self.done.lock().unwrap();
        while *done != (events, timers) {
            done = self.changed.wait(done).unwrap();
        }
    }
}

/// Counts events. `Abort` sets a timer, which fires in the next round; `Stop` ends the core.
struct CountingCore {
    inbox: Arc<CoreInbox>,
    timer_set: bool,
    progress: Arc<CoreProgress>,
}

impl CoreTask for CountingCore {
    type Exit = &'static str;

    fn run_round(&mut self) -> RoundOutcome<&'static str> {
        let mut batch = InboxBatch::default();
        self.inbox.drain_into(&mut batch);
        let timers = usize::from(std::mem::take(&mut self.timer_set));
        self.progress.add(batch.control_events.len(), timers);
        for event in batch.control_events {
            match event {
                ControlEvent::Abort => self.timer_set = true,
                ControlEvent::Stop => return RoundOutcome::Finished("as asked"),
                _ => {}
            }
        }
        // A deadline before the start of the clock is always due.
        let next_at_ms = if self.timer_set { -1 } else { FAR_MS };
        RoundOutcome::Continue { next_at_ms, in_flight: 0 }
    }
}

struct CountingServer {
    inbox: Arc<CoreInbox>,
    executor: Arc<CoreExecutor<CountingCore>>,
    progress: Arc<CoreProgress>,
    core_thread: thread::JoinHandle<&'static str>,
}

impl CountingServer {
    fn start() -> CountingServer {
        let inbox = Arc::new(CoreInbox::new(1, 1));
        let executor = Arc::new(CoreExecutor::default());
        let progress = Arc::new(CoreProgress::default());
        let core = CountingCore { inbox: inbox.clone(), timer_set: false, progress: progress.clone() };
        executor.install(core);
        let core_thread = thread::spawn({
            let (inbox, executor) = (inbox.clone(), executor.clone());
            move || executor.run_thread(&inbox, &Clock::start())
        });
        CountingServer { inbox, executor, progress, core_thread }
    }

    /// Starts a thread that submits events and says that it brings `amount` with each.
    fn submit(
        &self,
        events: impl IntoIterator<Item = ControlEvent, IntoIter: Send> + Send + 'static,
        amount: usize,
    ) -> thread::JoinHandle<()> {
        let (inbox, executor) = (self.inbox.clone(), self.executor.clone());
        thread::spawn(move || {
            for event in events {
                inbox.push_without_wake(|batch| batch.control_events.push(event));
                executor.run_or_wake(&inbox, amount);
            }
        })
    }
}

/// An event without an effect.
fn event() -> ControlEvent {
    ControlEvent::GetStatus(tokio::sync::oneshot::channel().0)
}

/// A submitter that finds the slot taken leaves its event to the thread that has it.
#[test]
fn an_event_in_the_inbox_always_gets_a_round() {
    explore(1000, || {
        let server = CountingServer::start();
        let submitters = [server.submit([event(), event()], 1), server.submit([event()], 1)];
        server.progress.wait_for(3, 0);
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        server.submit([ControlEvent::Stop], 1).join().unwrap();
        assert_eq!(server.core_thread.join().unwrap(), "as asked");
    });
}

/// A submitter that brings much leaves the round to the core thread, also while that runs one.
#[test]
fn many_events_always_get_a_round_of_the_core_thread() {
    explore(500, || {
        let server = CountingServer::start();
        let submitters = [server.submit([event(), event()], MANY), server.submit([event()], 1)];
        server.progress.wait_for(3, 0);
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        server.submit([ControlEvent::Stop], MANY).join().unwrap();
        assert_eq!(server.core_thread.join().unwrap(), "as asked");
    });
}

/// The round that sets the timer may run on a submitter, and no event follows it.
#[test]
fn a_deadline_of_any_round_reaches_the_core_thread() {
    explore(300, || {
        let server = CountingServer::start();
        let submitter = server.submit([ControlEvent::Abort], 1);
        server.progress.wait_for(1, 1);
        submitter.join().unwrap();
        server.submit([ControlEvent::Stop], 1).join().unwrap();
        assert_eq!(server.core_thread.join().unwrap(), "as asked");
    });
}
