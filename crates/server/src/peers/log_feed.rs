//! Reads old transactions from the log for learners that are behind, on blocking threads.
//!
//! It keeps one reader per link, so that a log is read once per learner. It decides whether a DIFF
//! is cheaper than a SNAP.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::{info, warn};
use zebu_node::Replica;
use zebu_proto::Zxid;
use zebu_storage::{DiffLimits, Directories, FileDisk, LogEntry, LogReader};
use zebu_zab::{EncodedTxn, LinkId, LogPurpose, LogRead};

use crate::core::context::ServerContext;

/// Bytes that one read returns for a learner.
const READ_LOG_BYTES: usize = 1 << 20;

/// Bytes of a node in a snapshot besides its path and data: lengths, ACL id and stat.
const NODE_BYTES: u64 = 80;

/// The log readers, by link.
#[derive(Debug, Default)]
pub(super) struct LogFeed {
    readers: Mutex<BTreeMap<LinkId, LogReader<FileDisk>>>,
}

/// A range of the log to read.
pub(super) struct LogReadRequest {
    pub(super) link: LinkId,
    pub(super) after: Zxid,
    pub(super) up_to: Zxid,
    pub(super) purpose: LogPurpose,
}

impl LogFeed {
    /// Reads the requested range. Reads of one link do not overlap: the core requests the next one
    /// after the reply.
    pub(super) fn read(
        &self,
        request: &LogReadRequest,
        directories: &Directories,
        shared: &ServerContext,
    ) -> LogRead {
        let &LogReadRequest { link, after, up_to, purpose } = request;
        let kept = self.readers().remove(&link).filter(|reader| reader.last() == after);
        let mut reader = kept.unwrap_or_else(|| LogReader::new(FileDisk, directories, after));
        let found = match purpose {
            LogPurpose::BeginDiff { entries_max } => {
                let snapshot_bytes = snapshot_bytes(&shared.read_replica());
                let bytes = shared.config.storage.log_diff_limit.bytes_max(snapshot_bytes);
                let found = reader.begin(up_to, READ_LOG_BYTES, DiffLimits { entries: entries_max, bytes });
                if let Ok(None) = found {
                    info!(
                        link = link.0, %after, %up_to, entries_max, bytes_max = bytes, snapshot_bytes,
                        "the log does not reach back, or has too much for a DIFF: the learner gets a SNAP"
                    );
                }
                found
            }
            LogPurpose::Continue => reader.next(up_to, READ_LOG_BYTES),
        };
        match found {
            Ok(Some(entries)) if !entries.is_empty() => {
                self.readers().insert(link, reader);
                report_oversize(&entries, shared.config.limits.transaction_bytes_max());
                let entry = |entry: LogEntry| EncodedTxn { zxid: entry.zxid, bytes: entry.bytes };
                LogRead::Entries(entries.into_iter().map(entry).collect())
            }
            Ok(_) => LogRead::Unavailable,
            Err(error) => {
                warn!(link = link.0, %error, "the log cannot be read for a learner; it gets a SNAP");
                LogRead::Unavailable
            }
        }
    }

    /// Drops the reader of a link that ended.
    pub(super) fn remove(&self, link: LinkId) {
        self.readers().remove(&link);
    }

    fn readers(&self) -> MutexGuard<'_, BTreeMap<LinkId, LogReader<FileDisk>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Estimates the bytes of a SNAP.
fn snapshot_bytes(replica: &Replica) -> u64 {
    let tree = replica.tree();
    tree.approximate_data_size() as u64 + NODE_BYTES * tree.node_count() as u64
}

/// Logs transactions that are too long for other servers to read.
fn report_oversize(entries: &[LogEntry], limit: usize) {
    for entry in entries.iter().filter(|entry| entry.bytes.len() > limit) {
        let (zxid, length) = (entry.zxid, entry.bytes.len());
        warn!(%zxid, length, limit, "a logged transaction is too long for other servers; learners get a snapshot");
    }
}
