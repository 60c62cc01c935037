//! A private write becomes transactions that every server of ZooKeeper since 3.6 applies: a create, a delete
//! or a multi. A check stands in a multi only, because those servers cannot read one outside. A multi deletes
//! leaves first, because they delete no node with children.

use zebu_proto::client::{KeeperPart, KeeperWrite};
use zebu_proto::txn::{SubTxn, Txn};

use crate::history::{CheckResult, Violation};
use crate::operation::{Operation, WriteOperation};

const NAME: &str = "lowered_writes";

/// Checks a committed transaction and the request that it carries out.
pub(crate) fn check_commit(zxid: i64, txn: &Txn, operation: Option<&Operation>) -> CheckResult {
    let is_plain = match txn {
        Txn::Check(_) => false,
        Txn::Multi(parts) => is_leaves_first(parts),
        _ => true,
    };
    if is_plain && operation.is_none_or(|operation| is_form_of(txn, operation)) {
        return Ok(());
    }
    let text = format!("{zxid:#x} of {operation:?} is {txn:?}, which servers of ZooKeeper cannot apply");
    Err(Violation::new(NAME, text))
}

/// Whether no node is deleted before a node below it.
fn is_leaves_first(parts: &[SubTxn]) -> bool {
    let mut deleted: Vec<&str> = Vec::new();
    for SubTxn(part) in parts {
        match part {
            Txn::Delete(path) => {
                let is_below = |top: &&str| path.strip_prefix(*top).is_some_and(|rest| rest.starts_with('/'));
                if deleted.iter().any(is_below) {
                    return false;
                }
                deleted.push(path);
            }
            // A node that is deleted and created again may get children.
            Txn::Create(create) | Txn::Create2(create) => deleted.retain(|path| **path != *create.path),
            Txn::CreateContainer(create) => deleted.retain(|path| **path != *create.path),
            _ => {}
        }
    }
    true
}

/// Whether a request can become this transaction, if it does not fail.
fn is_form_of(txn: &Txn, operation: &Operation) -> bool {
    let is_check = |part: &SubTxn| matches!(part.0, Txn::Check(_));
    let is_delete = |part: &SubTxn| matches!(part.0, Txn::Delete(_));
    let is_without_effect =
        matches!(txn, Txn::Multi(parts) if matches!(&parts[..], [part] if is_check(part)));
    let deletes_only = |parts: &[SubTxn]| parts.iter().all(is_delete);
    match operation {
        _ if matches!(txn, Txn::Error(_)) => true,
        Operation::Write(WriteOperation::Keeper(part)) => match &**part {
            KeeperPart::Write(KeeperWrite::CreateIfNotExists(_)) => {
                is_without_effect || matches!(txn, Txn::Create(_))
            }
            KeeperPart::Write(KeeperWrite::TryRemove(_)) => {
                is_without_effect || matches!(txn, Txn::Delete(_))
            }
            KeeperPart::Write(KeeperWrite::RemoveRecursive(_)) => {
                is_without_effect || matches!(txn, Txn::Multi(parts) if deletes_only(parts))
            }
            KeeperPart::Check(_) => false,
        },
        Operation::DeleteTree(_) => {
            matches!(txn, Txn::Multi(parts) if parts.iter().all(|part| is_check(part) || is_delete(part)))
        }
        _ => true,
    }
}
