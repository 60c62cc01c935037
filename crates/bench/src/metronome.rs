//! The beat of a fixed rate. Timers of the runtime are late by up to a millisecond, which would be in every
//! latency; a thread that sleeps by itself is late by some fifty microseconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Wakes the sessions in turn, one each `step` from `start` on, until `until`.
pub(crate) fn start_metronome(sessions: Vec<Arc<Notify>>, start: Instant, step: Duration, until: Instant) {
    std::thread::spawn(move || {
        let mut due = start;
        for session in sessions.iter().cycle() {
            if due >= until {
                return;
            }
            let left = due.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                std::thread::sleep(left);
            }
            session.notify_one();
            due += step;
        }
    });
}
