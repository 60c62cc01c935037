//! G12: who watches a node hears of a change before anything else shows a state with that change.

use super::watches::{Account, Told};
use crate::history::{Verdict, Violation};

const NAME: &str = "g12_event_before_data";

/// An event that comes behind a frame that shows its change comes too late.
pub(super) fn check_event(account: &Account, event: &Told) -> Verdict {
    match &account.overdue {
        Some((owed, shown)) if owed == event => {
            let (zxid, kind, path) = event;
            let text = format!("{kind:?} of {path} at {zxid:#x} came behind a frame of {shown:#x}");
            Err(Violation::new(NAME, text))
        }
        _ => Ok(()),
    }
}
