//! Times between events of the core: from the log queue to ack and commit, elections, and times without
//! clients. The core owns it; nothing here decides anything.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use zebu_metrics::Summary;
use zebu_node::{LogBatch, ServingMode};
use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;
use zebu_zab::{LinkId, PeerEvent};

use super::ServerMetrics;

/// Batches whose times are kept. A learner that is further behind is not measured.
const APPENDED_MAX: usize = 4096;

/// A batch in the log queue or behind it.
#[derive(Clone, Copy, Debug)]
struct AppendedBatch {
    last: Zxid,
    transactions: u64,
    at: Instant,
}

/// The state of the measurements.
#[derive(Debug)]
pub(crate) struct CoreTimes {
    /// Oldest first. Applied ones stay for late acks, as long as there is room.
    appended: VecDeque<AppendedBatch>,
    /// Batches in front of `appended` that are applied.
    applied: usize,
    learners: BTreeMap<LinkId, Arc<Summary>>,
    /// The begin of the current election.
    looking_since: Option<Instant>,
    /// The end of the last election.
    elected_at: Option<Instant>,
    /// The begin of the current time without clients.
    unavailable_since: Option<Instant>,
}

impl CoreTimes {
    /// A member begins without clients; a standalone server serves at once.
    pub(crate) fn new(is_member: bool) -> CoreTimes {
        CoreTimes {
            appended: VecDeque::new(),
            applied: 0,
            learners: BTreeMap::new(),
            looking_since: None,
            elected_at: None,
            unavailable_since: is_member.then(Instant::now),
        }
    }

    /// A batch was handed to the disk.
    pub(crate) fn appended(
        &mut self,
        batch: &LogBatch,
        mode: Option<ServingMode>,
        metrics: &ServerMetrics,
        wall_ms: i64,
    ) {
        metrics.disk_transactions.add(batch.transactions);
        if let (Some(ServingMode::Follower | ServingMode::Observer), Some(time_ms)) =
            (mode, batch.first_time_ms())
        {
            metrics.proposal_latency_ms.record_elapsed(wall_ms - time_ms);
        }
        if self.appended.len() == APPENDED_MAX {
            self.appended.pop_front();
            self.applied = self.applied.saturating_sub(1);
        }
        let (last, transactions) = (batch.last, batch.transactions);
        self.appended.push_back(AppendedBatch { last, transactions, at: Instant::now() });
    }

    /// Transactions up to this one are applied.
    pub(crate) fn applied(&mut self, last: Zxid, mode: Option<ServingMode>, metrics: &ServerMetrics) {
        let mut now = None;
        while let Some(batch) = self.appended.get_mut(self.applied)
            && batch.last <= last
        {
            let elapsed = now.get_or_insert_with(Instant::now).saturating_duration_since(batch.at);
            metrics.commit_duration.record_n(elapsed.as_micros() as u64, batch.transactions);
            if mode == Some(ServingMode::Leader) {
                metrics.quorum_ack_ms.record_n(elapsed.as_millis() as u64, batch.transactions);
            }
            self.applied += 1;
        }
        if self.learners.is_empty() && self.applied > 0 {
            self.appended.drain(..self.applied);
            self.applied = 0;
        }
    }

    /// Counts an event of a peer before the node handles it.
    pub(crate) fn peer_event(&mut self, event: &PeerEvent, metrics: &ServerMetrics) {
        match event {
            PeerEvent::Packet { link, packet } => self.packet(*link, packet, metrics),
            PeerEvent::LinkDown { link } => {
                self.learners.remove(link);
                metrics.syncing.end(*link);
            }
            // Wildcard: other events carry no value that is measured.
            _ => {}
        }
    }

    fn packet(&mut self, link: LinkId, packet: &Packet, metrics: &ServerMetrics) {
        match packet {
            Packet::Ack { zxid } => self.ack(link, *zxid),
            Packet::Proposal { .. } => metrics.proposals_received.increment(),
            Packet::Commit { .. } | Packet::CommitAndActivate { .. } => metrics.commits_received.increment(),
            Packet::Inform { .. } | Packet::InformAndActivate { .. } => {
                metrics.proposals_received.increment();
                metrics.commits_received.increment();
            }
            Packet::Revalidate { .. } => metrics.revalidations.increment(),
            Packet::FollowerInfo { info, .. } | Packet::ObserverInfo { info, .. } => {
                self.learners.insert(link, metrics.ack_latency.of(&info.server.0.to_string()));
            }
            // Wildcard: other packets carry no value that is measured.
            _ => {}
        }
    }

    fn ack(&mut self, link: LinkId, zxid: Zxid) {
        let Some(summary) = self.learners.get(&link) else { return };
        let index = self.appended.partition_point(|batch| batch.last < zxid);
        // An ack of a batch that is not kept, or of an older epoch, has no time.
        if let Some(batch) = self.appended.get(index).filter(|batch| batch.last == zxid) {
            summary.record(batch.at.elapsed().as_millis() as u64);
        }
    }

    /// Observes the role after a round.
    pub(crate) fn observe_role(&mut self, is_looking: bool, metrics: &ServerMetrics) {
        match (self.looking_since, is_looking) {
            (None, true) => {
                self.looking_since = Some(Instant::now());
                metrics.elections_started.increment();
            }
            (Some(since), false) => {
                let elapsed = since.elapsed();
                metrics.election_ms.record(elapsed.as_millis() as u64);
                metrics.election_duration.record(elapsed.as_micros() as u64);
                self.looking_since = None;
                self.elected_at = Some(Instant::now());
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// The server begins or ends to serve clients.
    pub(crate) fn serving(&mut self, mode: Option<ServingMode>, metrics: &ServerMetrics) {
        let Some(mode) = mode else {
            self.unavailable_since = Some(Instant::now());
            // Batches of an old epoch get no acks.
            self.appended.clear();
            self.applied = 0;
            return;
        };
        let elapsed_ms = |since: Instant| since.elapsed().as_millis() as u64;
        if let Some(since) = self.unavailable_since.take() {
            metrics.unavailable_ms.record(elapsed_ms(since));
            if mode == ServingMode::Leader {
                metrics.leader_unavailable_ms.record(elapsed_ms(since));
            }
        }
        let elected = self.elected_at.take().map(elapsed_ms).unwrap_or(0);
        match mode {
            ServingMode::Follower => metrics.follower_sync_ms.record(elected),
            ServingMode::Observer => metrics.observer_sync_ms.record(elected),
            ServingMode::Leader | ServingMode::Standalone | ServingMode::ReadOnly => {}
        }
    }
}
