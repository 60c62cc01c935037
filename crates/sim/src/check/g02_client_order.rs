//! G2: the requests of one client take effect in the order in which they were sent. Its transactions grow
//! with the xids of its requests, answered or not. The client's state machine checks the order of replies.

use zebu_client::core::ServerReply;

use super::Checker;
use crate::committed_history::is_refused_with_session;
use crate::history::{CheckResult, SentRequest, Violation};

const NAME: &str = "g02_client_order";

pub(super) fn check_answer(checker: &mut Checker, sent: SentRequest, answer: &ServerReply) -> CheckResult {
    let Some(session) = checker.sessions.get_mut(&sent.session) else { return Ok(()) };
    session.wrote = session.wrote.max(answer.zxid);
    Ok(())
}

/// Checks that the last transaction and its request come after every earlier one of the session.
pub(super) fn check_commit(checker: &mut Checker) -> CheckResult {
    let Some(last) = checker.committed.entries().last() else { return Ok(()) };
    let header = last.entry.header;
    // A request that arrives late over an old connection has no effect.
    if last.call.is_none() || is_refused_with_session(last) {
        return Ok(());
    }
    let Some(session) = checker.sessions.get_mut(&header.session) else { return Ok(()) };
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
