//! G3: a read shows the complete state after exactly the transaction that its reply names: data, stat,
//! children, ACLs.

use zebu_client::core::ServerReply;
use zebu_proto::client::reply::{GetAclResponse, GetChildren2Response, GetDataResponse};
use zebu_proto::client::{MultiReply, decode_multi_replies};
use zebu_proto::{ErrorCode, Jute, Reader, Stat};

use super::{Checker, ServerMode, config_reads, listings};
use crate::history::{CheckResult, Violation};
use crate::model::ExpectedRead;
use crate::operation::{NodePath, Operation, ReadOperation};

const NAME: &str = "g03_reads";

pub(super) fn check_answer(checker: &Checker, index: usize, answer: &ServerReply) -> CheckResult {
    let call = &checker.calls[index];
    let Operation::Read { read, .. } = &*call.operation else { return Ok(()) };
    let Some(sent) = call.sent else { return Ok(()) };
    if config_reads::is_of_first_config(checker, read, answer.zxid) {
        // A read-only server that never had a leader shows the config of its own files.
        if checker.mode_of(sent.session) == ServerMode::ReadOnly {
            return Ok(());
        }
        return config_reads::check_answer(checker, answer);
    }
    let mode = checker.mode_of(sent.session);
    if config_reads::may_be_later(checker, mode, answer.zxid)
        && config_reads::is_of_later_config(checker, read, answer)
    {
        return Ok(());
    }
    if let ReadOperation::Listing(listing) = read {
        return listings::check_answer(&checker.committed.model, listing, answer);
    }
    let expected = sorted(checker.committed.model.read(read, sent.session, answer.zxid));
    let found = sorted(said(read, answer));
    if expected == found {
        return Ok(());
    }
    let text = format!("{read:?} was answered {found:?} at {:#x}, where it is {expected:?}", answer.zxid);
    Err(Violation::new(NAME, text))
}

/// Sorts the names of children, which come in any order.
fn sorted(mut expected: ExpectedRead) -> ExpectedRead {
    match &mut expected {
        ExpectedRead::Names(names) | ExpectedRead::NamesAndStat(names, _) => names.sort(),
        ExpectedRead::Paths(paths) => paths.sort(),
        ExpectedRead::Several(each) => {
            *each = std::mem::take(each).into_iter().map(sorted).collect();
        }
        _ => {}
    }
    expected
}

fn said(read: &ReadOperation, answer: &ServerReply) -> ExpectedRead {
    if answer.code != 0 {
        return error(answer.code);
    }
    let mut reader = Reader::new(&answer.body);
    decode(read, &mut reader).unwrap_or(ExpectedRead::Error(ErrorCode::MarshallingError))
}

fn error(code: i32) -> ExpectedRead {
    ExpectedRead::Error(ErrorCode::from_wire(code).unwrap_or(ErrorCode::MarshallingError))
}

fn decode(read: &ReadOperation, reader: &mut Reader<'_>) -> Result<ExpectedRead, zebu_proto::DecodeError> {
    Ok(match read {
        ReadOperation::Get(_) => {
            let response = GetDataResponse::decode(reader)?;
            ExpectedRead::Data(response.data, response.stat)
        }
        ReadOperation::Exists(_) => ExpectedRead::Stat(Stat::decode(reader)?),
        ReadOperation::Children(_) => ExpectedRead::Names(Jute::decode(reader)?),
        ReadOperation::ChildrenAndStat(_) => {
            let response = GetChildren2Response::decode(reader)?;
            ExpectedRead::NamesAndStat(response.children, response.stat)
        }
        ReadOperation::Acl(_) => {
            let response = GetAclResponse::decode(reader)?;
            let permissions = response.acl.iter().fold(0, |sum, acl| sum | acl.perms);
            ExpectedRead::Permissions(permissions, response.stat)
        }
        ReadOperation::DescendantCount(_) => ExpectedRead::Count(i32::decode(reader)?),
        ReadOperation::Ephemerals(_) => {
            let paths: Vec<Box<str>> = Jute::decode(reader)?;
            ExpectedRead::Paths(paths.into_iter().map(NodePath::from).collect())
        }
        // Checked apart.
        ReadOperation::Listing(_) => ExpectedRead::Error(ErrorCode::Unimplemented),
        ReadOperation::Several(_) => {
            let each = |reply: MultiReply| match reply {
                MultiReply::Error(code) => error(code),
                MultiReply::GetData(response) => ExpectedRead::Data(response.data, response.stat),
                MultiReply::GetChildren(names) => ExpectedRead::Names(names),
                _ => ExpectedRead::Error(ErrorCode::MarshallingError),
            };
            ExpectedRead::Several(decode_multi_replies(reader)?.into_iter().map(each).collect())
        }
    })
}
