//! G4: the state that a session sees never goes back, whichever servers it is connected to.

use zebu_proto::SessionId;

use super::{Checker, Frame, FrameKind};
use crate::history::{CheckResult, Violation};

const NAME: &str = "g04_single_image";

/// A read-only server shows a state of its log. A later state must contain it only if it is committed.
pub(super) fn record_uncommitted(checker: &mut Checker, session: SessionId, zxid: i64) {
    if let Some(view) = checker.sessions.get_mut(&session) {
        view.seen_in_log = view.seen_in_log.max(zxid);
    }
}

pub(super) fn check_frame(checker: &mut Checker, session: SessionId, frame: &Frame) -> CheckResult {
    // Some replies carry zero or -1: they show no state.
    if frame.zxid <= 0 {
        return Ok(());
    }
    let last = checker.committed.last();
    let Some(in_log) = checker.sessions.get(&session).map(|view| view.seen_in_log) else { return Ok(()) };
    let was_committed = checker.is_committed(in_log);
    let Some(view) = checker.sessions.get_mut(&session) else { return Ok(()) };
    if frame.zxid > last {
        let text = format!("session {:#x} saw {:#x}, which was never committed", session.0, frame.zxid);
        return Err(Violation::new("g08_no_resurrection", text));
    }
    // A ping shows the caller no state; clients do not count its zxid as seen.
    if matches!(frame.kind, FrameKind::Ping) {
        return Ok(());
    }
    // An event names the transaction that caused it.
    let is_event = matches!(frame.kind, FrameKind::Event { .. });
    let seen = if was_committed { view.seen.max(in_log) } else { view.seen };
    if frame.zxid < seen && !is_event {
        let text = format!("session {:#x} saw {:#x} behind {:#x}", session.0, frame.zxid, seen);
        return Err(Violation::new(NAME, text));
    }
    view.seen = view.seen.max(frame.zxid);
    Ok(())
}
