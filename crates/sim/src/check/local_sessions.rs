//! Local sessions: one server knows each, so that no other server resumes it. It has no ephemeral node before
//! it is global; the committed history checks that. Only a session that a client holds becomes global, once
//! and under its own id.

use zebu_client::core::ServerReply;
use zebu_node::LocalSessionSupport;
use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, SessionId};

use super::{Checker, ServerMode};
use crate::history::{CheckResult, Violation};
use crate::view::ServerView;

const NAME: &str = "local_sessions";

/// A client continues a session at a server. A read-only server that shows its log may have a transaction
/// there that makes the session global, and that is not committed.
pub(super) fn check_resumed(
    checker: &Checker,
    session: SessionId,
    server: usize,
    mode: ServerMode,
) -> CheckResult {
    let Some(view) = checker.sessions.get(&session) else { return Ok(()) };
    let shows_log = mode == ServerMode::ReadOnly && shows_uncommitted(checker, server);
    if !checker.is_local(session) || view.server == server || shows_log {
        return Ok(());
    }
    let text = format!("local session {:#x} of server {} goes on at server {server}", session.0, view.server);
    Err(Violation::new(NAME, text))
}

/// Whether the log of a server ends with a transaction that is not committed. The record of a real ensemble
/// has no logs.
fn shows_uncommitted(checker: &Checker, server: usize) -> bool {
    checker.servers.get(server).is_some_and(|ServerView { log, base, .. }| {
        let last = log.last().map_or(*base, |(zxid, _)| *zxid);
        !checker.is_committed(last)
    })
}

/// Checks that the last transaction makes no session global that no client has.
pub(super) fn check_commit(checker: &Checker) -> CheckResult {
    let Some(last) = checker.committed.entries().last() else { return Ok(()) };
    let header = last.entry.header;
    let opens = matches!(last.entry.txn, Txn::CreateSession { .. });
    if checker.local_sessions == LocalSessionSupport::WithoutUpgrade && opens {
        let text = format!("{} makes local session {:#x} global", header.zxid, header.session.0);
        return Err(Violation::new(NAME, text));
    }
    let is_known = checker.sessions.contains_key(&header.session);
    if checker.local_sessions == LocalSessionSupport::WithUpgrade && opens && !is_known {
        let text = format!("{} opens session {:#x}, which no client has", header.zxid, header.session.0);
        return Err(Violation::new(NAME, text));
    }
    Ok(())
}

/// The answer to a write: only an ephemeral node of a local session is refused for that reason.
pub(super) fn check_answer(checker: &Checker, index: usize, answer: &ServerReply) -> CheckResult {
    let call = &checker.calls[index];
    let Some(sent) = call.sent else { return Ok(()) };
    if answer.code != ErrorCode::EphemeralOnLocalSession.wire() {
        return Ok(());
    }
    let is_right = checker.local_sessions == LocalSessionSupport::WithoutUpgrade
        && checker.is_local(sent.session)
        && call.operation.creates_ephemeral();
    if is_right {
        return Ok(());
    }
    let text = format!("{:?} of session {:#x} was refused as a local one", call.operation, sent.session.0);
    Err(Violation::new(NAME, text))
}
