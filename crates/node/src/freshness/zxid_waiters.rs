//! Reads that wait for a transaction, with the end of their wait. Limits of connections bound their number.

use std::collections::BTreeMap;

use zebu_proto::Zxid;

use super::read_fences::ReadFence;
use crate::connection::ConnectionId;

type WaiterKey = (ConnectionId, u64);

#[derive(Debug, Default)]
pub(super) struct ZxidWaiters {
    by_zxid: BTreeMap<(Zxid, WaiterKey), ReadFence>,
    /// The deadlines in monotonic milliseconds.
    by_deadline: BTreeMap<(i64, WaiterKey), Zxid>,
}

impl ZxidWaiters {
    pub(super) fn insert(&mut self, zxid: Zxid, deadline_ms: i64, fence: ReadFence) {
        let key = (fence.submitted.connection, fence.submitted.slot);
        self.by_zxid.insert((zxid, key), fence);
        self.by_deadline.insert((deadline_ms, key), zxid);
    }

    /// Removes a read whose transaction is applied.
    pub(super) fn pop_applied(&mut self, applied: Zxid) -> Option<ReadFence> {
        let first = self.by_zxid.first_entry().filter(|first| first.key().0 <= applied)?;
        let ((_, key), fence) = first.remove_entry();
        if let Some((_, deadline_ms)) = fence.awaited() {
            self.by_deadline.remove(&(deadline_ms, key));
        }
        Some(fence)
    }

    /// Removes a read whose wait has ended.
    pub(super) fn pop_expired(&mut self, now_ms: i64) -> Option<ReadFence> {
        let first = self.by_deadline.first_entry().filter(|first| first.key().0 <= now_ms)?;
        let ((_, key), zxid) = first.remove_entry();
        self.by_zxid.remove(&(zxid, key))
    }

    pub(super) fn next_deadline(&self) -> i64 {
        self.by_deadline.first_key_value().map_or(i64::MAX, |((deadline_ms, _), _)| *deadline_ms)
    }

    pub(super) fn into_fences(self) -> impl Iterator<Item = ReadFence> {
        self.by_zxid.into_values()
    }
}
