//! A watch on the config node fires for every new config and for nothing else. An event of that node names
//! the transaction of a config. G14 checks that no event is missing.

use zebu_proto::client::EventType;

use super::{Checker, Frame, FrameKind};
use crate::history::{CheckResult, Violation};
use crate::members::CONFIG;

const NAME: &str = "config_watch_events";

pub(super) fn check_frame(checker: &Checker, frame: &Frame) -> CheckResult {
    let FrameKind::Event { kind, path } = &frame.kind else { return Ok(()) };
    if &**path != CONFIG || frame.zxid <= 0 {
        return Ok(());
    }
    if *kind == EventType::NodeDataChanged && checker.committed.configs.at(frame.zxid).is_some() {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("{kind:?} of {CONFIG} at {:#x}, which is no new list", frame.zxid)))
}
