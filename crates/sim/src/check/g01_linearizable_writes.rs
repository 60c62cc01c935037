//! G1: writes are linearizable. Each has a place of its own in the one history; a write that was called
//! after another was answered stands behind it; and each answer is what the write comes to at its place.
//! That requests come to what they must is checked by the ledger when a transaction is committed.

use zebu_client::core::Answer;
use zebu_proto::client::{CreateOp, MultiReply, decode_multi_replies};
use zebu_proto::{ErrorCode, Jute, Reader, Stat};

use super::Judge;
use crate::history::{Verdict, Violation};
use crate::model::Effect;
use crate::operation::Operation;

const NAME: &str = "g01_linearizable_writes";

/// Answers that are given without a transaction.
pub(super) fn has_no_place(code: i32) -> bool {
    let codes = [ErrorCode::SessionMoved, ErrorCode::SessionExpired, ErrorCode::ThrottledOp];
    codes.into_iter().any(|it| it.wire() == code)
}

pub(super) fn check_answer(judge: &Judge, index: usize, answer: &Answer) -> Verdict {
    let call = &judge.calls[index];
    let Some(place) = call.place else {
        if has_no_place(answer.code) {
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
    let Some(committed) = judge.ledger.get(place) else { return Ok(()) };
    let expected = expected_answer(&call.operation, &committed.effects);
    let found = found_answer(&call.operation, answer);
    if expected == found {
        return Ok(());
    }
    let text = format!("{:?} at {place:#x} was answered {found:?}, not {expected:?}", call.operation);
    Err(Violation::new(NAME, text))
}

#[derive(Debug, PartialEq)]
enum Said {
    Error(i32),
    Path(String),
    PathAndStat(String, Stat),
    Stat(Stat),
    DataAndStat(Vec<u8>, Stat),
    Nothing,
    Each(Vec<MultiReply>),
    Garbage(String),
}

fn expected_answer(operation: &Operation, effects: &[Effect]) -> Said {
    match operation {
        // Refused as a whole: it would have been too long, or does not decode.
        Operation::Multi(_) if matches!(effects, [Effect::Error(ErrorCode::MarshallingError)]) => {
            Said::Error(ErrorCode::MarshallingError.wire())
        }
        Operation::Multi(writes) => {
            let failed = effects.iter().position(|effect| matches!(effect, Effect::Error(_)));
            let each = |index: usize| match (failed, effects.get(index)) {
                (None, Some(effect)) => multi_reply(effect),
                (Some(at), Some(Effect::Error(code))) if at == index => MultiReply::Error(code.wire()),
                (Some(at), _) if index < at => MultiReply::Error(0),
                _ => MultiReply::Error(ErrorCode::RuntimeInconsistency.wire()),
            };
            Said::Each((0..writes.len()).map(each).collect())
        }
        _ => match effects.first() {
            Some(Effect::Error(code)) => Said::Error(code.wire()),
            Some(Effect::Created { path, answer: CreateOp::Create, .. }) => Said::Path(path.to_string()),
            Some(Effect::Created { path, stat, .. }) => Said::PathAndStat(path.to_string(), *stat),
            Some(Effect::Set { stat, .. } | Effect::AclSet { stat, .. }) => Said::Stat(*stat),
            Some(Effect::Reconfigured { data, stat }) => Said::DataAndStat(data.to_vec(), *stat),
            Some(Effect::Deleted { .. } | Effect::Checked) | None => Said::Nothing,
        },
    }
}

fn multi_reply(effect: &Effect) -> MultiReply {
    match effect {
        Effect::Error(code) => MultiReply::Error(code.wire()),
        Effect::Created { path, answer: CreateOp::Create, .. } => MultiReply::Create(Box::from(&**path)),
        Effect::Created { path, stat, .. } => {
            let path = Some(Box::from(&**path));
            MultiReply::Create2(zebu_proto::client::reply::Create2Response { path, stat: *stat })
        }
        Effect::Deleted { .. } => MultiReply::Delete,
        Effect::Set { stat, .. } | Effect::AclSet { stat, .. } => MultiReply::SetData(*stat),
        // A change of the members is in no multi.
        Effect::Checked | Effect::Reconfigured { .. } => MultiReply::Check,
    }
}

fn found_answer(operation: &Operation, answer: &Answer) -> Said {
    if answer.code != 0 {
        return Said::Error(answer.code);
    }
    let mut reader = Reader::new(&answer.body);
    let reader = &mut reader;
    use crate::operation::Write;
    let said = match operation {
        Operation::Multi(_) => decode_multi_replies(reader).map(Said::Each),
        Operation::Write(Write::Create { op: CreateOp::Create, .. }) => {
            Box::<str>::decode(reader).map(|path| Said::Path(path.into()))
        }
        Operation::Write(Write::Create { .. }) => Box::<str>::decode(reader)
            .and_then(|path| Ok(Said::PathAndStat(path.into(), Stat::decode(reader)?))),
        Operation::Write(Write::Set { .. } | Write::SetAcl { .. }) => Stat::decode(reader).map(Said::Stat),
        Operation::Reconfig { .. } => zebu_proto::client::reply::GetDataResponse::decode(reader)
            .map(|it| Said::DataAndStat(it.data.as_deref().unwrap_or_default().to_vec(), it.stat)),
        _ => Ok(Said::Nothing),
    };
    said.unwrap_or_else(|error| Said::Garbage(error.to_string()))
}
