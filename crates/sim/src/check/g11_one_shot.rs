//! G11 and G15: an event is what a watch asked for, as often as it asked for it: a one-shot watch tells once,
//! a recursive one tells nothing of lists of children, and nothing is told that did not happen.

use super::watches::Told;
use crate::history::{Verdict, Violation};
use crate::model::Model;

const NAME: &str = "g11_one_shot";

/// An event that no watch of the connection asked for.
pub(super) fn check_surplus(model: &Model, (zxid, kind, path): &Told) -> Verdict {
    let happened: Vec<_> = model.changes(zxid - 1, *zxid).iter().filter(|it| it.1 == *path).collect();
    let text =
        format!("{kind:?} of {path} at {zxid:#x} was sent to nobody's wish; what happened: {happened:?}");
    Err(Violation::new(NAME, text))
}
