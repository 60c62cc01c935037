//! Elections, learners and proposals.

use super::{every, of, zero};
use crate::family::FamilyKind::{
    AdvancedSummary, AdvancedSummarySet, BasicSummary, BasicSummarySet, Counter, Gauge,
};
use crate::family::FamilyScope::{Leader, LearnerMaster, Member, Observer};
use crate::family::{Exposure, Family};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        exposure: Exposure::MntrAs("epoch"),
        ..of(Member, "zebu_epoch", Gauge, "The epoch of the leader that this server serves under.")
    },
    of(Member, "quorum_size", Gauge, "Voters of the active config."),
    Family {
        exposure: Exposure::MntrOnly,
        ..of(Observer, "observer_master_id", Gauge, "The server that this observer learns from.")
    },
    of(LearnerMaster, "synced_observers", Gauge, "Observers that are up to date."),
    of(Leader, "learners", Gauge, "Connected learners."),
    of(Leader, "synced_followers", Gauge, "Voting followers that are up to date."),
    Family {
        exposure: Exposure::MntrOnly,
        ..of(Leader, "followers", Gauge, "The same as `synced_followers`; the name of ZooKeeper 3.4.")
    },
    of(Leader, "synced_non_voting_followers", Gauge, "Learners outside of the config that are up to date."),
    of(Leader, "pending_syncs", Gauge, "Syncs of clients that wait for their transactions."),
    of(Leader, "leader_uptime", Gauge, "Milliseconds since this leader began to serve."),
    of(Leader, "last_proposal_size", Gauge, "Bytes of the last proposal; -1 before the first."),
    of(Leader, "min_proposal_size", Gauge, "Bytes of the smallest proposal; -1 before the first."),
    of(Leader, "max_proposal_size", Gauge, "Bytes of the largest proposal; -1 before the first."),
    every("diff_count", Counter, "Learners that this server synchronized with DIFF or TRUNC."),
    every("snap_count", Counter, "Learners that this server synchronized with SNAP."),
    every("proposal_count", Counter, "Proposals of this leader."),
    every(
        "inflight_diff_count",
        BasicSummary,
        "Learners in synchronization with DIFF or TRUNC, at begin and end.",
    ),
    every("inflight_snap_count", BasicSummary, "Learners in synchronization with SNAP, at begin and end."),
    every("looking_count", Counter, "Times that this server entered LOOKING."),
    every("election_time", BasicSummary, "Milliseconds from LOOKING to a role."),
    every("unavailable_time", BasicSummary, "Milliseconds in which this member served no client, per time."),
    every("leader_unavailable_time", BasicSummary, "The same for a server that then led."),
    every("follower_sync_time", BasicSummary, "Milliseconds from the election to a serving follower."),
    every("observer_sync_time", BasicSummary, "Milliseconds from the election to a serving observer."),
    zero("quit_leading_due_to_disloyal_voter", Counter, "Zebu has no such switch."),
    every("learner_proposal_received_count", Counter, "Proposals that this learner received."),
    every("learner_commit_received_count", Counter, "Commits that this learner received."),
    every("revalidate_count", Counter, "Sessions that learners asked this leader about."),
    every(
        "propagation_latency",
        AdvancedSummary,
        "Milliseconds from the leader's clock at proposal to apply.",
    ),
    every("proposal_latency", AdvancedSummary, "Milliseconds from proposal to this learner's log queue."),
    every(
        "proposal_ack_creation_latency",
        AdvancedSummary,
        "Milliseconds from proposal to this learner's ack.",
    ),
    every(
        "commit_propagation_latency",
        AdvancedSummary,
        "Milliseconds from proposal to this learner's apply.",
    ),
    every("quorum_ack_latency", AdvancedSummary, "Milliseconds from log queue to commit, of a leader."),
    every(
        "ack_latency",
        AdvancedSummarySet,
        "Milliseconds from a leader's log queue to the ack, by learner.",
    ),
    every(
        "learner_handler_qp_size",
        BasicSummarySet,
        "Bytes that wait for the learner's socket after a round.",
    ),
    zero("learner_handler_qp_time_ms", AdvancedSummarySet, "A queue is measured by its bytes, see the size."),
    every(
        "learner_request_processor_queue_size",
        BasicSummary,
        "Requests that a learner has sent to the leader.",
    ),
    zero("om_proposal_process_time_ms", AdvancedSummary, "An observer master relays within the round."),
    zero("om_commit_process_time_ms", AdvancedSummary, "An observer master relays within the round."),
];
