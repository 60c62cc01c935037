//! G9: with a connected majority and no faults, everything is answered and every member catches up, within
//! a bound. The world calls this at the end of the phase without faults.

use crate::history::Violation;

const NAME: &str = "g09_timeliness";

/// A promise of time that was not kept.
pub(crate) fn late(text: String) -> Violation {
    Violation::new(NAME, text)
}
