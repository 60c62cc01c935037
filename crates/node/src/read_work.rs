//! The work of reads under one hold of the replica. Truncated results count too, because the length of a
//! reply alone says little: a list may look at many nodes and contain none.

use std::cell::Cell;

/// Bytes of a result that cost as much as a visited node.
const BYTES_PER_VISIT: usize = 64;

/// The work of one read.
#[derive(Debug, Default)]
pub(crate) struct ReadWork {
    visits: Cell<usize>,
    truncated_bytes: Cell<usize>,
}

impl ReadWork {
    /// Adds visited nodes.
    pub(crate) fn add_visits(&self, count: usize) {
        self.visits.set(self.visits.get().saturating_add(count));
    }

    /// Adds the bytes of a result that was truncated.
    pub(crate) fn add_truncated(&self, bytes: usize) {
        self.truncated_bytes.set(self.truncated_bytes.get().saturating_add(bytes));
    }

    /// The number of visited nodes.
    pub(crate) fn visits(&self) -> usize {
        self.visits.get()
    }

    /// The bytes of truncated results.
    pub(crate) fn truncated_bytes(&self) -> usize {
        self.truncated_bytes.get()
    }

    /// The whole work in visits, with a reply of this length.
    pub(crate) fn total(&self, reply_bytes: usize) -> u32 {
        let bytes = self.truncated_bytes().saturating_add(reply_bytes);
        u32::try_from(self.visits().saturating_add(bytes / BYTES_PER_VISIT)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_and_all_produced_bytes_count() {
        let work = ReadWork::default();
        work.add_visits(3);
        work.add_truncated(BYTES_PER_VISIT);
        assert_eq!((work.visits(), work.truncated_bytes()), (3, BYTES_PER_VISIT));
        assert_eq!(work.total(2 * BYTES_PER_VISIT), 6);
        work.add_visits(usize::MAX);
        assert_eq!(work.total(0), u32::MAX);
    }
}
