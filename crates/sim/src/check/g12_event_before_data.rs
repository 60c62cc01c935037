//! G12: a client with a watch on a node gets the event of a change before any reply shows a state with that
//! change.

use super::watches::{ConnectionWatches, SeenEvent};
use crate::history::{CheckResult, Violation};

const NAME: &str = "g12_event_before_data";

/// Reports an event that comes after a frame that shows its change.
pub(super) fn check_event(account: &ConnectionWatches, event: &SeenEvent) -> CheckResult {
    match &account.overdue {
        Some((owed, shown)) if owed == event => {
            let (zxid, kind, path) = event;
            let text = format!("{kind:?} of {path} at {zxid:#x} came behind a frame of {shown:#x}");
            Err(Violation::new(NAME, text))
        }
        _ => Ok(()),
    }
}
