//! The transactions of a feed that is behind the memory of the server, from the log files.

use tracing::warn;
use zebu_node::feed::{FEED_BATCH_BYTES, FeedTxn};
use zebu_proto::Zxid;
use zebu_proto::txn::TxnEntry;
use zebu_storage::{Directories, FileDisk, LogReader};

/// A reader at the place of a feed.
pub(super) struct LogSource {
    reader: LogReader<FileDisk>,
}

/// The result of a read.
pub(super) enum LogPart {
    /// The transactions directly behind the place of the feed.
    Txns(Vec<FeedTxn>),
    /// The log cannot prove that it has them. It may have what is behind this zxid.
    Missing { oldest: Option<Zxid> },
}

impl LogSource {
    pub(super) fn new(directories: &Directories, after: Zxid) -> LogSource {
        LogSource { reader: LogReader::new(FileDisk, directories, after) }
    }

    /// Whether the next read begins behind this transaction.
    pub(super) fn is_at(&self, zxid: Zxid) -> bool {
        self.reader.last() == zxid
    }

    /// Reads on, up to a transaction that is applied. It blocks.
    pub(super) fn read(&mut self, up_to: Zxid) -> LogPart {
        let found = match self.reader.next(up_to, FEED_BATCH_BYTES) {
            Ok(found) => found,
            Err(error) => {
                warn!(%error, "the log cannot be read for a feed; the feed ends");
                None
            }
        };
        let txns = found.filter(|entries| !entries.is_empty()).and_then(|entries| {
            let decode = |bytes: &[u8]| TxnEntry::decode(bytes).map(|entry| FeedTxn::of(&entry)).ok();
            entries.iter().map(|entry| decode(&entry.bytes)).collect::<Option<Vec<_>>>()
        });
        match txns {
            Some(txns) => LogPart::Txns(txns),
            None => LogPart::Missing { oldest: self.reader.oldest().ok().flatten() },
        }
    }
}
