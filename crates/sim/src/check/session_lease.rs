//! A lease never outlives its session: while the client's machine says that no server can have expired it, none has.
//! Only the client itself may end it earlier.

use std::time::Duration;

use zebu_proto::SessionId;

use super::Judge;
use crate::history::{Verdict, Violation};

const NAME: &str = "session_lease";

/// A client believes that its session lives for so long at least.
pub(crate) fn check_lease(judge: &Judge, session: SessionId, left: Duration) -> Verdict {
    let ended = judge.ledger.model.session(session).and_then(|life| life.closed);
    let asked = judge.sessions.get(&session).is_some_and(|view| view.closing);
    match ended {
        Some(zxid) if !asked && !left.is_zero() => {
            let text =
                format!("session {:#x} ended with {zxid:#x}, its lease lasts {left:?} more", session.0);
            Err(Violation::new(NAME, text))
        }
        Some(_) | None => Ok(()),
    }
}
