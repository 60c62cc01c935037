//! G1: writes are linearizable. Each write has its own position in the one history. A write that was called
//! after another was answered comes after it. Each reply is the result of the write at its position. The
//! committed history checks the results of requests when a transaction is committed.

use zebu_client::core::ServerReply;
use zebu_proto::client::{
    CreateOp, DeleteTreeReply, KeeperPart, KeeperWrite, MultiReply, decode_multi_replies,
};
use zebu_proto::{ErrorCode, Jute, Reader, Stat};

use super::Checker;
use crate::history::{CheckResult, Violation};
use crate::model::ModelEffect;
use crate::operation::Operation;

const NAME: &str = "g01_linearizable_writes";

/// Error codes of replies that are given without a transaction.
pub(super) fn has_no_zxid(code: i32) -> bool {
    let codes = [
        ErrorCode::SessionMoved,
        ErrorCode::SessionExpired,
        ErrorCode::ThrottledOp,
        // `read_only_state`, `local_sessions` and `g27_room_on_disk` check who says that.
        ErrorCode::NotReadOnly,
        ErrorCode::EphemeralOnLocalSession,
        ErrorCode::SystemError,
    ];
    codes.into_iter().any(|it| it.wire() == code)
}

pub(super) fn check_answer(checker: &Checker, index: usize, answer: &ServerReply) -> CheckResult {
    let call = &checker.calls[index];
    let Some(place) = call.place else {
        if has_no_zxid(answer.code) {
            return Ok(());
        }
        let text = format!("{:?} was answered {} without a transaction", call.operation, answer.code);
        return Err(Violation::new(NAME, text));
    };
    if answer.zxid != place {
        let text = format!("{:?} is {place:#x}, but was answered as {:#x}", call.operation, answer.zxid);
        return Err(Violation::new(NAME, text));
    }
    if place <= call.acked_before {
        let text = format!(
            "{:?} was called after {:#x} was answered, but stands before it, at {place:#x}",
            call.operation, call.acked_before
        );
        return Err(Violation::new(NAME, text));
    }
    let Some(committed) = checker.committed.get(place) else { return Ok(()) };
    let expected = expected_answer(&call.operation, &committed.effects);
    let found = found_answer(&call.operation, answer);
    if expected == found {
        return Ok(());
    }
    let text = format!("{:?} at {place:#x} was answered {found:?}, not {expected:?}", call.operation);
    Err(Violation::new(NAME, text))
}

#[derive(Debug, PartialEq)]
enum WriteReply {
    Error(i32),
    Path(String),
    PathAndStat(String, Stat),
    Stat(Stat),
    DataAndStat(Vec<u8>, Stat),
    TreeDeleted(i64, bool),
    Nothing,
    Each(Vec<MultiReply>),
    Garbage(String),
}

fn expected_answer(operation: &Operation, effects: &[ModelEffect]) -> WriteReply {
    match operation {
        // Refused as a whole: the transaction would be too long, the request does not decode, or no quorum
        // has room for it.
        Operation::Multi(_)
            if let [ModelEffect::Error(code @ (ErrorCode::MarshallingError | ErrorCode::SystemError))] =
                effects =>
        {
            WriteReply::Error(code.wire())
        }
        Operation::Multi(writes) => {
            let failed = effects.iter().position(|effect| matches!(effect, ModelEffect::Error(_)));
            let each = |index: usize| match (failed, effects.get(index)) {
                (None, Some(effect)) => multi_reply(effect),
                (Some(at), Some(ModelEffect::Error(code))) if at == index => MultiReply::Error(code.wire()),
                (Some(at), _) if index < at => MultiReply::Error(0),
                _ => MultiReply::Error(ErrorCode::RuntimeInconsistency.wire()),
            };
            WriteReply::Each((0..writes.len()).map(each).collect())
        }
        _ => match effects.first() {
            Some(ModelEffect::Error(code)) => WriteReply::Error(code.wire()),
            Some(ModelEffect::Created { path, answer: CreateOp::Create, .. }) => {
                WriteReply::Path(path.to_string())
            }
            Some(ModelEffect::Existed { path }) => WriteReply::Path(path.to_string()),
            Some(ModelEffect::TreeDeleted { deleted, more }) => WriteReply::TreeDeleted(*deleted, *more),
            Some(ModelEffect::Created { path, stat, .. }) => WriteReply::PathAndStat(path.to_string(), *stat),
            Some(ModelEffect::Set { stat, .. } | ModelEffect::AclSet { stat, .. }) => WriteReply::Stat(*stat),
            Some(ModelEffect::Reconfigured { data, stat }) => WriteReply::DataAndStat(data.to_vec(), *stat),
            Some(ModelEffect::Deleted { .. } | ModelEffect::Checked) | None => WriteReply::Nothing,
        },
    }
}

fn multi_reply(effect: &ModelEffect) -> MultiReply {
    match effect {
        ModelEffect::Error(code) => MultiReply::Error(code.wire()),
        ModelEffect::Created { path, answer: CreateOp::Create, .. } => MultiReply::Create(Box::from(&**path)),
        ModelEffect::Existed { path } => MultiReply::Create(Box::from(&**path)),
        ModelEffect::Created { path, stat, .. } => {
            let path = Some(Box::from(&**path));
            MultiReply::Create2(zebu_proto::client::reply::Create2Response { path, stat: *stat })
        }
        ModelEffect::Deleted { .. } => MultiReply::Delete,
        ModelEffect::Set { stat, .. } | ModelEffect::AclSet { stat, .. } => MultiReply::SetData(*stat),
        // A multi contains no reconfig and no deltree.
        ModelEffect::Checked | ModelEffect::Reconfigured { .. } | ModelEffect::TreeDeleted { .. } => {
            MultiReply::Check
        }
    }
}

fn found_answer(operation: &Operation, answer: &ServerReply) -> WriteReply {
    if answer.code != 0 {
        return WriteReply::Error(answer.code);
    }
    let mut reader = Reader::new(&answer.body);
    let reader = &mut reader;
    use crate::operation::WriteOperation;
    let said = match operation {
        Operation::Multi(_) => decode_multi_replies(reader).map(WriteReply::Each),
        Operation::Write(WriteOperation::Create { op: CreateOp::Create, .. }) => {
            Box::<str>::decode(reader).map(|path| WriteReply::Path(path.into()))
        }
        Operation::Write(WriteOperation::Keeper(part)) => match &**part {
            KeeperPart::Write(KeeperWrite::CreateIfNotExists(_)) => {
                Box::<str>::decode(reader).map(|path| WriteReply::Path(path.into()))
            }
            KeeperPart::Write(_) | KeeperPart::Check(_) => Ok(WriteReply::Nothing),
        },
        Operation::DeleteTree(_) => {
            DeleteTreeReply::decode(reader).map(|reply| WriteReply::TreeDeleted(reply.deleted, reply.more))
        }
        Operation::Write(WriteOperation::Create { .. }) => Box::<str>::decode(reader)
            .and_then(|path| Ok(WriteReply::PathAndStat(path.into(), Stat::decode(reader)?))),
        Operation::Write(WriteOperation::Set { .. } | WriteOperation::SetAcl { .. }) => {
            Stat::decode(reader).map(WriteReply::Stat)
        }
        Operation::Reconfig { .. } => zebu_proto::client::reply::GetDataResponse::decode(reader)
            .map(|it| WriteReply::DataAndStat(it.data.as_deref().unwrap_or_default().to_vec(), it.stat)),
        _ => Ok(WriteReply::Nothing),
    };
    said.unwrap_or_else(|error| WriteReply::Garbage(error.to_string()))
}
