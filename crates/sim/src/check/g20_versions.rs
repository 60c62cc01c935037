//! G20: a write that names a version succeeds at that version only. The model checks this too; this file
//! checks it from the reply alone.

use zebu_client::core::ServerReply;
use zebu_proto::{Jute, Reader, Stat};

use crate::history::{CheckResult, Violation};
use crate::operation::{Operation, WriteOperation};

const NAME: &str = "g20_versions";

pub(super) fn check_answer(operation: &Operation, answer: &ServerReply) -> CheckResult {
    let Operation::Write(WriteOperation::Set { version, path, .. }) = operation else { return Ok(()) };
    if answer.code != 0 || *version == -1 {
        return Ok(());
    }
    let stat = Stat::decode(&mut Reader::new(&answer.body)).unwrap_or_default();
    if stat.version == version + 1 {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("{path} was set at version {version} and has {} now", stat.version)))
}
