//! Old transactions for learners that are behind, read from the log beside everything else. It keeps where each link
//! has got to, so that a log is read once per learner, and decides whether a DIFF is cheaper than a snapshot.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::{info, warn};
use zebu_node::Replica;
use zebu_proto::Zxid;
use zebu_storage::{DiffLimits, Directories, FileDisk, LogEntry, LogReader};
use zebu_zab::{Entry, LinkId, LogPurpose, LogRead};

use crate::shared::Shared;

/// Bytes of old transactions that are read for a learner at a time.
const READ_LOG_BYTES: usize = 1 << 20;

/// Bytes of a node in a snapshot beside its path and data: lengths, ACL number and stat.
const NODE_BYTES: u64 = 80;

/// Where the log is read on, by link.
#[derive(Debug, Default)]
pub(super) struct LogFeed {
    readers: Mutex<BTreeMap<LinkId, LogReader<FileDisk>>>,
}

/// A part of the log that is wanted.
pub(super) struct Wanted {
    pub(super) link: LinkId,
    pub(super) after: Zxid,
    pub(super) up_to: Zxid,
    pub(super) purpose: LogPurpose,
}

impl LogFeed {
    /// Reads what is wanted. Reads of one link do not overlap: the next one is asked for when the last was answered.
    pub(super) fn read(&self, wanted: &Wanted, directories: &Directories, shared: &Shared) -> LogRead {
        let &Wanted { link, after, up_to, purpose } = wanted;
        let kept = self.readers().remove(&link).filter(|reader| reader.last() == after);
        let mut reader = kept.unwrap_or_else(|| LogReader::new(FileDisk, directories, after));
        let found = match purpose {
            LogPurpose::BeginDiff { entries_max } => {
                let snapshot_bytes = snapshot_bytes(&shared.read());
                let bytes = shared.config.storage.log_diffs.bytes_max(snapshot_bytes);
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
                let entry = |entry: LogEntry| Entry { zxid: entry.zxid, bytes: entry.bytes };
                LogRead::Entries(entries.into_iter().map(entry).collect())
            }
            Ok(_) => LogRead::Unavailable,
            Err(error) => {
                warn!(link = link.0, %error, "the log cannot be read for a learner; it gets a SNAP");
                LogRead::Unavailable
            }
        }
    }

    /// The link has ended.
    pub(super) fn forget(&self, link: LinkId) {
        self.readers().remove(&link);
    }

    fn readers(&self) -> MutexGuard<'_, BTreeMap<LinkId, LogReader<FileDisk>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// About what a SNAP of the state would cost.
fn snapshot_bytes(replica: &Replica) -> u64 {
    let tree = replica.tree();
    tree.approximate_data_size() as u64 + NODE_BYTES * tree.node_count() as u64
}

/// Says that the log holds transactions that other servers may be unable to read.
fn report_oversize(entries: &[LogEntry], limit: usize) {
    for entry in entries.iter().filter(|entry| entry.bytes.len() > limit) {
        let (zxid, length) = (entry.zxid, entry.bytes.len());
        warn!(%zxid, length, limit, "a logged transaction is too long for other servers; learners get a snapshot");
    }
}
