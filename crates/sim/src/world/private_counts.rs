//! Counts the committed requests that ZooKeeper does not have, at the end of a run.

use zebu_proto::client::KeeperPart;
use zebu_proto::txn::{SubTxn, Txn};

use super::World;
use crate::coverage::CoveredPath;
use crate::history::{CallEnd, ClientCall};
use crate::operation::{Operation, ReadOperation, WriteOperation};

impl World {
    pub(super) fn count_private_requests(&mut self) {
        let checker = &self.core.checker;
        let mut taken = Vec::new();
        for committed in checker.committed.entries() {
            let Some(call) = committed.call else { continue };
            taken.extend(paths(&checker.calls[call].operation, &committed.entry.txn));
        }
        let is_listing = |call: &&ClientCall| {
            let is_listing =
                matches!(&*call.operation, Operation::Read { read: ReadOperation::Listing(_), .. });
            is_listing && matches!(call.end, Some(CallEnd::Answered { code: 0, .. }))
        };
        let listings = checker.calls.iter().filter(is_listing).count();
        taken.extend(std::iter::repeat_n(CoveredPath::Listing, listings));
        taken.extend((0..checker.walks.complete).map(|_| CoveredPath::ListingWalk));
        taken.into_iter().for_each(|path| self.core.count(path));
    }
}

/// The paths that a request and its transaction have taken.
fn paths(operation: &Operation, txn: &Txn) -> Vec<CoveredPath> {
    let is_keeper = |write: &WriteOperation| matches!(write, WriteOperation::Keeper(_));
    let parts = match txn {
        Txn::Multi(parts) => &parts[..],
        _ => &[],
    };
    let deletes = parts.iter().filter(|SubTxn(part)| matches!(part, Txn::Delete(_))).count();
    let checks = parts.iter().filter(|SubTxn(part)| matches!(part, Txn::Check(_))).count();
    let has_failed = parts.iter().any(|SubTxn(part)| matches!(part, Txn::Error(_)));
    match operation {
        Operation::Write(WriteOperation::Keeper(part)) => {
            debug_assert!(matches!(&**part, KeeperPart::Write(_)), "checks are in multis");
            match txn {
                Txn::Error(_) => vec![CoveredPath::KeeperRefused],
                _ if checks > 0 => vec![CoveredPath::KeeperWithoutEffect],
                _ if deletes > 1 => vec![CoveredPath::KeeperWrite, CoveredPath::KeeperSubtree],
                _ => vec![CoveredPath::KeeperWrite],
            }
        }
        Operation::Multi(writes) if !has_failed && writes.iter().any(is_keeper) => {
            vec![CoveredPath::KeeperMulti]
        }
        Operation::DeleteTree(_) if deletes > 0 && checks > 0 => {
            vec![CoveredPath::TreeDelete, CoveredPath::TreeDeleteWithMore]
        }
        Operation::DeleteTree(_) if deletes > 0 => vec![CoveredPath::TreeDelete],
        _ => Vec::new(),
    }
}
