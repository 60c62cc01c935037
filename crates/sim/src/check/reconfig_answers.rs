//! The answer to a change of the members is the new list, and its version is the place of its transaction. The model
//! decides; this is the plain statement beside it, from the answer alone.

use zebu_client::core::Answer;
use zebu_proto::client::reply::GetDataResponse;
use zebu_proto::{Jute, Reader};

use crate::history::{Verdict, Violation};
use crate::members::List;
use crate::operation::Operation;

const NAME: &str = "reconfig_answers";

pub(super) fn check_answer(operation: &Operation, answer: &Answer) -> Verdict {
    if !matches!(operation, Operation::Reconfig { .. }) || answer.code != 0 {
        return Ok(());
    }
    let response = GetDataResponse::decode(&mut Reader::new(&answer.body)).ok();
    let shown = response.as_ref().and_then(|response| response.data.as_deref());
    let list = shown.and_then(|data| List::read(std::str::from_utf8(data).ok()?));
    let versions = (list.map(|list| list.version), response.map(|response| response.stat.mzxid));
    if versions == (Some(answer.zxid), Some(answer.zxid)) {
        return Ok(());
    }
    let text =
        format!("a change of the members at {:#x} was answered with versions {versions:x?}", answer.zxid);
    Err(Violation::new(NAME, text))
}
