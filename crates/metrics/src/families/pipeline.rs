//! The stages of ZooKeeper's request processors. Zebu has one core that works in rounds, so some of them do
//! not exist.

use super::{every, zero};
use crate::family::Family;
use crate::family::FamilyKind::{AdvancedSummary, BasicSummary, Counter};

pub(super) const FAMILIES: &[Family] = &[
    every(
        "prep_processor_queue_time_ms",
        AdvancedSummary,
        "Milliseconds from receipt of a write to its preparation.",
    ),
    every("prep_processor_queue_size", BasicSummary, "Client events in the core's inbox, per round."),
    every("prep_processor_request_queued", Counter, "Client events put into the core's inbox."),
    every("prep_process_time", BasicSummary, "Milliseconds of preparation, per round."),
    zero("close_session_prep_time", AdvancedSummary, "A closeSession is prepared like each write."),
    every("outstanding_changes_queued", Counter, "Changes that were prepared and not yet applied."),
    every("outstanding_changes_removed", Counter, "Prepared changes that left when they were applied."),
    zero("proposal_process_time", BasicSummary, "A proposal is sent in the round of its preparation."),
    every("pending_session_queue_size", BasicSummary, "Writes in flight, per round with client events."),
    every(
        "requests_in_session_queue",
        BasicSummary,
        "Requests of the connection when one of its writes is answered.",
    ),
    every(
        "reads_after_write_in_session_queue",
        BasicSummary,
        "Reads that waited for a write and follow its reply.",
    ),
    every("read_commitproc_time_ms", AdvancedSummary, "Milliseconds that a read waited for earlier writes."),
    every("write_commitproc_time_ms", AdvancedSummary, "Milliseconds from proposal to apply on a primary."),
    every("write_final_proc_time_ms", AdvancedSummary, "Milliseconds to apply one batch of commits."),
    zero("read_final_proc_time_ms", AdvancedSummary, "A read is answered in one step; see `readlatency`."),
    zero("local_write_committed_time_ms", AdvancedSummary, "A committed write is applied in the same round."),
    zero(
        "server_write_committed_time_ms",
        AdvancedSummary,
        "A committed write is applied in the same round.",
    ),
    zero("commit_process_time", BasicSummary, "There is no commit processor."),
    zero("reads_issued_from_session_queue", BasicSummary, "There is no commit processor."),
    zero("session_queues_drained", BasicSummary, "There is no commit processor."),
    zero("write_batch_time_in_commit_processor", BasicSummary, "There is no commit processor."),
    zero("concurrent_request_processing_in_commit_processor", BasicSummary, "There is no commit processor."),
    zero(
        "time_waiting_empty_pool_in_commit_processor_read_ms",
        BasicSummary,
        "There is no commit processor.",
    ),
    zero("read_commit_proc_req_queued", BasicSummary, "There is no commit processor."),
    zero("write_commit_proc_req_queued", BasicSummary, "There is no commit processor."),
    zero("commit_commit_proc_req_queued", BasicSummary, "There is no commit processor."),
    zero("read_commit_proc_issued", BasicSummary, "There is no commit processor."),
    zero("write_commit_proc_issued", BasicSummary, "There is no commit processor."),
    zero("request_commit_queued", Counter, "There is no commit processor."),
    zero("requests_not_forwarded_to_commit_processor", Counter, "There is no commit processor."),
    zero("skip_learner_request_to_next_processor_count", Counter, "There is no such processor."),
];
