//! The seat of the core. There is one, and whoever brings a little for the core sits down for a round if it is free: to
//! wake the core's own thread takes more of the processor, and longer, than such a round. The thread does the rest:
//! much at a time, what came while somebody sat there, and what is due by the clock.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Clock;
use crate::inbox::Inbox;

/// How long the thread sleeps at most, so that a clock that jumps cannot make it oversleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// The most, with what is on its way already, that is looked at by the one who brings it: he has other things to do, and
/// where there is more, it is better done together.
const LITTLE: usize = 4;

/// What is done in rounds.
pub(crate) trait Rounds {
    /// How it ends.
    type End;

    /// Does everything that there is to do now.
    fn round(&mut self) -> Next<Self::End>;
}

/// What follows a round.
#[derive(Debug)]
pub(crate) enum Next<End> {
    /// The next one, at this time of the monotonic clock if nothing happens before; so much is on its way.
    Round { at_ms: i64, in_flight: usize },
    /// Nothing.
    End(End),
}

/// Where the core is.
pub(crate) struct CoreSeat<Core: Rounds> {
    seat: Mutex<Seat<Core>>,
    /// What was on its way after the last round.
    in_flight: AtomicUsize,
    /// Until when the thread sleeps.
    sleeps_until_ms: AtomicI64,
}

enum Seat<Core: Rounds> {
    /// Not there yet, or gone.
    Empty,
    Core(Core),
    /// It has ended; the thread has to hear how.
    Ended(Core::End),
}

impl<Core: Rounds> fmt::Debug for CoreSeat<Core> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreSeat").finish_non_exhaustive()
    }
}

impl<Core: Rounds> Default for CoreSeat<Core> {
    fn default() -> CoreSeat<Core> {
        CoreSeat {
            seat: Mutex::new(Seat::Empty),
            in_flight: AtomicUsize::new(0),
            sleeps_until_ms: AtomicI64::new(0),
        }
    }
}

impl<Core: Rounds> CoreSeat<Core> {
    pub(crate) fn place(&self, core: Core) {
        self.put(Seat::Core(core));
    }

    /// So much was put into the inbox: here or by somebody else, it is looked at now. The caller holds no lock.
    pub(crate) fn attend(&self, inbox: &Inbox, amount: usize) {
        if amount + self.in_flight.load(Ordering::Relaxed) > LITTLE {
            return inbox.call();
        }
        // Whoever sits there looks again when he has left. If he fell off, the thread knows.
        let Ok(mut seat) = self.seat.try_lock() else { return };
        let alarm = Alarm(inbox);
        let next_ms = self.round(&mut seat);
        drop(seat);
        drop(alarm);
        match next_ms {
            Some(next_ms) if next_ms >= self.sleeps_until_ms.load(Ordering::Acquire) => {
                if inbox.is_due() {
                    inbox.call();
                }
            }
            // The thread sleeps too long, or has to end.
            Some(_) | None => inbox.call_for_nothing(),
        }
    }

    /// The life of the core's thread.
    ///
    /// # Panics
    /// If a round did, on whatever thread.
    pub(crate) fn run(&self, inbox: &Inbox, clock: &Clock) -> Core::End {
        let _vacate = Vacate(self);
        loop {
            let Ok(mut seat) = self.seat.lock() else {
                panic!("a round of the core failed on another thread")
            };
            let Some(next_ms) = self.round(&mut seat) else {
                match std::mem::replace(&mut *seat, Seat::Empty) {
                    Seat::Ended(how) => return how,
                    Seat::Empty | Seat::Core(_) => unreachable!("only this thread empties the seat"),
                }
            };
            let sleep = clock.until(next_ms).min(SLEEP_MAX);
            let until_ms = clock.monotonic_ms() + sleep.as_millis() as i64;
            self.sleeps_until_ms.store(until_ms, Ordering::Release);
            drop(seat);
            inbox.wait(sleep);
        }
    }

    /// Does a round; returns when the next one is due. `None` if there is none.
    fn round(&self, seat: &mut Seat<Core>) -> Option<i64> {
        let Seat::Core(core) = seat else { return None };
        match core.round() {
            Next::Round { at_ms, in_flight } => {
                self.in_flight.store(in_flight, Ordering::Relaxed);
                Some(at_ms)
            }
            Next::End(how) => {
                *seat = Seat::Ended(how);
                None
            }
        }
    }

    fn put(&self, seat: Seat<Core>) {
        *self.seat.lock().unwrap_or_else(PoisonError::into_inner) = seat;
    }
}

/// Calls the thread if a round panics.
struct Alarm<'a>(&'a Inbox);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.call_for_nothing();
        }
    }
}

/// Nobody waits for a core that is gone: what it holds ends with it, however it ends.
struct Vacate<'a, Core: Rounds>(&'a CoreSeat<Core>);

impl<Core: Rounds> Drop for Vacate<'_, Core> {
    fn drop(&mut self) {
        self.0.put(Seat::Empty);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::{JoinHandle, ThreadId, current};

    use super::*;
    use crate::inbox::Delivery;

    const FAR_MS: i64 = i64::MAX;

    /// A core that tells who does its rounds, and does as it is told.
    struct Scripted {
        inbox: Arc<Inbox>,
        rounds: Sender<ThreadId>,
        orders: Receiver<Order>,
    }

    enum Order {
        Wait { begun: Sender<()>, until: Receiver<()> },
        ComeAgain { at_ms: i64, in_flight: usize },
        End,
        Panic,
    }

    impl Rounds for Scripted {
        type End = &'static str;

        fn round(&mut self) -> Next<&'static str> {
            self.inbox.take(&mut Delivery::default());
            let order = self.orders.try_recv();
            if let Ok(Order::Wait { begun, until }) = &order {
                begun.send(()).unwrap();
                until.recv().unwrap();
            }
            self.rounds.send(current().id()).unwrap();
            match order {
                Ok(Order::ComeAgain { at_ms, in_flight }) => Next::Round { at_ms, in_flight },
                Ok(Order::End) => Next::End("as asked"),
                Ok(Order::Panic) => panic!("as asked"),
                Ok(Order::Wait { .. }) | Err(_) => Next::Round { at_ms: FAR_MS, in_flight: 0 },
            }
        }
    }

    #[derive(Clone)]
    struct Place {
        inbox: Arc<Inbox>,
        seat: Arc<CoreSeat<Scripted>>,
    }

    impl Place {
        /// Puts something in and goes to the seat.
        fn bring(&self, amount: usize) {
            self.inbox.put(|_| ());
            self.seat.attend(&self.inbox, amount);
        }

        fn start_thread(&self) -> JoinHandle<&'static str> {
            let Place { inbox, seat } = self.clone();
            std::thread::spawn(move || seat.run(&inbox, &Clock::start()))
        }
    }

    /// The core sits there; its thread sleeps for long.
    fn placed() -> (Place, Receiver<ThreadId>, Sender<Order>) {
        let place = Place { inbox: Arc::new(Inbox::new(1)), seat: Arc::default() };
        let ((told, rounds), (orders, script)) = (channel(), channel());
        place.seat.place(Scripted { inbox: place.inbox.clone(), rounds: told, orders: script });
        place.seat.sleeps_until_ms.store(1000, Ordering::Relaxed);
        (place, rounds, orders)
    }

    #[test]
    fn who_brings_a_little_does_the_round() {
        let (place, rounds, _orders) = placed();
        place.bring(1);
        assert_eq!(rounds.try_recv(), Ok(current().id()));
        assert!(!place.inbox.is_due());
    }

    #[test]
    fn much_is_left_to_the_thread() {
        let (place, rounds, orders) = placed();
        place.bring(LITTLE + 1);
        assert!(rounds.try_recv().is_err() && place.inbox.is_due());
        orders.send(Order::ComeAgain { at_ms: FAR_MS, in_flight: LITTLE }).unwrap();
        place.bring(1);
        assert!(rounds.try_recv().is_ok() && !place.inbox.is_due());
        place.bring(1);
        assert!(rounds.try_recv().is_err() && place.inbox.is_due(), "much is on its way");
    }

    #[test]
    fn what_comes_during_a_round_is_left_to_the_thread() {
        let (place, rounds, orders) = placed();
        let ((begun, begins), (go, until)) = (channel(), channel());
        orders.send(Order::Wait { begun, until }).unwrap();
        let first = std::thread::spawn({
            let place = place.clone();
            move || place.bring(1)
        });
        begins.recv().unwrap();
        place.bring(1);
        assert!(rounds.try_recv().is_err(), "somebody sits there");
        go.send(()).unwrap();
        let id = first.thread().id();
        first.join().unwrap();
        assert_eq!(rounds.try_iter().collect::<Vec<_>>(), [id]);
        assert!(place.inbox.is_due());
        orders.send(Order::End).unwrap();
        assert_eq!(place.start_thread().join().unwrap(), "as asked");
    }

    #[test]
    fn the_thread_hears_of_a_nearer_deadline() {
        let (place, _rounds, orders) = placed();
        for (at_ms, looks) in [(1000, false), (999, true)] {
            orders.send(Order::ComeAgain { at_ms, in_flight: 0 }).unwrap();
            place.bring(1);
            assert_eq!(place.inbox.is_due(), looks);
        }
    }

    #[test]
    fn the_thread_tells_how_the_core_has_ended() {
        let (place, rounds, orders) = placed();
        let thread = place.start_thread();
        rounds.recv().unwrap();
        orders.send(Order::End).unwrap();
        place.bring(1);
        assert_eq!(thread.join().unwrap(), "as asked");
        assert!(orders.send(Order::End).is_err(), "the core is gone, and what it holds");
    }

    #[test]
    fn a_round_that_fails_ends_the_thread() {
        for amount in [1, LITTLE + 1] {
            let (place, rounds, orders) = placed();
            let thread = place.start_thread();
            rounds.recv().unwrap();
            orders.send(Order::Panic).unwrap();
            // Whoever does the round panics; nobody else does.
            let bringing = std::thread::spawn({
                let place = place.clone();
                move || place.bring(amount)
            });
            assert!(bringing.join().is_ok() || amount == 1);
            assert!(thread.join().is_err());
            assert!(orders.send(Order::End).is_err(), "the core is gone, and what it holds");
            place.bring(1);
        }
    }
}
