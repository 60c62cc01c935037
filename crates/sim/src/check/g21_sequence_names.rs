//! G21: the counter in a sequential name is the number of children that were created before it. Names are
//! therefore unique. The model checks this too; this file checks it from the reply alone.

use zebu_client::core::ServerReply;
use zebu_proto::{Jute, Reader};

use super::Checker;
use crate::history::{CheckResult, Violation};
use crate::operation::{Operation, WriteOperation};

const NAME: &str = "g21_sequence_names";

pub(super) fn check_answer(checker: &Checker, operation: &Operation, answer: &ServerReply) -> CheckResult {
    let Operation::Write(WriteOperation::Create { path, mode, .. }) = operation else { return Ok(()) };
    if answer.code != 0 || !mode.is_sequential() {
        return Ok(());
    }
    let given = Box::<str>::decode(&mut Reader::new(&answer.body)).unwrap_or_default();
    let counter = given.strip_prefix(&**path).filter(|counter| counter.len() == 10);
    // Created by this transaction and not by an earlier one.
    let node = checker.committed.model.at(&given, answer.zxid);
    if counter.is_some() && node.is_some_and(|node| node.created.0 == answer.zxid) {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("{path} was given the name {given} at {:#x}", answer.zxid)))
}
