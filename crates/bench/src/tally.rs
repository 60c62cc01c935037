//! What a session counts: latencies over the whole measurement, and again for each second of it.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Longer than any latency that is worth telling apart.
const LATENCY_MAX_US: u64 = 600_000_000;

/// Seconds of a measurement that are told apart; later ones are counted into the last.
const SECONDS_MAX: usize = 3_600;

#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) latency_us: Histogram<u64>,
    pub(crate) errors: u64,
    /// By the second in which a request was sent or, at a fixed rate, should have been sent.
    pub(crate) seconds: Vec<Histogram<u32>>,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        let latency_us = Histogram::new_with_max(LATENCY_MAX_US, 3).expect("the bounds are in range");
        Tally { latency_us, errors: 0, seconds: Vec::new() }
    }

    pub(crate) fn done(&self) -> u64 {
        self.latency_us.len()
    }

    /// A reply that came `now` to what was asked at `asked`, after the start of the measurement.
    pub(crate) fn record(&mut self, measure_from: Instant, asked: Instant, now: Instant, error: i32) {
        let took = now.saturating_duration_since(asked).as_micros();
        let latency_us = u64::try_from(took).unwrap_or(u64::MAX).max(1);
        self.latency_us.saturating_record(latency_us);
        self.errors += u64::from(error != 0);
        let since: Duration = asked.saturating_duration_since(measure_from);
        let second = usize::try_from(since.as_secs()).unwrap_or(SECONDS_MAX).min(SECONDS_MAX);
        self.reach(second + 1);
        self.seconds[second].saturating_record(latency_us);
    }

    /// Something that took from one moment to another, outside the seconds of a measurement.
    pub(crate) fn record_between(&mut self, from: Instant, to: Instant) {
        self.record_outside(to.saturating_duration_since(from));
    }

    /// Something that took so long, outside the seconds of a measurement.
    pub(crate) fn record_outside(&mut self, took: Duration) {
        self.latency_us.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1));
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        self.latency_us.add(&other.latency_us).expect("all histograms have the same bounds");
        self.errors += other.errors;
        self.reach(other.seconds.len());
        for (own, other) in self.seconds.iter_mut().zip(&other.seconds) {
            own.add(other).expect("all histograms have the same bounds");
        }
    }

    /// Has so many seconds at least, with nothing in them if nothing was asked.
    pub(crate) fn reach(&mut self, seconds: usize) {
        while self.seconds.len() < seconds {
            self.seconds.push(Histogram::new_with_max(LATENCY_MAX_US, 2).expect("the bounds are in range"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_belongs_to_the_second_in_which_it_was_asked_for() {
        let now = Instant::now();
        let measure_from = now - Duration::from_millis(3_500);
        let mut tally = Tally::new();
        tally.record(measure_from, now - Duration::from_millis(2_000), now, 0);
        tally.record(measure_from, now, now, -101);
        assert_eq!((tally.done(), tally.errors), (2, 1));
        let counts: Vec<u64> = tally.seconds.iter().map(|second| second.len()).collect();
        assert_eq!(counts, [0, 1, 0, 1]);
        let mut sum = Tally::new();
        sum.add(&tally);
        sum.add(&tally);
        assert_eq!((sum.done(), sum.errors, sum.seconds[1].len()), (4, 2, 2));
        assert!(sum.latency_us.max() >= 2_000_000);
        sum.reach(6);
        assert_eq!(sum.seconds[5].len(), 0);
    }
}
