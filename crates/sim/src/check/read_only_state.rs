//! A read-only server shows committed transactions only, unless it was restarted since it had a leader, or
//! lost its leader during synchronization: then it shows its log. A server that may have lost transactions
//! shows nothing. It refuses every write and every sync, and a refused write has no effect later.

use zebu_client::core::ServerReply;
use zebu_proto::{ErrorCode, Zxid};

use super::{Checker, ServerMode, g22_replica_equality};
use crate::history::{CallEnd, CheckResult, Violation};
use crate::operation::Operation;
use crate::server::process::TreeOrigin;

const NAME: &str = "read_only_state";

/// A server without a leader begins to serve reads at this state.
pub(super) fn check_service(
    checker: &Checker,
    server: usize,
    last: i64,
    digest: i64,
    origin: TreeOrigin,
) -> CheckResult {
    let view = &checker.servers[server];
    if view.untrusted {
        let text = format!("server {server} serves reads, and may have lost transactions");
        return Err(Violation::new(NAME, text));
    }
    if checker.is_committed(last) {
        return g22_replica_equality::check_state(checker, server, last, digest);
    }
    if origin == TreeOrigin::Loaded && (last <= view.base || view.entry(last).is_some()) {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("server {server} serves reads at {last:#x}, which was never committed")))
}

/// A read-only server shows a state to a client: the one with which it began.
pub(crate) fn check_unchanged(server: usize, began_at: Zxid, last: Zxid) -> CheckResult {
    if last == began_at {
        return Ok(());
    }
    let text = format!("server {server} began to serve reads at {began_at}, and shows {last}");
    Err(Violation::new(NAME, text))
}

/// The answer to a call of a session at a read-only server, or to a write that was refused as if.
pub(super) fn check_answer(checker: &Checker, index: usize, answer: &ServerReply) -> CheckResult {
    let call = &checker.calls[index];
    let Some(session) = call.sent.and_then(|sent| checker.sessions.get(&sent.session)) else { return Ok(()) };
    let needs_leader = call.operation.is_write() || matches!(*call.operation, Operation::Sync(_));
    let is_refused = answer.code == ErrorCode::NotReadOnly.wire();
    let expected = session.mode == ServerMode::ReadOnly && needs_leader;
    if is_refused == expected {
        return Ok(());
    }
    let text = format!("{:?} was answered {} by a {:?} server", call.operation, answer.code, session.mode);
    Err(Violation::new(NAME, text))
}

/// Checks that no refused write was carried out.
pub(super) fn check_end(checker: &Checker) -> CheckResult {
    for call in &checker.calls {
        let Some(CallEnd::Answered { code, .. }) = call.end else { continue };
        if let Some(place) = call.place.filter(|_| code == ErrorCode::NotReadOnly.wire()) {
            let text = format!("{:?} was refused as a write, and is {place:#x}", call.operation);
            return Err(Violation::new(NAME, text));
        }
    }
    Ok(())
}
