//! Sizes of a leader's proposals.

use std::sync::{Mutex, PoisonError};

/// Sizes of a leader's proposals.
#[derive(Debug)]
pub(crate) struct ProposalStats(Mutex<ProposalCounts>);

/// The count of proposals, and their sizes in bytes; -1 without any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProposalCounts {
    /// Since the start.
    pub(crate) total: u64,
    /// Since the last reset.
    pub(crate) count: u64,
    pub(crate) last: i64,
    pub(crate) min: i64,
    pub(crate) max: i64,
    last_zxid: i64,
}

const NO_PROPOSALS: ProposalCounts =
    ProposalCounts { total: 0, count: 0, last: -1, min: -1, max: -1, last_zxid: i64::MIN };

impl Default for ProposalStats {
    fn default() -> ProposalStats {
        ProposalStats(Mutex::new(NO_PROPOSALS))
    }
}

impl ProposalStats {
    /// Counts a proposal when it is first sent. Later sends of the same zxid synchronize learners.
    pub(crate) fn record(&self, zxid: i64, bytes: usize) {
        let mut proposals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if zxid <= proposals.last_zxid {
            return;
        }
        let size = bytes as i64;
        let ProposalCounts { total, count, min, max, .. } = *proposals;
        let min = if count == 0 { size } else { min.min(size) };
        *proposals = ProposalCounts {
            total: total + 1,
            count: count + 1,
            last: size,
            min,
            max: max.max(size),
            last_zxid: zxid,
        };
    }

    pub(crate) fn get(&self) -> ProposalCounts {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reset(&self) {
        let mut proposals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *proposals =
            ProposalCounts { total: proposals.total, last_zxid: proposals.last_zxid, ..NO_PROPOSALS };
    }
}
