//! The one history of transactions, from the logs of all servers.
//!
//! A transaction has one position and one form in all logs. A log may lack committed transactions, because
//! its server received a SNAP instead. It may also hold transactions that were never committed, below a SNAP.
//! A third log decides: one with the transactions before and after, and none between.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use zebu_proto::Zxid;
use zebu_proto::txn::{Txn, TxnEntry};
use zebu_sim::live::HistoryTxn;
use zebu_storage::format::log::payload_zxid;
use zebu_storage::format::names::{parse_log, parse_snapshot};
use zebu_storage::format::scan::{LogHeader, LogScanner, ScanItem};

/// What one member holds.
#[derive(Debug, Default)]
struct Holding {
    transactions: BTreeMap<i64, Arc<[u8]>>,
    snapshots: BTreeSet<i64>,
}

/// Reads and joins the logs below these data directories.
pub(super) fn read(directories: &[&Path]) -> Result<Vec<HistoryTxn>> {
    let holdings: Vec<Holding> = directories
        .iter()
        .map(|directory| hold(&directory.join("version-2")).with_context(|| directory.display().to_string()))
        .collect::<Result<_>>()?;
    join(&holdings)
}

fn hold(directory: &Path) -> Result<Holding> {
    let mut holding = Holding::default();
    for file in fs::read_dir(directory)? {
        let name = file?.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Some(snapshot) = parse_snapshot(name) {
            holding.snapshots.insert(snapshot.zxid.0);
        }
        if parse_log(name).is_some() {
            let bytes = fs::read(directory.join(name))?;
            let (mut scanner, header) = LogScanner::open(&bytes[..])?;
            if header != LogHeader::Valid {
                continue;
            }
            while let ScanItem::Entry(entry) = scanner.next_entry()? {
                let zxid = payload_zxid(entry.payload).context("an entry without a header")?;
                holding.transactions.insert(zxid.0, Arc::from(entry.payload));
            }
        }
    }
    Ok(holding)
}

impl Holding {
    /// Whether this member has the history on both sides of a transaction, and does not have the transaction.
    fn denies(&self, zxid: i64) -> bool {
        if self.transactions.contains_key(&zxid) {
            return false;
        }
        let (Some((&before, _)), Some((&behind, _))) =
            (self.transactions.range(..zxid).next_back(), self.transactions.range(zxid..).next())
        else {
            return false;
        };
        // A whole state that reaches beyond what the log had before stands for what is between.
        let is_given = self.snapshots.range(before + 1..behind).next().is_some();
        let is_end_of_epoch =
            Zxid(before).epoch() == Zxid(zxid).epoch() || Zxid(before).epoch() < Zxid(zxid).epoch();
        !is_given
            && is_end_of_epoch
            && Zxid(behind).epoch() > Zxid(zxid).epoch()
            && Zxid(behind).counter() <= 1
    }
}

/// Whether both are the same multi that failed. Apache changes the parts before the one that failed when it
/// applies it, so that who gets it later has other bytes than who got it at first; they mean the same:
/// nothing.
fn are_one_failure(one: &[u8], other: &[u8]) -> bool {
    let failure = |bytes: &[u8]| {
        let entry = TxnEntry::decode(bytes).ok()?;
        let Txn::Multi(parts) = &entry.txn else { return None };
        let code = parts.iter().find_map(|part| match part.0 {
            Txn::Error(code) if code < 0 => Some(code),
            _ => None,
        })?;
        Some((entry.header, parts.len(), code, entry.digest))
    };
    failure(one).is_some_and(|it| failure(other) == Some(it))
}

fn join(holdings: &[Holding]) -> Result<Vec<HistoryTxn>> {
    let mut all: BTreeMap<i64, Arc<[u8]>> = BTreeMap::new();
    for (member, holding) in holdings.iter().enumerate() {
        for (&zxid, bytes) in &holding.transactions {
            let known = all.entry(zxid).or_insert_with(|| bytes.clone());
            ensure!(
                known == bytes || are_one_failure(known, bytes),
                "zab_prefix_consistency: member {} has another transaction at {} than an earlier member",
                member + 1,
                Zxid(zxid)
            );
        }
    }
    // Some releases log an error for the first moment of an epoch.
    let is_decided = |zxid: &i64| Zxid(*zxid).counter() > 0 && !holdings.iter().any(|it| it.denies(*zxid));
    Ok(all
        .into_iter()
        .filter(|(zxid, _)| is_decided(zxid))
        .map(|(zxid, bytes)| HistoryTxn { zxid, bytes })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(transactions: &[(u32, u32)], snapshots: &[(u32, u32)]) -> Holding {
        let zxid = |&(epoch, counter): &(u32, u32)| Zxid::new(epoch, counter).0;
        Holding {
            transactions: transactions.iter().map(|it| (zxid(it), Arc::from([it.1 as u8]))).collect(),
            snapshots: snapshots.iter().map(zxid).collect(),
        }
    }

    fn joined(holdings: &[Holding]) -> Vec<i64> {
        join(holdings).expect("they fit").iter().map(|it| it.zxid).collect()
    }

    fn zxids(list: &[(u32, u32)]) -> Vec<i64> {
        list.iter().map(|&(epoch, counter)| Zxid::new(epoch, counter).0).collect()
    }

    #[test]
    fn what_was_never_decided_is_left_out() {
        let others = [(1, 1), (1, 2), (2, 1), (2, 2)];
        // The third member had logged more in the first epoch and was given a state instead of being cut.
        let third = holding(&[(1, 1), (1, 2), (1, 3), (2, 2)], &[(2, 1)]);
        let all = [holding(&others, &[(1, 2)]), holding(&others, &[]), third];
        assert_eq!(joined(&all), zxids(&others));
    }

    #[test]
    fn a_state_in_place_of_transactions_is_no_denial() {
        let whole = [(1, 1), (1, 2), (1, 3), (2, 1)];
        let given = holding(&[(1, 1), (2, 1)], &[(1, 3)]);
        assert_eq!(joined(&[holding(&whole, &[]), given]), zxids(&whole));
    }

    #[test]
    fn two_forms_of_one_transaction_are_a_fault() {
        let mut other = holding(&[(1, 1)], &[]);
        other.transactions.insert(Zxid::new(1, 1).0, Arc::from([9]));
        assert!(join(&[holding(&[(1, 1)], &[]), other]).is_err());
    }
}
