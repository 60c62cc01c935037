//! G6: a multi is applied as a whole or not at all. In its reply either every result is a success or every
//! result is an error. G3 and G22 check that no intermediate state is ever shown.

use zebu_client::core::ServerReply;
use zebu_proto::Reader;
use zebu_proto::client::{MultiReply, decode_multi_replies};

use crate::history::{CheckResult, Violation};
use crate::operation::Operation;

const NAME: &str = "g06_atomicity";

pub(super) fn check_answer(operation: &Operation, answer: &ServerReply) -> CheckResult {
    let Operation::Multi(writes) = operation else { return Ok(()) };
    if answer.code != 0 {
        return Ok(());
    }
    let replies = decode_multi_replies(&mut Reader::new(&answer.body)).unwrap_or_default();
    let errors = replies.iter().filter(|reply| matches!(reply, MultiReply::Error(_))).count();
    if replies.len() == writes.len() && (errors == 0 || errors == replies.len()) {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("{writes:?} was answered {replies:?}")))
}
