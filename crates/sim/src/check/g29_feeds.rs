//! G29: a feed shows every committed transaction that changes something below its paths exactly once and in
//! order, and nothing else. Its batches follow each other, also over lost connections, other servers and
//! other leaders. A feed with credit at a server without faults catches up (`world/client_feeds`).

use std::collections::BTreeMap;

use zebu_proto::client::{ChangeKind, CreatedOwner, FeedBatch, FeedChange, FeedOpen, FeedRecord};
use zebu_proto::txn::Txn;

use super::Checker;
use crate::committed_history::CommittedTxn;
use crate::history::{CheckResult, Violation};
use crate::model::{Model, ModelChange, ModelEffect, ModelLifetime};

const NAME: &str = "g29_feeds";

/// Checks a batch of a feed that is at `open.after`.
pub(crate) fn check_batch(
    checker: &Checker,
    client: usize,
    open: &FeedOpen,
    batch: &FeedBatch,
) -> CheckResult {
    let fail =
        |text: String| Err(Violation::new(NAME, format!("{open:?} of client {client}: {text}; {batch:?}")));
    if batch.from != open.after || batch.to < batch.from {
        return fail(format!("the batch does not begin at {:#x}", open.after));
    }
    if !checker.is_committed(batch.to) {
        return fail(format!("{:#x} is not committed", batch.to));
    }
    let entries = checker.committed.entries();
    let first = entries.partition_point(|entry| entry.zxid <= batch.from);
    let end = entries.partition_point(|entry| entry.zxid <= batch.to);
    let mut shown = batch.records.iter();
    for committed in &entries[first..end.max(first)] {
        let mut expected = changes_of(&checker.committed.model, committed);
        expected.retain(|change| is_shown(open, change));
        if expected.is_empty() {
            continue;
        }
        match shown.next() {
            Some(record) if record.zxid == committed.zxid => {
                if let Err(text) = check_record(&checker.committed.model, open, committed, record, &expected)
                {
                    return fail(text);
                }
            }
            other => {
                let other = other.map(|record| record.zxid);
                return fail(format!("{:#x} comes next, not {other:x?}", committed.zxid));
            }
        }
    }
    match shown.next() {
        None => Ok(()),
        Some(record) => fail(format!("{:#x} changes nothing that the feed shows", record.zxid)),
    }
}

/// The kind and path of a change.
type ExpectedChange = (u8, String);

/// The changes of a transaction, in no order.
fn changes_of(model: &Model, committed: &CommittedTxn) -> Vec<ExpectedChange> {
    let zxid = committed.zxid;
    let mut changes = Vec::new();
    for (_, path, change) in model.changes(zxid - 1, zxid) {
        let kind = match change {
            ModelChange::Created => ChangeKind::Created,
            ModelChange::Deleted => ChangeKind::Deleted,
            ModelChange::Data => ChangeKind::DataChanged,
            ModelChange::Children => continue,
        };
        changes.push((kind as u8, path.to_string()));
    }
    for effect in &committed.effects {
        if let ModelEffect::AclSet { path, .. } = effect {
            changes.push((ChangeKind::AclChanged as u8, path.to_string()));
        }
    }
    match committed.entry.txn {
        Txn::CreateSession { .. } => changes.push((ChangeKind::SessionOpened as u8, String::new())),
        Txn::CloseSession(_) => changes.push((ChangeKind::SessionEnded as u8, String::new())),
        _ => {}
    }
    changes
}

fn is_shown(open: &FeedOpen, (kind, path): &ExpectedChange) -> bool {
    if path.is_empty() {
        return open.options.sessions;
    }
    let is_below = |top: &str| {
        top == "/" || path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    (open.options.acl_changes || *kind != ChangeKind::AclChanged as u8)
        && (open.prefixes.is_empty() || open.prefixes.iter().any(|top| is_below(top)))
}

fn check_record(
    model: &Model,
    open: &FeedOpen,
    committed: &CommittedTxn,
    record: &FeedRecord,
    expected: &[ExpectedChange],
) -> Result<(), String> {
    let header = committed.entry.header;
    if (record.time_ms, record.session) != (header.time_ms, header.session.0) {
        return Err(format!("time or session of {:#x} is wrong", record.zxid));
    }
    let mut found: Vec<ExpectedChange> =
        record.changes.iter().map(|change| (change.kind as u8, change.path.to_string())).collect();
    let mut expected = expected.to_vec();
    found.sort();
    expected.sort();
    if found != expected {
        return Err(format!("{:#x} has the changes {expected:?}", record.zxid));
    }
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    record.changes.iter().for_each(|change| *times.entry(&change.path).or_default() += 1);
    // A node that changes several times within a transaction is shown as it was meanwhile.
    let is_alone = |change: &&FeedChange| times.get(&*change.path) == Some(&1);
    let wrong = record
        .changes
        .iter()
        .filter(is_alone)
        .find(|change| !is_as_in_model(model, open, committed.zxid, change));
    wrong.map_or(Ok(()), |change| Err(format!("{change:?} is not what {:#x} has changed", record.zxid)))
}

/// Whether version, data and kind of a node are those after the transaction.
fn is_as_in_model(model: &Model, open: &FeedOpen, zxid: i64, change: &FeedChange) -> bool {
    let node = model.at(&change.path, zxid);
    let (version, owner, data) = match (change.kind, node) {
        (ChangeKind::Created, Some(node)) => {
            let owner = match node.stays {
                ModelLifetime::UntilDeleted => CreatedOwner::Plain,
                ModelLifetime::WithSession(_) => CreatedOwner::Ephemeral,
                ModelLifetime::WhileUsed => CreatedOwner::Container,
            };
            (0, owner, node.data.clone())
        }
        (ChangeKind::DataChanged, Some(node)) => (node.version, CreatedOwner::Plain, node.data.clone()),
        (ChangeKind::AclChanged, Some(node)) => (node.acl_version, CreatedOwner::Plain, None),
        (ChangeKind::Deleted, None) => (-1, CreatedOwner::Plain, None),
        (ChangeKind::SessionOpened | ChangeKind::SessionEnded, _) => (0, CreatedOwner::Plain, None),
        (_, _) => return false,
    };
    let data = if open.options.data { data } else { None };
    (change.version, change.owner, &change.data) == (version, owner, &data)
}
