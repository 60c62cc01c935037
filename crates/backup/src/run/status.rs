//! What a running backup tells: numbers for the command line, for metrics and for tests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// Shared numbers of a running backup.
#[derive(Debug, Default)]
pub struct RunStatus {
    /// The last transaction that was received.
    pub(super) received_zxid: AtomicI64,
    /// The last transaction that the target has.
    pub(super) stored_zxid: AtomicI64,
    /// When the first transaction of each segment came that the uploader has, milliseconds since 1970.
    pub(super) waiting_since_ms: Mutex<VecDeque<i64>>,
    /// When the oldest transaction came that the uploader does not have yet; zero for none.
    pub(super) unsent_since_ms: AtomicI64,
    /// Bytes that wait for the target.
    pub(super) waiting_bytes: AtomicU64,
    /// Bytes that the target took.
    pub(super) stored_bytes: AtomicU64,
    /// Bases that the target took.
    pub(super) bases: AtomicU64,
    /// Segments that the target took.
    pub(super) segments: AtomicU64,
    /// Failed attempts to write to the target or the spool.
    pub(super) target_errors: AtomicU64,
    /// Stays at a leader that ended.
    pub(super) rejoins: AtomicU64,
    /// Times at which a new chain began, because the history had a hole.
    pub(super) new_chains: AtomicU64,
    /// Histories in which the tree differed from the ensemble's.
    pub(super) digest_mismatches: AtomicU64,
    /// Failed verifications.
    pub(super) failed_verifications: AtomicU64,
    /// Verifications that found no flaw.
    pub(super) verifications: AtomicU64,
    /// Whether a leader has confirmed the history.
    pub(super) is_synchronized: AtomicBool,
    /// The address of the leader, and the last error.
    pub(super) texts: Mutex<StatusTexts>,
}

/// Texts of a running backup.
#[derive(Clone, Debug, Default)]
pub(super) struct StatusTexts {
    pub(super) leader: Option<String>,
    pub(super) error: Option<String>,
}

/// The numbers at one time.
#[derive(Clone, Debug, Serialize)]
pub struct StatusView {
    /// Whether a leader has confirmed the history.
    pub synchronized: bool,
    /// The address of the leader.
    pub leader: Option<String>,
    /// The last transaction that was received.
    pub received_zxid: String,
    /// The last transaction that the target has.
    pub stored_zxid: String,
    /// Milliseconds for which the oldest received transaction has waited for the target.
    pub lag_ms: i64,
    /// Bytes that wait for the target.
    pub waiting_bytes: u64,
    /// Bytes that the target took.
    pub stored_bytes: u64,
    /// Bases that the target took.
    pub bases: u64,
    /// Segments that the target took.
    pub segments: u64,
    /// Failed attempts to write to the target or the spool.
    pub target_errors: u64,
    /// Stays at a leader that ended.
    pub rejoins: u64,
    /// Times at which a new chain began.
    pub new_chains: u64,
    /// Histories in which the tree differed from the ensemble's.
    pub digest_mismatches: u64,
    /// Verifications that found no flaw.
    pub verifications: u64,
    /// Failed verifications.
    pub failed_verifications: u64,
    /// The last error.
    pub last_error: Option<String>,
}

impl RunStatus {
    /// The numbers now. `now_ms` is the clock, milliseconds since 1970.
    pub fn view(&self, now_ms: i64) -> StatusView {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let zxid = |number: &AtomicI64| format!("0x{:x}", number.load(Ordering::Relaxed));
        let unsent_ms = Some(self.unsent_since_ms.load(Ordering::Relaxed)).filter(|since_ms| *since_ms != 0);
        let since_ms = self.waiting_since_ms().front().copied().or(unsent_ms);
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        StatusView {
            synchronized: self.is_synchronized.load(Ordering::Relaxed),
            leader: texts.leader,
            received_zxid: zxid(&self.received_zxid),
            stored_zxid: zxid(&self.stored_zxid),
            lag_ms: since_ms.map_or(0, |since_ms| (now_ms - since_ms).max(0)),
            waiting_bytes: load(&self.waiting_bytes),
            stored_bytes: load(&self.stored_bytes),
            bases: load(&self.bases),
            segments: load(&self.segments),
            target_errors: load(&self.target_errors),
            rejoins: load(&self.rejoins),
            new_chains: load(&self.new_chains),
            digest_mismatches: load(&self.digest_mismatches),
            verifications: load(&self.verifications),
            failed_verifications: load(&self.failed_verifications),
            last_error: texts.error,
        }
    }

    pub(super) fn waiting_since_ms(&self) -> MutexGuard<'_, VecDeque<i64>> {
        self.waiting_since_ms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_error(&self, error: String) {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).error = Some(error);
    }

    pub(super) fn set_leader(&self, leader: Option<String>) {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).leader = leader;
    }
}

impl StatusView {
    /// The numbers as text of Prometheus.
    pub fn prometheus(&self) -> String {
        let zxid = |text: &str| i64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0);
        let rows: [(&str, &str, &str, i64); 14] = [
            (
                "synchronized",
                "gauge",
                "1 while a leader has confirmed the history",
                i64::from(self.synchronized),
            ),
            ("last_zxid", "gauge", "last received transaction", zxid(&self.received_zxid)),
            ("stored_zxid", "gauge", "last transaction in the target", zxid(&self.stored_zxid)),
            ("lag_ms", "gauge", "milliseconds that the oldest transaction has waited", self.lag_ms),
            ("waiting_bytes", "gauge", "bytes that wait for the target", self.waiting_bytes as i64),
            ("stored_bytes_total", "counter", "bytes that the target took", self.stored_bytes as i64),
            ("bases_total", "counter", "bases that the target took", self.bases as i64),
            ("segments_total", "counter", "log segments that the target took", self.segments as i64),
            (
                "errors_total",
                "counter",
                "failed attempts to write to the target or the spool",
                self.target_errors as i64,
            ),
            ("rejoins_total", "counter", "stays at a leader that ended", self.rejoins as i64),
            ("new_chains_total", "counter", "times at which the history had a hole", self.new_chains as i64),
            ("digest_mismatches_total", "counter", "trees that differed", self.digest_mismatches as i64),
            ("verifications_total", "counter", "verifications without a flaw", self.verifications as i64),
            (
                "failed_verifications_total",
                "counter",
                "failed verifications",
                self.failed_verifications as i64,
            ),
        ];
        rows.iter().fold(String::new(), |mut text, (name, kind, help, value)| {
            use std::fmt::Write;
            let _ = writeln!(text, "# HELP backup_{name} {help}\n# TYPE backup_{name} {kind}");
            let _ = writeln!(text, "backup_{name} {value}");
            text
        })
    }
}
