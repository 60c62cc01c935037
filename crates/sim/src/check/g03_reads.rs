//! G3: a read shows the state after exactly the transaction that its answer names, whole: data, stat,
//! children, permissions.

use zebu_client::core::Answer;
use zebu_proto::client::reply::{GetAclResponse, GetChildren2Response, GetDataResponse};
use zebu_proto::client::{MultiReply, decode_multi_replies};
use zebu_proto::{ErrorCode, Jute, Reader, Stat};

use super::{Judge, config_reads};
use crate::history::{Verdict, Violation};
use crate::model::Expected;
use crate::operation::{Operation, Path, Read};

const NAME: &str = "g03_reads";

pub(super) fn check_answer(judge: &Judge, index: usize, answer: &Answer) -> Verdict {
    let call = &judge.calls[index];
    let Operation::Read { read, .. } = &*call.operation else { return Ok(()) };
    let Some(sent) = call.sent else { return Ok(()) };
    if config_reads::is_of_first_list(judge, read, answer.zxid) {
        return config_reads::check_answer(judge, answer);
    }
    let expected = sorted(judge.ledger.model.read(read, sent.session, answer.zxid));
    let found = sorted(said(read, answer));
    if expected == found {
        return Ok(());
    }
    let text = format!("{read:?} was answered {found:?} at {:#x}, where it is {expected:?}", answer.zxid);
    Err(Violation::new(NAME, text))
}

/// Names come in any order.
fn sorted(mut expected: Expected) -> Expected {
    match &mut expected {
        Expected::Names(names) | Expected::NamesAndStat(names, _) => names.sort(),
        Expected::Paths(paths) => paths.sort(),
        Expected::Several(each) => {
            *each = std::mem::take(each).into_iter().map(sorted).collect();
        }
        _ => {}
    }
    expected
}

fn said(read: &Read, answer: &Answer) -> Expected {
    if answer.code != 0 {
        return error(answer.code);
    }
    let mut reader = Reader::new(&answer.body);
    decode(read, &mut reader).unwrap_or(Expected::Error(ErrorCode::MarshallingError))
}

fn error(code: i32) -> Expected {
    Expected::Error(ErrorCode::from_wire(code).unwrap_or(ErrorCode::MarshallingError))
}

fn decode(read: &Read, reader: &mut Reader<'_>) -> Result<Expected, zebu_proto::DecodeError> {
    Ok(match read {
        Read::Get(_) => {
            let response = GetDataResponse::decode(reader)?;
            Expected::Data(response.data, response.stat)
        }
        Read::Exists(_) => Expected::Stat(Stat::decode(reader)?),
        Read::Children(_) => Expected::Names(Jute::decode(reader)?),
        Read::ChildrenAndStat(_) => {
            let response = GetChildren2Response::decode(reader)?;
            Expected::NamesAndStat(response.children, response.stat)
        }
        Read::Acl(_) => {
            let response = GetAclResponse::decode(reader)?;
            let permissions = response.acl.iter().fold(0, |sum, acl| sum | acl.perms);
            Expected::Permissions(permissions, response.stat)
        }
        Read::DescendantCount(_) => Expected::Count(i32::decode(reader)?),
        Read::Ephemerals(_) => {
            let paths: Vec<Box<str>> = Jute::decode(reader)?;
            Expected::Paths(paths.into_iter().map(Path::from).collect())
        }
        Read::Several(_) => {
            let each = |reply: MultiReply| match reply {
                MultiReply::Error(code) => error(code),
                MultiReply::GetData(response) => Expected::Data(response.data, response.stat),
                MultiReply::GetChildren(names) => Expected::Names(names),
                _ => Expected::Error(ErrorCode::MarshallingError),
            };
            Expected::Several(decode_multi_replies(reader)?.into_iter().map(each).collect())
        }
    })
}
