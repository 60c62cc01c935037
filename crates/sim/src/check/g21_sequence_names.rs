//! G21: the counter in a sequential name is the number of children that were created before it, so that
//! names are never given twice. The model decides; this is the plain statement beside it.

use zebu_client::core::Answer;
use zebu_proto::{Jute, Reader};

use super::Judge;
use crate::history::{Verdict, Violation};
use crate::operation::{Operation, Write};

const NAME: &str = "g21_sequence_names";

pub(super) fn check_answer(judge: &Judge, operation: &Operation, answer: &Answer) -> Verdict {
    let Operation::Write(Write::Create { path, mode, .. }) = operation else { return Ok(()) };
    if answer.code != 0 || !mode.is_sequential() {
        return Ok(());
    }
    let given = Box::<str>::decode(&mut Reader::new(&answer.body)).unwrap_or_default();
    let counter = given.strip_prefix(&**path).filter(|counter| counter.len() == 10);
    // Created by this transaction and not by an earlier one.
    let node = judge.ledger.model.at(&given, answer.zxid);
    if counter.is_some() && node.is_some_and(|node| node.created.0 == answer.zxid) {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("{path} was given the name {given} at {:#x}", answer.zxid)))
}
