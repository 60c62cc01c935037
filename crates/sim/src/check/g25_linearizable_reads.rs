//! G25: a linearizable read shows everything that any client had seen before it was called: the effect of a
//! write that was answered, and every state that an answer or an event has shown. A read with a least zxid
//! shows that transaction. A read with an age shows what was committed that long before.

use zebu_client::core::ServerReply;
use zebu_proto::ErrorCode;
use zebu_proto::client::Freshness;

use super::{Checker, ServerMode};
use crate::history::{CheckResult, ClientCall, Violation};
use crate::operation::Operation;
use crate::queue::{MS, VirtualTime};

const NAME: &str = "g25_linearizable_reads";

/// A server counts whole milliseconds: at the beginning of a check, and when the read comes.
const ROUNDING: VirtualTime = 2 * MS;

/// Whether the server refused the read for its freshness. Other checks do not know this answer.
pub(super) fn is_refusal(operation: &Operation, answer: &ServerReply) -> bool {
    let Operation::Read { freshness, .. } = operation else { return false };
    let refusals = [ErrorCode::Unimplemented, ErrorCode::OperationTimeout];
    !freshness.is_any() && refusals.iter().any(|code| code.wire() == answer.code)
}

pub(super) fn check_answer(checker: &Checker, index: usize, answer: &ServerReply) -> CheckResult {
    let call = &checker.calls[index];
    let Operation::Read { freshness, .. } = &*call.operation else { return Ok(()) };
    if freshness.is_any() {
        return Ok(());
    }
    if is_refusal(&call.operation, answer) {
        return check_refusal(checker, call, *freshness, answer);
    }
    let expected = expected_zxid(checker, call, *freshness);
    if answer.zxid >= expected {
        return Ok(());
    }
    let text =
        format!("{:?} had to show {expected:#x}, and shows the state of {:#x}", call.operation, answer.zxid);
    Err(Violation::new(NAME, text))
}

fn expected_zxid(checker: &Checker, call: &ClientCall, freshness: Freshness) -> i64 {
    let seen = if freshness.linearizable { call.acked_before.max(call.seen_before) } else { 0 };
    let least = freshness.min_zxid.map_or(0, |zxid| zxid.0);
    let old = freshness.max_age_ms.map_or(0, |age_ms| {
        let age = age_ms as VirtualTime * MS + ROUNDING;
        committed_by(checker, call.at.saturating_sub(age))
    });
    seen.max(least).max(old)
}

/// The last transaction that a server had applied at a moment.
fn committed_by(checker: &Checker, moment: VirtualTime) -> i64 {
    let count = checker.committed_at.partition_point(|at| *at <= moment);
    checker.committed.entries()[..count].last().map_or(0, |entry| entry.zxid)
}

/// All servers of a run are Zebu servers: only a read-only one cannot ask its leader.
fn check_refusal(
    checker: &Checker,
    call: &ClientCall,
    freshness: Freshness,
    answer: &ServerReply,
) -> CheckResult {
    let mode = call.sent.map_or(ServerMode::ReadWrite, |sent| checker.mode_of(sent.session));
    let needs_leader = freshness.linearizable || freshness.max_age_ms.is_some();
    let is_expected = if answer.code == ErrorCode::Unimplemented.wire() {
        needs_leader && mode == ServerMode::ReadOnly
    } else {
        freshness.min_zxid.is_some()
    };
    if is_expected {
        return Ok(());
    }
    let text = format!("{:?} was answered {} by a {mode:?} server", call.operation, answer.code);
    Err(Violation::new(NAME, text))
}
