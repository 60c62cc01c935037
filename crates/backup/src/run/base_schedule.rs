//! When another base is due, and what follows if it cannot be written.

use zebu_proto::Zxid;

/// The pauses between two attempts to write a base, milliseconds.
const PAUSE_MIN_MS: i64 = 1000;
const PAUSE_MAX_MS: i64 = 5 * 60 * 1000;

/// The last base, and what came behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct BaseSchedule {
    /// The transaction of the last base.
    last: Option<Zxid>,
    /// When it was written, milliseconds since 1970.
    written_ms: i64,
    /// Bytes of log behind it.
    pub(super) log_bytes: u64,
    /// The pause behind the last failed attempt, milliseconds.
    pause_ms: i64,
    /// When the next attempt may begin, milliseconds since 1970.
    not_before_ms: i64,
    /// Why the first base of the present history is missing. No log can be stored without it.
    missing: Option<String>,
    /// Since when it is missing, milliseconds since 1970.
    missing_since_ms: Option<i64>,
}

impl BaseSchedule {
    /// Behind a base and some log.
    pub(super) fn behind(last: Zxid, written_ms: i64, log_bytes: u64) -> BaseSchedule {
        BaseSchedule { last: Some(last), written_ms, log_bytes, ..BaseSchedule::default() }
    }

    /// Whether another base is due after this time or this much log.
    pub(super) fn is_due(&self, now_ms: i64, every_ms: i64, log_bytes: u64) -> bool {
        let is_old = now_ms - self.written_ms >= every_ms || self.log_bytes >= log_bytes;
        now_ms >= self.not_before_ms && (is_old || self.missing.is_some())
    }

    /// The transaction of the last base.
    pub(super) fn last(&self) -> Option<Zxid> {
        self.last
    }

    /// Why the first base of the present history is missing.
    pub(super) fn missing(&self) -> Option<&String> {
        self.missing.as_ref()
    }

    /// Begins a base, and returns the schedule for the case that it fails.
    pub(super) fn begin(&mut self, zxid: Zxid, now_ms: i64) -> BaseSchedule {
        std::mem::replace(self, BaseSchedule::behind(zxid, now_ms, 0))
    }

    /// The base failed. `before` is the schedule from before it.
    pub(super) fn fail(&mut self, before: BaseSchedule, now_ms: i64) {
        let log_bytes = before.log_bytes.saturating_add(self.log_bytes);
        let pause_ms = (before.pause_ms * 2).clamp(PAUSE_MIN_MS, PAUSE_MAX_MS);
        *self = BaseSchedule { log_bytes, pause_ms, not_before_ms: now_ms + pause_ms, ..before };
    }

    /// The failed base was the first one of its history.
    pub(super) fn miss(&mut self, reason: String, now_ms: i64) {
        self.missing = Some(reason);
        self.missing_since_ms.get_or_insert(now_ms);
    }

    /// Since when the first base of the present history is missing, milliseconds since 1970.
    pub(super) fn missing_since_ms(&self) -> Option<i64> {
        self.missing_since_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_base_is_due_again_after_growing_pauses() {
        let mut bases = BaseSchedule::default();
        bases.begin(Zxid(1), 0);
        bases.log_bytes = 10;
        assert!(!bases.is_due(99, 100, 11) && bases.is_due(100, 100, 11) && bases.is_due(0, 100, 10));
        let mut now_ms = 100;
        for pause_ms in [1000, 2000, 4000] {
            let before = bases.begin(Zxid(2), now_ms);
            bases.log_bytes += 5;
            bases.fail(before, now_ms);
            assert_eq!((bases.last, bases.missing()), (Some(Zxid(1)), None));
            assert!(!bases.is_due(now_ms + pause_ms - 1, 100, 11));
            now_ms += pause_ms;
            assert!(bases.is_due(now_ms, 100, 11));
        }
        assert_eq!(bases.log_bytes, 25, "the log behind the last base counts on");
        // A history without its base is due, however little log there is.
        let before = bases.begin(Zxid(3), now_ms);
        bases.fail(before, now_ms);
        bases.miss("full".to_owned(), now_ms);
        assert!(bases.is_due(now_ms + 8000, i64::MAX, u64::MAX));
        bases.begin(Zxid(3), now_ms);
        assert!(bases.missing().is_none() && !bases.is_due(now_ms, 1, 1));
    }
}
