//! When another base is due.

use zebu_proto::Zxid;

/// The last base, and what came behind it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BaseSchedule {
    /// The transaction of the last base.
    pub(super) last: Option<Zxid>,
    /// When it was written, milliseconds since 1970.
    pub(super) written_ms: i64,
    /// Bytes of log behind it.
    pub(super) log_bytes: u64,
}

impl BaseSchedule {
    /// Whether another base is due after this time or this much log.
    pub(super) fn is_due(&self, now_ms: i64, every_ms: i64, log_bytes: u64) -> bool {
        now_ms - self.written_ms >= every_ms || self.log_bytes >= log_bytes
    }

    /// A base was begun.
    pub(super) fn wrote(&mut self, zxid: Zxid, now_ms: i64) {
        *self = BaseSchedule { last: Some(zxid), written_ms: now_ms, log_bytes: 0 };
    }
}
