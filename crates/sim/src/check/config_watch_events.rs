//! Who watches the list of members hears of every new one, and of nothing else: an event of that node names the
//! transaction of a list. That none is missing is a matter of G14.

use zebu_proto::client::EventType;

use super::{Frame, FrameKind, Judge};
use crate::history::{Verdict, Violation};
use crate::members::CONFIG;

const NAME: &str = "config_watch_events";

pub(super) fn check_frame(judge: &Judge, frame: &Frame) -> Verdict {
    let FrameKind::Event { kind, path } = &frame.kind else { return Ok(()) };
    if &**path != CONFIG || frame.zxid <= 0 {
        return Ok(());
    }
    if *kind == EventType::NodeDataChanged && judge.ledger.chronicle.at(frame.zxid).is_some() {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("{kind:?} of {CONFIG} at {:#x}, which is no new list", frame.zxid)))
}
