//! The reply to a reconfig is the new config, and its version is the zxid of its transaction. The model
//! checks this too; this file checks it from the reply alone.

use zebu_client::core::ServerReply;
use zebu_proto::client::reply::GetDataResponse;
use zebu_proto::{Jute, Reader};

use crate::history::{CheckResult, Violation};
use crate::members::EnsembleConfig;
use crate::operation::Operation;

const NAME: &str = "reconfig_answers";

pub(super) fn check_answer(operation: &Operation, answer: &ServerReply) -> CheckResult {
    if !matches!(operation, Operation::Reconfig { .. }) || answer.code != 0 {
        return Ok(());
    }
    let response = GetDataResponse::decode(&mut Reader::new(&answer.body)).ok();
    let shown = response.as_ref().and_then(|response| response.data.as_deref());
    let list = shown.and_then(|data| EnsembleConfig::read(std::str::from_utf8(data).ok()?));
    let versions = (list.map(|list| list.version), response.map(|response| response.stat.mzxid));
    if versions == (Some(answer.zxid), Some(answer.zxid)) {
        return Ok(());
    }
    let text =
        format!("a change of the members at {:#x} was answered with versions {versions:x?}", answer.zxid);
    Err(Violation::new(NAME, text))
}
