//! Transaction log, snapshots and the start.

use super::{every, zero};
use crate::family::Family;
use crate::family::FamilyKind::{AdvancedSummary, BasicSummary, Counter};

pub(super) const FAMILIES: &[Family] = &[
    every("commit_count", Counter, "Applied transactions; every server counts them, not only a leader."),
    every("fsynctime", BasicSummary, "Milliseconds of one fsync of the transaction log."),
    every("snapshottime", BasicSummary, "Milliseconds of one snapshot."),
    every("snapshot_error_count", Counter, "Snapshots that could not be written."),
    every("snapshot_rate_limited_count", Counter, "Snapshots by the admin server that came too soon."),
    every("restore_time", BasicSummary, "Milliseconds of one restore by the admin server."),
    every("restore_error_count", Counter, "Restores by the admin server that failed."),
    every("restore_rate_limited_count", Counter, "Restores by the admin server that came too soon."),
    every("dbinittime", BasicSummary, "Milliseconds of the load at the start."),
    every("startup_snap_load_time", BasicSummary, "Milliseconds of the snapshot's part of the load."),
    every("startup_txns_load_time", BasicSummary, "Milliseconds of the log's part of the load."),
    every("startup_txns_loaded", BasicSummary, "Transactions replayed at the start."),
    every("sync_processor_queue_time_ms", AdvancedSummary, "Milliseconds of a batch in the disk queue."),
    every("sync_processor_queue_flush_time_ms", AdvancedSummary, "Milliseconds to write and sync a group."),
    every(
        "sync_processor_queue_and_flush_time_ms",
        AdvancedSummary,
        "Milliseconds from disk queue to durable.",
    ),
    every("sync_processor_queue_size", BasicSummary, "Batches of one group in the disk queue."),
    every("sync_process_time", BasicSummary, "Milliseconds to write a group, without its fsync."),
    every("sync_processor_batch_size", BasicSummary, "Transactions per fsync."),
    every("sync_processor_request_queued", Counter, "Transactions handed to the disk queue."),
    every("digest_mismatches_count", Counter, "Transactions or files whose digest differs from the tree's."),
    zero("unrecoverable_error_count", Counter, "Such an error ends the process."),
];
