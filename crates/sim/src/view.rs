//! What is known about a member's log from outside: which transactions it was told to write, and how far
//! its disk has confirmed them.

use std::sync::Arc;

/// A member's log.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerView {
    /// The last transaction of the state that the log begins behind.
    pub(crate) base: i64,
    /// The log behind it, in order.
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
    /// The epoch that a leader has proposed last, and the last one for which this voice was counted.
    pub(crate) proposed_epoch: i64,
    pub(crate) counted_epoch: i64,
    /// The last transaction that a leader has sent, and the last one of the history that a new leader named.
    pub(crate) offered: i64,
    pub(crate) initial: i64,
    /// Something on its disk was changed behind its back: it need not have what it had.
    pub(crate) rotten: bool,
    /// It knows that it may lack something: it has no voice before it was brought up to date.
    pub(crate) untrusted: bool,
    /// What it had on disk before it was changed behind its back: it counted when it was decided.
    pub(crate) forgotten: i64,
    /// The version of the list of members in effect, and of the one in its files.
    pub(crate) list_version: i64,
    pub(crate) list_saved: i64,
    /// The last transaction of the last state that was received as a whole.
    pub(crate) installed: i64,
    /// It leads, and has no vote since this turn of its brain.
    pub(crate) deposed: Option<u64>,
    /// Its whole history is being replaced: a crash leaves the old one or the new one.
    pub(crate) replacing: bool,
}

impl ServerView {
    /// Whether it has taken over the state of a leader and ended before it could note his epoch. The next leader may ask
    /// it to go back behind that state, which it cannot; then it sets everything aside and has no voice for a while.
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

    /// A whole state takes the place of everything.
    pub(crate) fn install(&mut self, zxid: i64) {
        self.replacing = false;
        self.installed = zxid;
        self.rotten = false;
        self.log.clear();
        self.compared = 0;
        self.base = zxid;
        self.durable = zxid;
    }

    /// The transaction at a place, if the log has it.
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
