//! Measured values of the node and its replica. They only count: no decision depends on them.

use zebu_metrics::{Counter, KeyedCounters, NamespaceTable, Summary, WriteRun};
use zebu_proto::client::watch::EventType;
use zebu_proto::txn::{Txn, TxnEntry};

/// Values that the node and the replica measure. Times are in milliseconds.
#[derive(Debug)]
pub struct NodeMetrics {
    /// From the time of a transaction to its application here. The clock is the leader's.
    pub propagation_latency: Summary,
    /// The same on a learner.
    pub commit_propagation_latency: Summary,
    /// The same on a primary, for requests of its own clients.
    pub write_commit_time: Summary,
    /// From the receipt of a write to its preparation.
    pub prep_queue_time: Summary,
    /// The wait of a read for earlier writes of its connection.
    pub read_wait_time: Summary,
    /// Requests of the connection when one of its writes is answered.
    pub requests_in_queue: Summary,
    /// Reads that follow the reply of a write.
    pub reads_after_write: Summary,
    /// Watches fired by one creation.
    pub created_watches: Summary,
    /// Watches fired by one deletion.
    pub deleted_watches: Summary,
    /// Watches fired by one change of data.
    pub changed_watches: Summary,
    /// Watches fired by one change of children.
    pub children_watches: Summary,
    /// Missing tokens of the connection throttle, per connect request.
    pub token_deficit: Summary,
    /// Connect requests that resume a session.
    pub sessions_resumed: Counter,
    /// Expired sessions.
    pub sessions_expired: Counter,
    /// Writes that waited too long and were refused.
    pub throttled_ops: Counter,
    /// Writes whose serving term or session ended before they began.
    pub stale_requests: Counter,
    /// Connections that were kept when a leader was lost.
    pub connections_kept: Counter,
    /// Kept connections that were served again under the next leader.
    pub connections_continued: Counter,
    /// Hellos of clients that can be asked to move.
    pub client_hellos: Counter,
    /// Connections that a stopping server has closed at a quiet moment.
    pub connections_drained: Counter,
    /// Clients that left a stopping server after they were asked to move.
    pub clients_moved: Counter,
    /// Requests without an answer that were sent to the next leader.
    pub requests_repeated: Counter,
    /// Requests refused because their connection watches too many paths.
    pub watches_refused: Counter,
    /// Reads that waited until the state was fresh enough.
    pub fenced_reads: Counter,
    /// Answered pages and scans.
    pub listing_pages: Counter,
    /// Slices of work for pages and scans that could not be answered at once.
    pub listing_slices: Counter,
    /// Nodes that deltree requests of this server's clients deleted.
    pub tree_deletes: Counter,
    /// Requests of ClickHouse Keeper, refused ones included.
    pub keeper_requests: Counter,
    /// Checks for these reads; many reads share one.
    pub read_checks: Counter,
    /// Requests refused because no quorum has room on its disks.
    pub growth_refused: Counter,
    /// Feeds that clients opened.
    pub feeds_opened: Counter,
    /// Transactions that feeds showed.
    pub feed_records: Counter,
    /// Bytes that feeds pushed.
    pub feed_bytes: Counter,
    /// Reads of the log for feeds that were behind.
    pub feed_log_reads: Counter,
    /// Feeds that ended because transactions were missing here.
    pub feeds_purged: Counter,
    /// Prepared changes.
    pub changes_queued: Counter,
    /// Prepared changes that were applied.
    pub changes_removed: Counter,
    /// Writes refused by a quota, by namespace.
    pub quota_exceeded: KeyedCounters,
    /// Bytes by namespace.
    pub namespaces: NamespaceTable,
}

impl NodeMetrics {
    pub(crate) fn new(hash_seed: u64) -> NodeMetrics {
        NodeMetrics {
            propagation_latency: Summary::default(),
            commit_propagation_latency: Summary::default(),
            write_commit_time: Summary::default(),
            prep_queue_time: Summary::default(),
            read_wait_time: Summary::default(),
            requests_in_queue: Summary::default(),
            reads_after_write: Summary::default(),
            created_watches: Summary::default(),
            deleted_watches: Summary::default(),
            changed_watches: Summary::default(),
            children_watches: Summary::default(),
            token_deficit: Summary::default(),
            sessions_resumed: Counter::default(),
            sessions_expired: Counter::default(),
            throttled_ops: Counter::default(),
            stale_requests: Counter::default(),
            connections_kept: Counter::default(),
            connections_continued: Counter::default(),
            client_hellos: Counter::default(),
            connections_drained: Counter::default(),
            clients_moved: Counter::default(),
            requests_repeated: Counter::default(),
            watches_refused: Counter::default(),
            fenced_reads: Counter::default(),
            listing_pages: Counter::default(),
            listing_slices: Counter::default(),
            tree_deletes: Counter::default(),
            keeper_requests: Counter::default(),
            read_checks: Counter::default(),
            growth_refused: Counter::default(),
            feeds_opened: Counter::default(),
            feed_records: Counter::default(),
            feed_bytes: Counter::default(),
            feed_log_reads: Counter::default(),
            feeds_purged: Counter::default(),
            changes_queued: Counter::default(),
            changes_removed: Counter::default(),
            quota_exceeded: KeyedCounters::default(),
            namespaces: NamespaceTable::new(hash_seed),
        }
    }

    /// Begins anew for `mntr`.
    pub fn reset(&self) {
        let NodeMetrics {
            propagation_latency,
            commit_propagation_latency,
            write_commit_time,
            prep_queue_time,
            read_wait_time,
            requests_in_queue,
            reads_after_write,
            created_watches,
            deleted_watches,
            changed_watches,
            children_watches,
            token_deficit,
            sessions_resumed,
            sessions_expired,
            throttled_ops,
            stale_requests,
            connections_kept,
            connections_continued,
            client_hellos,
            connections_drained,
            clients_moved,
            requests_repeated,
            watches_refused,
            fenced_reads,
            listing_pages,
            listing_slices,
            tree_deletes,
            keeper_requests,
            read_checks,
            growth_refused,
            feeds_opened,
            feed_records,
            feed_bytes,
            feed_log_reads,
            feeds_purged,
            changes_queued,
            changes_removed,
            quota_exceeded,
            namespaces,
        } = self;
        for summary in [
            propagation_latency,
            commit_propagation_latency,
            write_commit_time,
            prep_queue_time,
            read_wait_time,
            requests_in_queue,
            reads_after_write,
            created_watches,
            deleted_watches,
            changed_watches,
            children_watches,
            token_deficit,
        ] {
            summary.reset();
        }
        for counter in [
            sessions_resumed,
            sessions_expired,
            throttled_ops,
            stale_requests,
            connections_kept,
            connections_continued,
            client_hellos,
            connections_drained,
            clients_moved,
            requests_repeated,
            watches_refused,
            fenced_reads,
            listing_pages,
            listing_slices,
            tree_deletes,
            keeper_requests,
            read_checks,
            growth_refused,
            feeds_opened,
            feed_records,
            feed_bytes,
            feed_log_reads,
            feeds_purged,
            changes_queued,
            changes_removed,
        ] {
            counter.reset();
        }
        quota_exceeded.reset();
        namespaces.reset();
    }

    /// Counts the watches that one event fired. Events without any are left out, as in ZooKeeper.
    pub(crate) fn count_fired(&self, kind: EventType, watches: u64) {
        let summary = match kind {
            EventType::NodeCreated => &self.created_watches,
            EventType::NodeDeleted => &self.deleted_watches,
            EventType::NodeDataChanged => &self.changed_watches,
            EventType::NodeChildrenChanged => &self.children_watches,
        };
        if watches > 0 {
            summary.record(watches);
        }
    }

    /// Counts the bytes of path and data of an applied transaction, by namespace.
    pub(crate) fn count_write(&self, run: &mut WriteRun, entry: &TxnEntry) {
        let length = |data: &zebu_proto::Buffer| data.as_ref().map_or(0, |data| data.len());
        let (path, data) = match &entry.txn {
            Txn::Create(create) | Txn::Create2(create) => (&*create.path, length(&create.data)),
            Txn::CreateContainer(create) => (&*create.path, length(&create.data)),
            Txn::CreateTtl(create) => (&*create.path, length(&create.data)),
            Txn::SetData(set) => (&*set.path, length(&set.data)),
            Txn::Error(_)
            | Txn::CreateSession { .. }
            | Txn::CloseSession(_)
            | Txn::Delete(_)
            | Txn::DeleteContainer(_)
            | Txn::SetAcl(_)
            | Txn::Check(_)
            | Txn::Multi(_)
            | Txn::Reconfig(_) => return,
        };
        self.namespaces.add_write(run, path, (path.len() + data) as u64);
    }
}
