//! Transactions that are received after a snapshot, until NEWLEADER. A transfer may take long while the
//! ensemble goes on to write. Above the limits of the history, committed transactions are applied to the
//! received snapshot early.

use std::collections::VecDeque;

use zebu_proto::Zxid;

use crate::action::{Action, LinkCloseReason, PeerEffect};
use crate::encoded_txn::EncodedTxn;
use crate::event::LinkId;
use crate::history::is_next_zxid;
use crate::settings::HistoryLimits;

#[derive(Debug)]
pub(super) struct SnapshotTail {
    pub(super) epoch: u32,
    /// The last transaction of the snapshot, early loads included.
    loaded: Zxid,
    tail: VecDeque<EncodedTxn>,
    /// The bytes of `tail`.
    bytes: usize,
    /// The number of committed transactions in `tail`.
    committed: usize,
}

impl SnapshotTail {
    pub(super) fn new(epoch: u32, snapshot: Zxid) -> SnapshotTail {
        SnapshotTail { epoch, loaded: snapshot, tail: VecDeque::new(), bytes: 0, committed: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a transaction. Transactions that the snapshot may already contain are accepted and skipped.
    pub(super) fn push(&mut self, entry: EncodedTxn) -> Result<(), LinkCloseReason> {
        let last = self.tail.back().map_or(self.loaded, |entry| entry.zxid);
        if entry.zxid <= last {
            return Ok(());
        }
        if !is_next_zxid(last, entry.zxid) {
            return Err(LinkCloseReason::Gap { after: last, found: entry.zxid });
        }
        self.bytes += entry.bytes.len();
        self.tail.push_back(entry);
        Ok(())
    }

    pub(super) fn commit(&mut self, zxid: Zxid) -> Result<(), LinkCloseReason> {
        if zxid <= self.committed_zxid() {
            return Ok(());
        }
        if self.tail.get(self.committed).map(|entry| entry.zxid) != Some(zxid) {
            return Err(LinkCloseReason::UnknownZxid(zxid));
        }
        self.committed += 1;
        Ok(())
    }

    pub(super) fn committed_zxid(&self) -> Zxid {
        self.committed.checked_sub(1).map_or(self.loaded, |index| self.tail[index].zxid)
    }

    /// Applies committed transactions to the snapshot if `tail` exceeds the limits.
    pub(super) fn load_early(&mut self, link: LinkId, limits: HistoryLimits, out: &mut Vec<Action>) {
        let is_over_limits = self.tail.len() > limits.entries || self.bytes > limits.bytes;
        if is_over_limits && self.committed > 0 {
            self.loaded = self.committed_zxid();
            let (entries, rest) = self.take_tail();
            self.bytes = rest.iter().map(|entry| entry.bytes.len()).sum();
            self.tail = rest;
            out.push(Action::Peer(PeerEffect::LoadReceived { link, entries }));
        }
    }

    /// Takes the committed and the uncommitted transactions.
    pub(super) fn take_tail(&mut self) -> (Vec<EncodedTxn>, VecDeque<EncodedTxn>) {
        let rest = self.tail.split_off(self.committed);
        self.committed = 0;
        (std::mem::take(&mut self.tail).into(), rest)
    }
}
