//! Latencies of the last ten seconds: of the own appends, or of the ACKs of a follower. One transaction is
//! timed at a time, and at most a hundred per second.

use std::collections::VecDeque;

use zebu_proto::Zxid;

/// The age up to which a sample counts, in milliseconds.
const WINDOW_MS: i64 = 10_000;

/// The pause between the starts of two samples, in milliseconds. It bounds the number of samples.
const PAUSE_MS: i64 = 10;

/// The largest number of samples: those of the window.
const SAMPLES_MAX: usize = (WINDOW_MS / PAUSE_MS) as usize;

/// The latencies of one disk.
#[derive(Debug, Default)]
pub(crate) struct LatencyProbe {
    /// The transaction that is being timed, and its start in milliseconds.
    pending: Option<(Zxid, i64)>,
    /// The start of the last sample in milliseconds.
    began_ms: Option<i64>,
    /// The end and the length of each sample in milliseconds, oldest first.
    samples: VecDeque<(i64, i64)>,
    /// The 99th percentile at the last [`LatencyProbe::expire`]. It is read far more often than it changes.
    p99_ms: Option<i64>,
}

impl LatencyProbe {
    /// A transaction starts. It is timed unless another one is, or the last one started just now.
    pub(crate) fn begin(&mut self, zxid: Zxid, now_ms: i64) {
        let is_soon = self.began_ms.is_some_and(|began_ms| now_ms < began_ms + PAUSE_MS);
        if self.pending.is_none() && !is_soon {
            self.pending = Some((zxid, now_ms));
            self.began_ms = Some(now_ms);
        }
    }

    /// All transactions up to `zxid` are finished.
    pub(crate) fn finish(&mut self, zxid: Zxid, now_ms: i64) {
        let Some((_, began_ms)) = self.pending.take_if(|(pending, _)| *pending <= zxid) else { return };
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((now_ms, (now_ms - began_ms).max(0)));
    }

    /// Removes old samples, and computes the percentile of the others. The leader does so once per tick.
    pub(crate) fn expire(&mut self, now_ms: i64) {
        while self.samples.front().is_some_and(|(at_ms, _)| at_ms + WINDOW_MS < now_ms) {
            self.samples.pop_front();
        }
        let mut lengths: Vec<i64> = self.samples.iter().map(|(_, ms)| *ms).collect();
        lengths.sort_unstable();
        let index = (lengths.len() * 99).div_ceil(100).checked_sub(1);
        self.p99_ms = index.and_then(|index| lengths.get(index).copied());
    }

    /// The 99th percentile in milliseconds at the last tick; `None` without a sample.
    pub(crate) fn p99_ms(&self) -> Option<i64> {
        self.p99_ms
    }

    /// The number of samples of at least `ms`.
    pub(crate) fn count_from(&self, ms: i64) -> usize {
        self.samples.iter().filter(|(_, length)| *length >= ms).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_transaction_is_timed_at_a_time() {
        let mut probe = LatencyProbe::default();
        assert_eq!(probe.p99_ms(), None);
        probe.begin(Zxid(5), 100);
        probe.begin(Zxid(6), 150);
        probe.finish(Zxid(4), 160);
        assert_eq!(probe.p99_ms(), None, "an earlier one has finished");
        probe.finish(Zxid(6), 180);
        probe.expire(180);
        assert_eq!((probe.p99_ms(), probe.count_from(80), probe.count_from(81)), (Some(80), 1, 0));
        probe.begin(Zxid(7), 100 + PAUSE_MS - 1);
        probe.finish(Zxid(7), 900);
        probe.expire(900);
        assert_eq!(probe.p99_ms(), Some(80), "it started too soon after the last one");
        probe.expire(180 + WINDOW_MS);
        assert_eq!(probe.p99_ms(), Some(80));
        probe.expire(181 + WINDOW_MS);
        assert_eq!(probe.p99_ms(), None);
    }

    #[test]
    fn one_of_a_hundred_may_be_slower() {
        let mut probe = LatencyProbe::default();
        for number in 0..1_500 {
            let begun_ms = number * 1_000;
            probe.begin(Zxid(number), begun_ms);
            probe.finish(Zxid(number), begun_ms + if number % 200 == 0 { 900 } else { 3 });
        }
        probe.samples.iter_mut().for_each(|(at_ms, _)| *at_ms = 0);
        probe.expire(WINDOW_MS);
        assert_eq!((probe.p99_ms(), probe.samples.len()), (Some(3), SAMPLES_MAX));
    }
}
