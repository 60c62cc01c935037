//! The checker's view of a server's log: the transactions that it was told to write, and how far its disk has
//! confirmed them.

use std::sync::Arc;

/// The log and the epochs of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerView {
    /// The zxid of the snapshot that the log begins after.
    pub(crate) base: i64,
    /// The log after it, in order.
    pub(crate) log: Vec<(i64, Arc<[u8]>)>,
    /// The last transaction that the disk has confirmed.
    pub(crate) durable: i64,
    /// How many entries of the log were compared with the history.
    pub(crate) compared: usize,
    /// The epochs that the disk has confirmed.
    pub(crate) accepted_epoch: i64,
    pub(crate) current_epoch: i64,
    /// The last epoch whose history it has ever accepted, even if its disk has lost that since.
    pub(crate) joined_epoch: i64,
    /// The epoch that a leader has proposed last, and the last one for which this server's ack was counted.
    pub(crate) proposed_epoch: i64,
    pub(crate) counted_epoch: i64,
    /// The last zxid that a leader has sent, and the last one of the history that a NEWLEADER named.
    pub(crate) offered: i64,
    pub(crate) initial: i64,
    /// Whether its disk was damaged by a fault: it may have lost transactions.
    pub(crate) rotten: bool,
    /// Whether it knows that it may lack transactions: it does not vote before it is synchronized.
    pub(crate) untrusted: bool,
    /// The last zxid on its disk before the damage: it counted towards the quorum.
    pub(crate) forgotten: i64,
    /// The version of the config in effect, and of the one in its files.
    pub(crate) list_version: i64,
    pub(crate) list_saved: i64,
    /// The zxid of the last snapshot that was received.
    pub(crate) installed: i64,
    /// The step of its node since which it leads without a vote.
    pub(crate) deposed: Option<u64>,
    /// Whether it is an observer without a log: its transactions are only in memory.
    pub(crate) in_memory: bool,
    /// Whether its history is being replaced: a crash leaves the old one or the new one.
    pub(crate) replacing: bool,
}

impl ServerView {
    /// Whether it has installed the snapshot of a leader and stopped before it wrote the leader's epoch. The
    /// next leader may send a TRUNC to before that snapshot, which the server cannot execute. Then it
    /// quarantines its data and does not vote for a while.
    pub(crate) fn has_unaccepted_state(&self) -> bool {
        self.replacing || self.base >> 32 > self.current_epoch
    }

    /// The last transaction of the log.
    pub(crate) fn last(&self) -> i64 {
        self.log.last().map_or(self.base, |(zxid, _)| *zxid)
    }

    pub(crate) fn append(&mut self, zxid: i64, bytes: Arc<[u8]>) {
        self.log.push((zxid, bytes));
    }

    pub(crate) fn truncate(&mut self, to: i64) {
        let count = self.log.partition_point(|(zxid, _)| *zxid <= to);
        self.log.truncate(count);
        self.compared = self.compared.min(count);
        self.base = self.base.min(to);
        self.durable = self.durable.min(to);
    }

    /// A snapshot replaces the log.
    pub(crate) fn install(&mut self, zxid: i64) {
        self.replacing = false;
        self.installed = zxid;
        self.rotten = false;
        self.log.clear();
        self.compared = 0;
        self.base = zxid;
        self.durable = zxid;
    }

    /// The transaction with a zxid, if the log has it.
    pub(crate) fn entry(&self, zxid: i64) -> Option<&Arc<[u8]>> {
        let index = self.log.binary_search_by_key(&zxid, |(zxid, _)| *zxid).ok()?;
        Some(&self.log[index].1)
    }

    /// Whether the disk holds a transaction with these bytes.
    pub(crate) fn holds(&self, zxid: i64, bytes: &[u8]) -> bool {
        zxid <= self.base.max(self.forgotten)
            || (zxid <= self.durable && self.entry(zxid).is_some_and(|it| **it == *bytes))
    }
}
