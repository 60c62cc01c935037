//! Whether the state of a member is that of its leader: every transaction carries the digest that the tree has after it.
//! Digests that differ are counted, and the first of each row is told. A member whose own data never had a right one has
//! another ensemble's data; what becomes of that is decided by the peer.

/// Differences in a row, without a single right digest since the start, after which the own data is another ensemble's.
const FOREIGN_AFTER: u64 = 16;

/// Differences in a row behind a state that was received before they are told. An Apache leader changes the tree while
/// he sends it, and the digests of what he changed meanwhile do not fit until the last of these transactions.
const FUZZY_MAX: u64 = 100_000;

/// Where the state comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basis {
    /// The own files; no digest has been compared since the start.
    OwnFiles,
    /// A leader has sent it; no digest was right since.
    Received,
    /// At least one digest was right.
    Confirmed,
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DigestVerdict {
    /// The digests are equal.
    Equal,
    /// The digests are equal after so many that were not, of which the first was told.
    EqualAgain {
        /// How many.
        differed: u64,
    },
    /// They differ, as was told before or need not be told.
    StillDiffers,
    /// They differ, and that is to be told.
    Differs,
    /// So many differed and none was right: the own data is another ensemble's.
    Foreign {
        /// How many.
        differed: u64,
    },
}

/// Compares digests.
#[derive(Debug)]
pub(crate) struct DigestCheck {
    basis: Basis,
    /// All differences.
    mismatches: u64,
    /// Differences since the last right digest.
    in_a_row: u64,
}

impl DigestCheck {
    pub(crate) fn new() -> DigestCheck {
        DigestCheck { basis: Basis::OwnFiles, mismatches: 0, in_a_row: 0 }
    }

    /// How many differed.
    pub(crate) fn mismatches(&self) -> u64 {
        self.mismatches
    }

    /// Another state takes the place of the present one.
    pub(crate) fn state_received(&mut self) {
        self.basis = Basis::Received;
        self.in_a_row = 0;
    }

    /// Compares the digest of a transaction with that of the tree.
    pub(crate) fn compare(&mut self, expected: i64, found: i64) -> DigestVerdict {
        let told_at = match self.basis {
            Basis::OwnFiles | Basis::Confirmed => 1,
            Basis::Received => FUZZY_MAX,
        };
        if expected == found {
            let differed = std::mem::take(&mut self.in_a_row);
            self.basis = Basis::Confirmed;
            return if differed >= told_at {
                DigestVerdict::EqualAgain { differed }
            } else {
                DigestVerdict::Equal
            };
        }
        self.mismatches += 1;
        self.in_a_row += 1;
        let differed = self.in_a_row;
        if self.basis == Basis::OwnFiles && differed == FOREIGN_AFTER {
            DigestVerdict::Foreign { differed }
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
        let mut check = DigestCheck::new();
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
        let mut check = DigestCheck::new();
        assert_eq!(check.compare(1, 2), DigestVerdict::Differs);
        for _ in 2..FOREIGN_AFTER {
            assert_eq!(check.compare(1, 2), DigestVerdict::StillDiffers);
        }
        assert_eq!(check.compare(1, 2), DigestVerdict::Foreign { differed: FOREIGN_AFTER });
        assert_eq!(check.compare(1, 2), DigestVerdict::StillDiffers, "once");
    }

    /// With an Apache leader under load the transactions behind a whole state have digests of a later tree.
    #[test]
    fn differences_behind_a_received_state_are_no_alarm() {
        let mut check = DigestCheck::new();
        check.state_received();
        for _ in 1..FUZZY_MAX {
            assert_eq!(check.compare(1, 2), DigestVerdict::StillDiffers);
        }
        assert_eq!(check.compare(1, 2), DigestVerdict::Differs);
        let mut check = DigestCheck::new();
        check.state_received();
        assert_eq!(check.compare(1, 2), DigestVerdict::StillDiffers);
        assert_eq!(check.compare(1, 1), DigestVerdict::Equal);
        assert_eq!(check.compare(1, 2), DigestVerdict::Differs);
    }
}
