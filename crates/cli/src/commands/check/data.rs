//! Reads the files of a data directory as a start would, and changes none of them: the newest snapshot that
//! is usable and the logs behind it. Says whether a server would start with them.

use std::path::Path;

use zebu_proto::txn::TxnEntry;
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_server::config::{LimitConfig, ServerConfig};
use zebu_storage::format::snapshot::SnapshotVisitor;
use zebu_storage::recovery::RecoveryChanges;
use zebu_storage::{
    Directories, EmptySnapshots, FileDisk, RecoveredState, RecoveryError, RecoveryOptions, RecoveryTarget,
    recover,
};

use super::notice::Notice;
use crate::offline::count;

/// The exit status of `serve` with a data directory that it cannot use.
const UNUSABLE: u8 = 3;

/// Takes a state without keeping it; remembers the longest records.
#[derive(Debug, Default)]
struct Discarded {
    payload: Vec<u8>,
    /// Bytes of the longest data of a node in the snapshot.
    longest_data: usize,
    /// The longest entry of the logs: its bytes and its zxid.
    longest_entry: (usize, Zxid),
}

impl SnapshotVisitor for Discarded {
    fn session(&mut self, _: SessionId, _: i32) {}

    fn acl(&mut self, _: i64, _: Vec<Acl>) {}

    fn node(&mut self, _: &str, data: Option<&[u8]>, _: i64, _: &StatPersisted) -> Result<(), String> {
        self.longest_data = self.longest_data.max(data.map_or(0, <[u8]>::len));
        Ok(())
    }
}

impl RecoveryTarget for Discarded {
    fn reset(&mut self) {
        *self = Discarded::default();
    }

    fn snapshot_loaded(&mut self, _: Zxid) {}

    fn apply(&mut self, entry: &TxnEntry) {
        self.payload.clear();
        entry.encode(&mut self.payload);
        if self.payload.len() > self.longest_entry.0 {
            self.longest_entry = (self.payload.len(), entry.header.zxid);
        }
    }

    fn digest(&self) -> Option<i64> {
        None
    }
}

/// Reads the directories of a configuration. Directories that are not there yet are no reason to refuse.
pub(super) fn look(config: &ServerConfig) -> Vec<Notice> {
    let storage = &config.storage;
    let directories = Directories::new(&storage.data_dir, &storage.data_log_dir);
    if [directories.snapshots(), directories.logs()].iter().any(|directory| !directory.is_dir()) {
        return Vec::new();
    }
    if let Err(error) = directories.check_kinds(&FileDisk) {
        return vec![Notice::Fatal { text: error.to_string(), status: UNUSABLE }];
    }
    let is_member = config.membership.is_ensemble();
    let mut options = if is_member { RecoveryOptions::member() } else { RecoveryOptions::default() };
    options.changes = RecoveryChanges::Plan;
    if storage.trust_empty_snapshot {
        options.empty_snapshots = EmptySnapshots::Trust;
    }
    let mut target = Discarded::default();
    match recover(&FileDisk, &directories, options, &mut target, &mut |_| {}) {
        Ok(recovered) => found(&recovered, &target, &config.limits),
        Err(error) => vec![refused(&error, is_member)],
    }
}

/// A member with damaged files starts without them: the leader sends everything.
fn refused(error: &RecoveryError, is_member: bool) -> Notice {
    if is_member && !matches!(error, RecoveryError::Io(_)) {
        return Notice::Obstacle(format!(
            "{error}. This member would set its files aside, not vote, and get everything from the leader; do not treat \
             two servers so at a time"
        ));
    }
    Notice::Fatal { text: error.to_string(), status: UNUSABLE }
}

fn found(recovered: &RecoveredState, target: &Discarded, limits: &LimitConfig) -> Vec<Notice> {
    let mut notices = Vec::new();
    for rejected in &recovered.rejected {
        notices.push(Notice::Remark(format!(
            "{} cannot be used ({}); a start takes an older snapshot and the logs since then",
            rejected.path.display(),
            rejected.reason
        )));
    }
    for dropped in &recovered.dropped {
        notices.push(Notice::Remark(format!(
            "{}: the last write was interrupted at offset {}; a start drops what follows, which was never acknowledged",
            dropped.path.display(),
            dropped.at
        )));
    }
    if recovered.digests.mismatched > 0 {
        let number = count(recovered.digests.mismatched, "digest", "digests");
        notices.push(Notice::Remark(format!("{number} in the files are not those of the state")));
    }
    // ZooKeeper refuses longer records.
    let limit = u64::from(limits.jute_max_buffer) + u64::from(limits.jute_extra_size);
    let (entry_length, zxid) = target.longest_entry;
    let snapshot = recovered.snapshot.as_ref().map(|snapshot| snapshot.path.as_path());
    for (what, length) in [
        (format!("the transaction {zxid} in the log"), entry_length),
        (
            format!("a node in {}", snapshot.unwrap_or(Path::new("the snapshot")).display()),
            target.longest_data,
        ),
    ] {
        if length as u64 > limit {
            notices.push(Notice::Remark(format!(
                "{what} has {length} bytes; Apache ZooKeeper does not start with it unless it gets \
                 -Djute.maxbuffer={length}, Zebu does"
            )));
        }
    }
    notices
}
