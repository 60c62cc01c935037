//! G11 and G15: a watch receives exactly the events that it was set for. A one-shot watch fires once, a
//! recursive watch gets no child events, and no event is sent for a change that did not happen.

use super::watches::SeenEvent;
use crate::history::{CheckResult, Violation};
use crate::model::Model;

const NAME: &str = "g11_one_shot";

/// Reports an event that no watch of the connection was set for.
pub(super) fn check_surplus(model: &Model, (zxid, kind, path): &SeenEvent) -> CheckResult {
    let happened: Vec<_> = model.changes(zxid - 1, *zxid).iter().filter(|it| it.1 == *path).collect();
    let text =
        format!("{kind:?} of {path} at {zxid:#x} was sent without a watch; the changes are: {happened:?}");
    Err(Violation::new(NAME, text))
}
