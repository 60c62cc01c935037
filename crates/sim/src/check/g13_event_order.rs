//! G13: events come in the order of the history.

use super::watches::{ConnectionWatches, SeenEvent};
use crate::history::{CheckResult, Violation};

const NAME: &str = "g13_event_order";

pub(super) fn check_event(account: &ConnectionWatches, (zxid, kind, path): &SeenEvent) -> CheckResult {
    if *zxid >= account.last_event {
        return Ok(());
    }
    let text = format!("{kind:?} of {path} at {zxid:#x} came behind an event of {:#x}", account.last_event);
    Err(Violation::new(NAME, text))
}
