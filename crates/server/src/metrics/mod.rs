//! What the server measures: counters and summaries at the edge, values of the process, and the view of
//! all of them. The table of families and the texts are in the crate `zebu-metrics`.

mod admin_counters;
pub(crate) mod collect;
mod collect_member;
pub(crate) mod core_times;
mod process;
mod proposals;
mod source;
pub(crate) mod syncing;
#[cfg(test)]
mod tests;

pub use admin_counters::AdminCounters;
pub use source::MetricsSource;
pub(crate) use zebu_metrics::Counter;
use zebu_metrics::{Histogram, KeyedSummaries, Summary};

use proposals::ProposalStats;
use syncing::SyncingLearners;

macro_rules! server_metrics {
    (
        counters { $($(#[$counter_doc:meta])* $counter:ident,)* }
        summaries { $($(#[$summary_doc:meta])* $summary:ident,)* }
        durations { $($(#[$duration_doc:meta])* $duration:ident,)* }
        sizes { $($(#[$size_doc:meta])* $size:ident,)* }
    ) => {
        /// All server-wide metrics. Times of summaries are in milliseconds, those of histograms in
        /// microseconds.
        #[derive(Debug)]
        pub(crate) struct ServerMetrics {
            $($(#[$counter_doc])* pub(crate) $counter: Counter,)*
            $($(#[$summary_doc])* pub(crate) $summary: Summary,)*
            $($(#[$duration_doc])* pub(crate) $duration: Histogram,)*
            $($(#[$size_doc])* pub(crate) $size: Histogram,)*
            /// Proposals sent to learners.
            pub(crate) proposals: ProposalStats,
            /// Learners in synchronization.
            pub(crate) syncing: SyncingLearners,
            /// From a leader's log queue to the ack, by learner.
            pub(crate) ack_latency: KeyedSummaries,
            /// Bytes that wait for a learner's socket after a round, by learner.
            pub(crate) learner_queue_bytes: KeyedSummaries,
            /// Counters of the admin server.
            pub(crate) admin: AdminCounters,
        }

        impl Default for ServerMetrics {
            fn default() -> ServerMetrics {
                ServerMetrics {
                    $($counter: Counter::default(),)*
                    $($summary: Summary::default(),)*
                    $($duration: Histogram::durations(),)*
                    $($size: Histogram::sizes(),)*
                    proposals: ProposalStats::default(),
                    syncing: SyncingLearners::default(),
                    ack_latency: KeyedSummaries::default(),
                    learner_queue_bytes: KeyedSummaries::default(),
                    admin: AdminCounters::default(),
                }
            }
        }

        impl ServerMetrics {
            /// Begins anew for `mntr`, for `srst`.
            pub(crate) fn reset(&self) {
                $(self.$counter.reset();)*
                $(self.$summary.reset();)*
                self.proposals.reset();
                self.syncing.reset();
                self.ack_latency.reset();
                self.learner_queue_bytes.reset();
                self.admin.reset();
            }
        }
    };
}

server_metrics! {
    counters {
        /// Accepted connections.
        connection_requests,
        /// Connections refused by a limit.
        connections_rejected,
        /// Closed connections.
        connections_dropped,
        /// Connections closed because they had no session in time.
        sessionless_expired,
        /// Bytes read from clients.
        bytes_received,
        /// Refused large requests.
        large_requests_rejected,
        /// TLS handshakes of clients that failed or took too long.
        unsuccessful_handshakes,
        /// TLS connections closed because too many handshakes were running.
        tls_handshakes_exceeded,
        /// TLS connections closed because the server did not serve.
        closed_while_not_serving,
        /// Frames that were no valid request.
        bad_frames,
        /// Connections of peers without TLS on ports that demand it.
        peer_insecure_blocked,
        /// Connections of peers whose TLS handshake failed, or whose certificate has another name.
        peer_handshakes_failed,
        /// Connections of peers that failed to authenticate with SASL.
        peer_auth_failed,
        /// Committed transactions.
        commits,
        /// Snapshots that could not be written.
        snapshot_errors,
        /// Failed purges.
        purge_errors,
        /// Digests in the files that differed from the tree's.
        digest_mismatches,
        /// Learners synchronized with DIFF.
        diffs_sent,
        /// Learners synchronized with TRUNC.
        truncations_sent,
        /// Learners synchronized with SNAP.
        snapshots_sent,
        /// Fsyncs above the warning threshold.
        slow_fsyncs,
        /// Transactions handed to the disk queue.
        disk_transactions,
        /// Client events put into the inbox.
        client_events,
        /// Batches of writes that waited for permits.
        throttle_waits,
        /// Times that this server entered LOOKING.
        elections_started,
        /// Proposals that this learner received.
        proposals_received,
        /// Commits that this learner received.
        commits_received,
        /// Sessions that learners asked this leader about.
        revalidations,
    }
    summaries {
        /// One fsync of the log.
        fsync_ms,
        /// Transactions per fsync of the log.
        sync_batch,
        /// One snapshot.
        snapshot_ms,
        /// The load at the start.
        load_ms,
        /// The snapshot's part of the load.
        snapshot_load_ms,
        /// The log's part of the load.
        log_load_ms,
        /// Transactions replayed at the start.
        replayed,
        /// A batch in the disk queue.
        disk_queue_ms,
        /// Write and fsync of a group.
        disk_flush_ms,
        /// From the disk queue to durable.
        disk_total_ms,
        /// Batches of a group.
        disk_queue_size,
        /// The write of a group without its fsync.
        disk_write_ms,
        /// Client events per round.
        inbox_size,
        /// Preparation per round.
        prepare_ms,
        /// Application of one batch of commits.
        apply_ms,
        /// Writes in flight, per round with client events.
        in_flight,
        /// Requests that a learner has sent to its leader, per round with client events.
        forwarded,
        /// Waits of writes for permits.
        throttle_wait_ms,
        /// LOOKING to a role.
        election_ms,
        /// Without clients.
        unavailable_ms,
        /// Without clients, of a server that then led.
        leader_unavailable_ms,
        /// From the election to a serving follower.
        follower_sync_ms,
        /// From the election to a serving observer.
        observer_sync_ms,
        /// From proposal to this learner's log queue.
        proposal_latency_ms,
        /// From proposal to this learner's ack.
        ack_creation_ms,
        /// From a leader's log queue to commit.
        quorum_ack_ms,
    }
    durations {
        /// One fsync of the log.
        fsync_duration,
        /// A batch from the disk queue to durable.
        disk_duration,
        /// A transaction from the log queue to its application.
        commit_duration,
        /// One round of the core.
        round_duration,
        /// One batch of commits.
        apply_duration,
        /// One snapshot.
        snapshot_duration,
        /// LOOKING to a role.
        election_duration,
    }
    sizes {
        /// Transactions per fsync.
        sync_batch_sizes,
        /// Batches that share one fsync.
        disk_queue_depth,
        /// Client events per round with any.
        inbox_depth,
        /// Writes in flight, per round with client events.
        in_flight_depth,
    }
}
