//! G4: what a session sees never goes back, whichever servers it talks to.

use zebu_proto::SessionId;

use super::{Frame, FrameKind, Judge};
use crate::history::{Verdict, Violation};

const NAME: &str = "g04_single_image";

pub(super) fn check_frame(judge: &mut Judge, session: SessionId, frame: &Frame) -> Verdict {
    // Some answers carry zero or -1: they show nothing.
    if frame.zxid <= 0 {
        return Ok(());
    }
    let last = judge.ledger.last();
    let Some(view) = judge.sessions.get_mut(&session) else { return Ok(()) };
    if frame.zxid > last {
        let text = format!("session {:#x} saw {:#x}, which was never committed", session.0, frame.zxid);
        return Err(Violation::new("g08_no_resurrection", text));
    }
    // A ping shows the caller nothing; clients do not count it among what they have seen.
    if matches!(frame.kind, FrameKind::Ping) {
        return Ok(());
    }
    // An event names the transaction that caused it.
    let is_event = matches!(frame.kind, FrameKind::Event { .. });
    if frame.zxid < view.seen && !is_event {
        let text = format!("session {:#x} saw {:#x} behind {:#x}", session.0, frame.zxid, view.seen);
        return Err(Violation::new(NAME, text));
    }
    view.seen = view.seen.max(frame.zxid);
    Ok(())
}
