//! The config that a client reads is the one of the state that the reply names. No transaction has the
//! version of the first config, so the committed history does not contain it. This check compares it with the
//! config that the servers started with.

use zebu_client::core::ServerReply;
use zebu_proto::client::reply::GetDataResponse;
use zebu_proto::{Jute, Reader, Zxid};

use super::{Checker, ServerMode};
use crate::history::{CheckResult, Violation};
use crate::members::{CONFIG, EnsembleConfig};
use crate::operation::ReadOperation;

const NAME: &str = "config_reads";

/// Whether a read shows the first config, which is checked here.
pub(super) fn is_of_first_config(checker: &Checker, read: &ReadOperation, zxid: i64) -> bool {
    matches!(read, ReadOperation::Get(path) if &**path == CONFIG)
        && checker.committed.configs.before(zxid + 1).is_none()
}

/// Whether a read-only server may show a config that is later than a state. A server learns configs in
/// elections without their transactions, and shows the last one after a restart, as ZooKeeper's servers do.
pub(super) fn may_be_later(checker: &Checker, mode: ServerMode, zxid: i64) -> bool {
    mode == ServerMode::ReadOnly && checker.committed.configs.last().version > zxid
}

/// Whether the reply of a read-only server shows exactly such a config.
pub(super) fn is_of_later_config(checker: &Checker, read: &ReadOperation, answer: &ServerReply) -> bool {
    let (Some(response), Some(list)) = decode_config(answer) else { return false };
    matches!(read, ReadOperation::Get(path) if &**path == CONFIG)
        && answer.code == 0
        && list.version > answer.zxid
        && list.version == response.stat.mzxid
        && checker.committed.configs.at(list.version) == Some(&list)
}

/// Checks the config node of a serving server after some transaction.
pub(super) fn check_node(checker: &Checker, server: usize, last: i64, text: Option<&[u8]>) -> CheckResult {
    let shown = text.and_then(|text| EnsembleConfig::read(std::str::from_utf8(text).ok()?));
    let expected = checker.committed.configs.before(last + 1);
    let holds = match (expected, &shown) {
        (Some(expected), Some(shown)) => expected == shown,
        (None, Some(shown)) => Zxid(shown.version).counter() == 0,
        (_, None) => false,
    };
    if holds {
        return Ok(());
    }
    let text = format!("server {server} shows {shown:?} at {last:#x}, where it is {expected:?}");
    Err(Violation::new(NAME, text))
}

/// The version of the first config is an epoch: that of the first elected leader, whether it came to lead or
/// not. This epoch may be later than the state that a reply names. If all servers lose the version, a later
/// leader assigns one, and the state stays in an earlier epoch until the next write.
fn is_named_after_epoch(checker: &Checker, version: Zxid) -> bool {
    let led = checker.leaders.last_key_value();
    version.counter() == 0 && led.is_some_and(|(led, _)| version.epoch() <= *led)
}

fn decode_config(answer: &ServerReply) -> (Option<GetDataResponse>, Option<EnsembleConfig>) {
    let response = GetDataResponse::decode(&mut Reader::new(&answer.body)).ok();
    let shown = response.as_ref().and_then(|response| response.data.as_deref());
    let list = shown.and_then(|data| EnsembleConfig::read(std::str::from_utf8(data).ok()?));
    (response, list)
}

pub(super) fn check_answer(checker: &Checker, answer: &ServerReply) -> CheckResult {
    let (response, list) = decode_config(answer);
    let first = checker.committed.configs.first();
    let holds = response.as_ref().zip(list.as_ref()).is_some_and(|(response, list)| {
        list.servers == first.servers
            && list.groups == first.groups
            && list.version == response.stat.mzxid
            && is_named_after_epoch(checker, Zxid(list.version))
    });
    if holds && answer.code == 0 {
        return Ok(());
    }
    let text = format!("the first list was shown as {list:?} at {:#x}, with {}", answer.zxid, answer.code);
    Err(Violation::new(NAME, text))
}
