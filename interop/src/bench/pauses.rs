//! When the machine itself stands still: a thread per core that only looks at the clock, and is held up all
//! the same. No server can answer while its cores are elsewhere.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What counts as standing still.
const PAUSE: Duration = Duration::from_micros(500);

/// The pauses on all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pauses {
    /// The part of the time that was lost, on average over the cores.
    pub(crate) share: f64,
    pub(crate) longest_ms: f64,
}

/// Keeps all cores busy for so long.
pub(crate) fn measure(duration: Duration) -> Pauses {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let watchers: Vec<_> = (0..cores).map(|_| thread::spawn(move || watch(duration))).collect();
    let lost = watchers.into_iter().flat_map(|watcher| watcher.join().unwrap_or_default());
    Pauses::of(&lost.collect::<Vec<_>>(), duration * cores as u32)
}

fn watch(duration: Duration) -> Vec<Duration> {
    let (started, mut lost) = (Instant::now(), Vec::new());
    let mut last = started;
    while last.duration_since(started) < duration {
        let now = Instant::now();
        let step = now.duration_since(last);
        if step >= PAUSE {
            lost.push(step);
        }
        last = now;
    }
    lost
}

impl Pauses {
    fn of(lost: &[Duration], watched: Duration) -> Pauses {
        Pauses {
            share: lost.iter().sum::<Duration>().as_secs_f64() / watched.as_secs_f64(),
            longest_ms: lost.iter().max().map_or(0.0, |longest| longest.as_secs_f64() * 1e3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost() {
        let lost = [1, 3].map(Duration::from_millis);
        assert_eq!(Pauses::of(&lost, Duration::from_millis(400)), Pauses { share: 0.01, longest_ms: 3.0 });
        assert_eq!(Pauses::of(&[], Duration::from_secs(1)), Pauses::default());
    }
}
