//! G9: with a connected majority and no faults, every request is answered and every server catches up within
//! a bound. The world calls this at the end of the phase without faults.

use crate::history::Violation;

const NAME: &str = "g09_timeliness";

/// The violation for a missed time bound.
pub(crate) fn late(text: String) -> Violation {
    Violation::new(NAME, text)
}
