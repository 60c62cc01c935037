//! Families that ZooKeeper does not have: prefix `zebu_`, and `process_` for the process.

use super::{every, of};
use crate::family::FamilyKind::{Counter, CounterSet, Gauge, GaugeSet, Histogram, LabelledGauge};
use crate::family::FamilyScope::{Audit, ClientTls, Leader, Member, QuorumTls};
use crate::family::{Exposure, Family};

const fn hidden(family: Family) -> Family {
    Family { exposure: Exposure::PrometheusOnly, ..family }
}

const fn in_mntr_as(name: &'static str, family: Family) -> Family {
    Family { exposure: Exposure::MntrAs(name), ..family }
}

pub(super) const FAMILIES: &[Family] = &[
    in_mntr_as(
        "connections_kept",
        every(
            "zebu_connections_kept",
            Counter,
            "Client connections that stayed open when the leader was lost.",
        ),
    ),
    in_mntr_as(
        "connections_continued",
        every(
            "zebu_connections_continued",
            Counter,
            "Kept connections that were served under the next leader.",
        ),
    ),
    in_mntr_as(
        "client_hellos",
        every("zebu_client_hellos", Counter, "Connections whose client can be asked to move."),
    ),
    in_mntr_as(
        "connections_drained",
        every(
            "zebu_connections_drained",
            Counter,
            "Connections that a stopping server closed at a quiet moment.",
        ),
    ),
    in_mntr_as(
        "clients_moved",
        every("zebu_clients_moved", Counter, "Clients that left a stopping server when it asked them to."),
    ),
    in_mntr_as(
        "requests_repeated",
        every("zebu_requests_repeated", Counter, "Unanswered requests that were sent to the next leader."),
    ),
    in_mntr_as("purge_error_count", every("zebu_purge_errors", Counter, "Purges of old files that failed.")),
    in_mntr_as(
        "quorum_insecure_connections_blocked",
        of(Member, "zebu_quorum_insecure_connections_blocked", Counter, "Connections of peers without TLS."),
    ),
    in_mntr_as(
        "quorum_unsuccessful_handshake",
        of(Member, "zebu_quorum_unsuccessful_handshakes", Counter, "TLS handshakes with peers that failed."),
    ),
    in_mntr_as(
        "quorum_auth_failed_count",
        of(Member, "zebu_quorum_auth_failures", Counter, "Peers that failed to authenticate with SASL."),
    ),
    in_mntr_as(
        "tls_handshake_failed",
        of(
            ClientTls,
            "zebu_tls_handshakes_failed",
            CounterSet,
            "TLS handshakes of clients that failed, by reason.",
        ),
    ),
    in_mntr_as(
        "quorum_tls_handshake_failed",
        of(
            QuorumTls,
            "zebu_quorum_tls_handshakes_failed",
            CounterSet,
            "TLS handshakes of peers that failed, by reason.",
        ),
    ),
    in_mntr_as(
        "tls_certificate_reload_failed",
        of(
            ClientTls,
            "zebu_tls_certificate_reloads_failed",
            Counter,
            "Changed files of client TLS that were not usable.",
        ),
    ),
    in_mntr_as(
        "quorum_tls_certificate_reload_failed",
        of(
            QuorumTls,
            "zebu_quorum_tls_certificate_reloads_failed",
            Counter,
            "Changed files of quorum TLS that were not usable.",
        ),
    ),
    in_mntr_as(
        "tls_certificate_days_left",
        of(
            ClientTls,
            "zebu_tls_certificate_days_left",
            Gauge,
            "Days until the certificate of the client ports ends.",
        ),
    ),
    in_mntr_as(
        "quorum_tls_certificate_days_left",
        of(
            QuorumTls,
            "zebu_quorum_tls_certificate_days_left",
            Gauge,
            "Days until the certificate between servers ends.",
        ),
    ),
    in_mntr_as("sasl_failed", every("zebu_sasl_failures", Counter, "SASL exchanges of clients that failed.")),
    in_mntr_as(
        "sasl_users_reload_failed",
        every("zebu_sasl_users_reloads_failed", Counter, "Changed JAAS files that were not usable."),
    ),
    in_mntr_as(
        "audit_lines_written",
        of(Audit, "zebu_audit_lines_written", Counter, "Lines of the audit log that were written."),
    ),
    in_mntr_as(
        "audit_lines_dropped",
        of(Audit, "zebu_audit_lines_dropped", Counter, "Lines that found the queue of the audit log full."),
    ),
    in_mntr_as(
        "audit_lines_failed",
        of(Audit, "zebu_audit_lines_failed", Counter, "Lines of the audit log that could not be written."),
    ),
    in_mntr_as(
        "fenced_reads",
        every("zebu_fenced_reads", Counter, "Reads that waited until the state was fresh enough."),
    ),
    in_mntr_as(
        "read_checks",
        every("zebu_read_checks", Counter, "Quorum checks and syncs for such reads; many reads share one."),
    ),
    in_mntr_as(
        "disk_state",
        every("zebu_disk_state", Gauge, "0 with room on the disk, 1 below `disk.low`, 2 below `disk.stop`."),
    ),
    in_mntr_as(
        "disk_free_bytes",
        every("zebu_disk_free_bytes", Gauge, "Free bytes of the fuller directory; -1 if not known."),
    ),
    in_mntr_as(
        "growth_refused",
        every("zebu_growth_refused", Counter, "Requests refused because no quorum has room on its disks."),
    ),
    in_mntr_as("feeds_opened", every("zebu_feeds_opened", Counter, "Feeds that clients opened.")),
    in_mntr_as("feed_records", every("zebu_feed_records", Counter, "Transactions that feeds showed.")),
    in_mntr_as("feed_bytes", every("zebu_feed_bytes", Counter, "Bytes that feeds pushed.")),
    in_mntr_as(
        "feed_log_reads",
        every("zebu_feed_log_reads", Counter, "Reads of the log for feeds that were behind."),
    ),
    in_mntr_as(
        "feeds_purged",
        every("zebu_feeds_purged", Counter, "Feeds that ended because transactions were missing here."),
    ),
    in_mntr_as(
        "disk_hand_overs",
        of(
            Member,
            "zebu_disk_hand_overs",
            Counter,
            "Hand-overs of leadership because of a full or slow disk.",
        ),
    ),
    in_mntr_as(
        "slow_servers",
        of(Leader, "zebu_slow_servers", Gauge, "Followers whose ACKs are much slower than the others'."),
    ),
    hidden(every("zebu_disk_reserve_bytes", Gauge, "Bytes of the file `zebu.reserve`.")),
    hidden(of(Leader, "zebu_learner_disk_state", GaugeSet, "The state of the disk of a learner.")),
    hidden(of(
        Leader,
        "zebu_learner_ack_p99_ms",
        GaugeSet,
        "The 99th percentile of a follower's ACK latency over ten seconds.",
    )),
    in_mntr_as("listing_pages", every("zebu_listing_pages", Counter, "Pages of children and scans.")),
    in_mntr_as(
        "listing_slices",
        every(
            "zebu_listing_slices",
            Counter,
            "Slices of work until the children of a large node were in order.",
        ),
    ),
    in_mntr_as(
        "tree_deletes",
        every("zebu_tree_deletes", Counter, "Nodes deleted by deltree requests of this server's clients."),
    ),
    in_mntr_as(
        "keeper_requests",
        every("zebu_keeper_requests", Counter, "Requests that only ClickHouse Keeper and Zebu have."),
    ),
    hidden(every("zebu_build_info", LabelledGauge, "1; the label is the version.")),
    hidden(every("zebu_role", LabelledGauge, "1 for the current role of this server, 0 for the others.")),
    hidden(every("zebu_last_zxid_counter", Gauge, "The counter of the last applied zxid.")),
    hidden(every("zebu_zxid_remaining", Gauge, "Transactions until the epoch has no zxid left.")),
    hidden(every("zebu_bad_frames", Counter, "Connections closed because their bytes were no request.")),
    hidden(every("zebu_slow_requests", Counter, "Requests that took `zebu.slowRequestMs` or longer.")),
    hidden(every("zebu_large_replies", Counter, "Replies of `zebu.largeReplyBytes` or more.")),
    hidden(every(
        "zebu_watches_refused",
        Counter,
        "Requests for a watch beyond `zebu.maxWatchesPerConnection`.",
    )),
    hidden(every("zebu_slow_fsyncs", Counter, "Fsyncs above `fsync.warningthresholdms`.")),
    hidden(every("zebu_fsync_duration_seconds", Histogram, "One fsync of the transaction log.")),
    hidden(every("zebu_disk_queue_duration_seconds", Histogram, "A batch from the disk queue to durable.")),
    hidden(every("zebu_sync_batch_size", Histogram, "Transactions per fsync.")),
    hidden(every("zebu_disk_queue_depth", Histogram, "Batches that share one fsync.")),
    hidden(every("zebu_inbox_depth", Histogram, "Client events in the core's inbox, per round with any.")),
    hidden(every("zebu_in_flight_depth", Histogram, "Writes in flight, per round with client events.")),
    hidden(every(
        "zebu_commit_duration_seconds",
        Histogram,
        "A transaction from the log queue to its apply.",
    )),
    hidden(every("zebu_core_round_duration_seconds", Histogram, "One round of the core.")),
    hidden(every("zebu_apply_duration_seconds", Histogram, "One batch of commits under the exclusive lock.")),
    hidden(every("zebu_read_duration_seconds", Histogram, "A read to its reply, in steps of a millisecond.")),
    hidden(every(
        "zebu_write_duration_seconds",
        Histogram,
        "A write to its reply, in steps of a millisecond.",
    )),
    hidden(every("zebu_snapshot_duration_seconds", Histogram, "One snapshot.")),
    hidden(every("zebu_election_duration_seconds", Histogram, "LOOKING to a role.")),
    hidden(of(
        Leader,
        "zebu_learner_lag_zxids",
        GaugeSet,
        "Transactions that a learner has not acknowledged.",
    )),
    hidden(every("zebu_memory_bytes", LabelledGauge, "Bytes by table, as far as the server counts them.")),
    hidden(every("zebu_table_entries", LabelledGauge, "Entries by table.")),
    hidden(every("zebu_disk_backlog_bytes", Gauge, "Bytes in the disk queue.")),
    hidden(every("process_cpu_seconds_total", Counter, "CPU time of the process, user and system.")),
    hidden(every("process_resident_memory_bytes", Gauge, "Resident memory of the process.")),
    hidden(every("process_virtual_memory_bytes", Gauge, "Virtual memory of the process.")),
    hidden(every("process_start_time_seconds", Gauge, "Start of the process, in seconds since 1970.")),
    hidden(every("process_open_fds", Gauge, "Open files and sockets of the process.")),
    hidden(every("process_max_fds", Gauge, "The limit of open files and sockets.")),
    hidden(every("process_threads", Gauge, "Threads of the process.")),
];
