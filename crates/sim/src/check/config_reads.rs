//! The list of members that a client reads is the one of the state that the answer names. The first list of all has
//! a version that no transaction has, so the history does not know it: it is compared with what the servers began with.

use zebu_client::core::Answer;
use zebu_proto::client::reply::GetDataResponse;
use zebu_proto::{Jute, Reader, Zxid};

use super::Judge;
use crate::history::{Verdict, Violation};
use crate::members::{CONFIG, List};
use crate::operation::Read;

const NAME: &str = "config_reads";

/// Whether a read shows the first list, and is judged here.
pub(super) fn is_of_first_list(judge: &Judge, read: &Read, zxid: i64) -> bool {
    matches!(read, Read::Get(path) if &**path == CONFIG) && judge.ledger.chronicle.before(zxid + 1).is_none()
}

/// The node that a serving member has of the list, after some transaction.
pub(super) fn check_node(judge: &Judge, server: usize, last: i64, text: Option<&[u8]>) -> Verdict {
    let shown = text.and_then(|text| List::read(std::str::from_utf8(text).ok()?));
    let expected = judge.ledger.chronicle.before(last + 1);
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

/// A first list is named after an epoch: that of the first leader who was elected, whether he came to lead or not. That
/// is not always before the state that an answer names: if all have lost the name, a later leader gives one, and the
/// state is that of an earlier epoch until somebody writes.
fn is_named_after_epoch(judge: &Judge, version: Zxid) -> bool {
    let led = judge.leaders.last_key_value();
    version.counter() == 0 && led.is_some_and(|(led, _)| version.epoch() <= *led)
}

pub(super) fn check_answer(judge: &Judge, answer: &Answer) -> Verdict {
    let response = GetDataResponse::decode(&mut Reader::new(&answer.body)).ok();
    let shown = response.as_ref().and_then(|response| response.data.as_deref());
    let list = shown.and_then(|data| List::read(std::str::from_utf8(data).ok()?));
    let first = judge.ledger.chronicle.first();
    let holds = response.as_ref().zip(list.as_ref()).is_some_and(|(response, list)| {
        list.seats == first.seats
            && list.groups == first.groups
            && list.version == response.stat.mzxid
            && is_named_after_epoch(judge, Zxid(list.version))
    });
    if holds && answer.code == 0 {
        return Ok(());
    }
    let text = format!("the first list was shown as {list:?} at {:#x}, with {}", answer.zxid, answer.code);
    Err(Violation::new(NAME, text))
}
