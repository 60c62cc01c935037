//! Compares the tree of a server with that of its leader: each transaction carries the tree digest after it.
//! Mismatches are counted, and the first of a series is reported. Recovered data that never matched belongs
//! to another ensemble; the peer decides about its quarantine.

/// Consecutive mismatches, without a match since the start, after which the recovered data counts as foreign.
const FOREIGN_AFTER: u64 = 16;

/// Consecutive mismatches after a received snapshot before they are reported. An Apache ZooKeeper leader
/// changes the tree while it sends the snapshot. The digests of those transactions mismatch until the last
/// one.
const FUZZY_MAX: u64 = 100_000;

/// The origin of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StateOrigin {
    /// Recovered from disk; no digest has matched since the start.
    LocalDisk,
    /// Received from a leader; no digest has matched since.
    Received,
    /// At least one digest has matched.
    Confirmed,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DigestVerdict {
    /// The digests match.
    Equal,
    /// The digests match after a series of mismatches that was reported.
    EqualAgain {
        /// The number of mismatches.
        differed: u64,
    },
    /// A mismatch that was reported before or need not be reported.
    StillDiffers,
    /// A mismatch that must be reported.
    Differs,
    /// No digest has matched since the start: the recovered data belongs to another ensemble.
    ForeignData {
        /// The number of mismatches.
        differed: u64,
    },
}

/// Counts mismatches.
#[derive(Debug)]
pub(crate) struct DigestMonitor {
    state_origin: StateOrigin,
    /// All mismatches.
    mismatches: u64,
    /// Mismatches since the last match.
    consecutive: u64,
}

impl DigestMonitor {
    pub(crate) fn new() -> DigestMonitor {
        DigestMonitor { state_origin: StateOrigin::LocalDisk, mismatches: 0, consecutive: 0 }
    }

    /// The number of mismatches.
    pub(crate) fn mismatches(&self) -> u64 {
        self.mismatches
    }

    /// Records that the tree is replaced.
    pub(crate) fn state_received(&mut self) {
        self.state_origin = StateOrigin::Received;
        self.consecutive = 0;
    }

    /// Compares the digest of a transaction with that of the tree.
    pub(crate) fn compare(&mut self, expected: i64, found: i64) -> DigestVerdict {
        let told_at = match self.state_origin {
            StateOrigin::LocalDisk | StateOrigin::Confirmed => 1,
            StateOrigin::Received => FUZZY_MAX,
        };
        if expected == found {
            let differed = std::mem::take(&mut self.consecutive);
            self.state_origin = StateOrigin::Confirmed;
            return if differed >= told_at {
                DigestVerdict::EqualAgain { differed }
            } else {
                DigestVerdict::Equal
            };
        }
        self.mismatches += 1;
        self.consecutive += 1;
        let differed = self.consecutive;
        if self.state_origin == StateOrigin::LocalDisk && differed == FOREIGN_AFTER {
            DigestVerdict::ForeignData { differed }
        } else if differed == told_at {
            DigestVerdict::Differs
        } else {
            DigestVerdict::StillDiffers
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_of_a_row_is_told() {
        let mut check = DigestMonitor::new();
        assert_eq!(check.compare(1, 1), DigestVerdict::Equal);
        assert_eq!(check.compare(1, 2), DigestVerdict::Differs);
        for _ in 0..100 {
            assert_eq!(check.compare(1, 2), DigestVerdict::StillDiffers, "it was right once");
        }
        assert_eq!(check.compare(1, 1), DigestVerdict::EqualAgain { differed: 101 });
        assert_eq!(check.compare(1, 1), DigestVerdict::Equal);
        assert_eq!(check.compare(1, 2), DigestVerdict::Differs);
        assert_eq!(check.mismatches(), 102);
    }

    #[test]
    fn own_data_that_was_never_right_is_foreign() {
        let mut check = DigestMonitor::new();
        assert_eq!(check.compare(1, 2), DigestVerdict::Differs);
        for _ in 2..FOREIGN_AFTER {
            assert_eq!(check.compare(1, 2), DigestVerdict::StillDiffers);
        }
        assert_eq!(check.compare(1, 2), DigestVerdict::ForeignData { differed: FOREIGN_AFTER });
        assert_eq!(check.compare(1, 2), DigestVerdict::StillDiffers, "once");
    }

    /// With an Apache ZooKeeper leader under load, transactions after a snapshot have digests of a later
    /// tree.
    #[test]
    fn differences_behind_a_received_state_are_no_alarm() {
        let mut check = DigestMonitor::new();
        check.state_received();
        for _ in 1..FUZZY_MAX {
            assert_eq!(check.compare(1, 2), DigestVerdict::StillDiffers);
        }
        assert_eq!(check.compare(1, 2), DigestVerdict::Differs);
        let mut check = DigestMonitor::new();
        check.state_received();
        assert_eq!(check.compare(1, 2), DigestVerdict::StillDiffers);
        assert_eq!(check.compare(1, 1), DigestVerdict::Equal);
        assert_eq!(check.compare(1, 2), DigestVerdict::Differs);
    }
}
