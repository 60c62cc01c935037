//! G2: what one client asks for happens in the order in which it asked. Its transactions grow with the
//! numbers of its requests, answered or not. That answers come in order is checked by the client's machine.

use zebu_client::core::Answer;

use super::Judge;
use crate::history::{Sent, Verdict, Violation};
use crate::ledger::is_refused_with_session;

const NAME: &str = "g02_client_order";

pub(super) fn check_answer(judge: &mut Judge, sent: Sent, answer: &Answer) -> Verdict {
    let Some(session) = judge.sessions.get_mut(&sent.session) else { return Ok(()) };
    session.wrote = session.wrote.max(answer.zxid);
    Ok(())
}

/// The last transaction stands behind every earlier one of its session, and so does its request.
pub(super) fn check_commit(judge: &mut Judge) -> Verdict {
    let Some(last) = judge.ledger.entries().last() else { return Ok(()) };
    let header = last.entry.header;
    // What comes late over an old connection has no effect.
    if last.call.is_none() || is_refused_with_session(&last.entry.txn) {
        return Ok(());
    }
    let Some(session) = judge.sessions.get_mut(&header.session) else { return Ok(()) };
    if header.cxid <= session.last_xid {
        let text = format!(
            "request {} of session {:#x} was carried out at {}, behind request {}: {:?}",
            header.cxid, header.session.0, header.zxid, session.last_xid, last.entry.txn
        );
        return Err(Violation::new(NAME, text));
    }
    session.last_xid = header.cxid;
    Ok(())
}
