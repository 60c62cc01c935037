//! Counts how often a run takes paths that only some seeds reach. A path that no seed takes is not tested.

/// A path through the shipped code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoveredPath {
    /// A learner was sent DIFF.
    Diff,
    /// A learner was sent TRUNC.
    Trunc,
    /// A learner refused TRUNC: its log does not contain the position.
    TruncRefused,
    /// A learner was sent SNAP.
    Snap,
    /// Transactions were applied between the slices of a SNAP.
    SnapWithCommits,
    /// A server moved its data aside.
    Quarantine,
    /// A snapshot file was written.
    SnapshotWritten,
    /// Transactions were applied between the slices of a snapshot file.
    SnapshotWithCommits,
    /// A snapshot file could not be written.
    SnapshotFailed,
    /// A server released its reserve, because its disk was full.
    ReserveReleased,
    /// An observer master synchronized an observer.
    ObserverMasterSynced,
    /// An observer master passed the reply to a sync on to an observer.
    ObserverMasterSync,
    /// An observer master passed the reply to a session revalidation on to an observer.
    ObserverMasterRevalidation,
    /// An observer without a log was synchronized.
    MemoryObserverSynced,
    /// An observer without a log returned to the state of its disk.
    MemoryObserverRewind,
    /// A client got a local session.
    LocalSession,
    /// A client resumed a local session.
    LocalSessionResumed,
    /// A local session became global.
    LocalSessionUpgraded,
    /// An ephemeral node of a local session was refused.
    LocalSessionRefused,
    /// A server without a leader began to serve reads.
    ReadOnlyService,
    /// Such a server may show transactions that are not committed: it was restarted.
    ReadOnlyLoadedLog,
    /// A client got a session at such a server, or resumed its session there.
    ReadOnlySession,
    /// Such a server answered a read.
    ReadOnlyRead,
    /// Such a server refused a write or a sync.
    ReadOnlyRefusal,
    /// A client with a session at such a server reached a server that accepts writes.
    ReadOnlyLeft,
    /// A server served connections again that it had kept without a leader.
    ConnectionsContinued,
    /// The same, by a server that had led before.
    LeaderClientsContinued,
    /// A request without an answer was sent to the next leader.
    RequestsRepeated,
    /// A client moved because its server asked for it.
    ClientMoved,
    /// A server that stops closed a connection at a quiet moment.
    ConnectionDrained,
    /// A write of ClickHouse Keeper had an effect.
    KeeperWrite,
    /// A write of ClickHouse Keeper found nothing to do.
    KeeperWithoutEffect,
    /// A write of ClickHouse Keeper failed.
    KeeperRefused,
    /// removeRecursive deleted several nodes.
    KeeperSubtree,
    /// A multi with parts of ClickHouse Keeper was carried out.
    KeeperMulti,
    /// A deltree deleted nodes.
    TreeDelete,
    /// A deltree left nodes for the next one.
    TreeDeleteWithMore,
    /// A list that ZooKeeper does not have was answered.
    Listing,
    /// A list waited for the next slice of its order.
    ListingSlice,
    /// A client walked over all pages of a list.
    ListingWalk,
    /// A client opened a feed.
    FeedOpened,
    /// A feed showed a transaction.
    FeedRecord,
    /// A feed read from the log files.
    FeedLogRead,
    /// A feed ended because its server lacks transactions.
    FeedPurged,
}

impl CoveredPath {
    /// All paths, in the order of the table.
    pub const ALL: [CoveredPath; 44] = [
        CoveredPath::Diff,
        CoveredPath::Trunc,
        CoveredPath::TruncRefused,
        CoveredPath::Snap,
        CoveredPath::SnapWithCommits,
        CoveredPath::Quarantine,
        CoveredPath::SnapshotWritten,
        CoveredPath::SnapshotWithCommits,
        CoveredPath::SnapshotFailed,
        CoveredPath::ReserveReleased,
        CoveredPath::ObserverMasterSynced,
        CoveredPath::ObserverMasterSync,
        CoveredPath::ObserverMasterRevalidation,
        CoveredPath::MemoryObserverSynced,
        CoveredPath::MemoryObserverRewind,
        CoveredPath::LocalSession,
        CoveredPath::LocalSessionResumed,
        CoveredPath::LocalSessionUpgraded,
        CoveredPath::LocalSessionRefused,
        CoveredPath::ReadOnlyService,
        CoveredPath::ReadOnlyLoadedLog,
        CoveredPath::ReadOnlySession,
        CoveredPath::ReadOnlyRead,
        CoveredPath::ReadOnlyRefusal,
        CoveredPath::ReadOnlyLeft,
        CoveredPath::ConnectionsContinued,
        CoveredPath::LeaderClientsContinued,
        CoveredPath::RequestsRepeated,
        CoveredPath::ClientMoved,
        CoveredPath::ConnectionDrained,
        CoveredPath::KeeperWrite,
        CoveredPath::KeeperWithoutEffect,
        CoveredPath::KeeperRefused,
        CoveredPath::KeeperSubtree,
        CoveredPath::KeeperMulti,
        CoveredPath::TreeDelete,
        CoveredPath::TreeDeleteWithMore,
        CoveredPath::Listing,
        CoveredPath::ListingSlice,
        CoveredPath::ListingWalk,
        CoveredPath::FeedOpened,
        CoveredPath::FeedRecord,
        CoveredPath::FeedLogRead,
        CoveredPath::FeedPurged,
    ];

    /// The name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            CoveredPath::Diff => "DIFF sent",
            CoveredPath::Trunc => "TRUNC sent",
            CoveredPath::TruncRefused => "TRUNC refused by the learner",
            CoveredPath::Snap => "SNAP sent",
            CoveredPath::SnapWithCommits => "SNAP with commits between its slices",
            CoveredPath::Quarantine => "data moved aside (quarantine)",
            CoveredPath::SnapshotWritten => "snapshot file written",
            CoveredPath::SnapshotWithCommits => "snapshot file with commits between its slices",
            CoveredPath::SnapshotFailed => "snapshot file not written after an error",
            CoveredPath::ReserveReleased => "reserve of a full disk released",
            CoveredPath::ObserverMasterSynced => "observer synchronized by an observer master",
            CoveredPath::ObserverMasterSync => "sync answered through an observer master",
            CoveredPath::ObserverMasterRevalidation => "session revalidated through an observer master",
            CoveredPath::MemoryObserverSynced => "observer without a log synchronized",
            CoveredPath::MemoryObserverRewind => "observer without a log reloaded its disk",
            CoveredPath::LocalSession => "local session opened",
            CoveredPath::LocalSessionResumed => "local session resumed",
            CoveredPath::LocalSessionUpgraded => "local session made global",
            CoveredPath::LocalSessionRefused => "ephemeral node of a local session refused",
            CoveredPath::ReadOnlyService => "server begins to serve reads only",
            CoveredPath::ReadOnlyLoadedLog => "the same, with a log that was loaded and may be uncommitted",
            CoveredPath::ReadOnlySession => "session at a read-only server",
            CoveredPath::ReadOnlyRead => "read answered by a read-only server",
            CoveredPath::ReadOnlyRefusal => "write or sync refused by a read-only server",
            CoveredPath::ReadOnlyLeft => "client moved from a read-only server to another one",
            CoveredPath::ConnectionsContinued => "connections continued under the next leader",
            CoveredPath::LeaderClientsContinued => "the same, by a server that had led",
            CoveredPath::RequestsRepeated => "unanswered requests sent to the next leader",
            CoveredPath::ClientMoved => "client moved because its server stops",
            CoveredPath::ConnectionDrained => "connection closed at a quiet moment",
            CoveredPath::KeeperWrite => "write of ClickHouse Keeper with an effect",
            CoveredPath::KeeperWithoutEffect => "the same without an effect",
            CoveredPath::KeeperRefused => "the same that failed",
            CoveredPath::KeeperSubtree => "removeRecursive of several nodes",
            CoveredPath::KeeperMulti => "multi with parts of ClickHouse Keeper",
            CoveredPath::TreeDelete => "deltree of a subtree",
            CoveredPath::TreeDeleteWithMore => "the same, with nodes left",
            CoveredPath::Listing => "list of children or of a subtree answered",
            CoveredPath::ListingSlice => "slice of the order of children",
            CoveredPath::ListingWalk => "walk over several pages complete",
            CoveredPath::FeedOpened => "feed opened",
            CoveredPath::FeedRecord => "transaction shown by a feed",
            CoveredPath::FeedLogRead => "feed read from the log",
            CoveredPath::FeedPurged => "feed ended for want of a log",
        }
    }
}

/// How often each path was taken.
#[derive(Clone, Debug)]
pub struct PathCounts([u64; CoveredPath::ALL.len()]);

impl Default for PathCounts {
    fn default() -> PathCounts {
        PathCounts([0; CoveredPath::ALL.len()])
    }
}

impl PathCounts {
    /// Counts a path once.
    pub(crate) fn add(&mut self, path: CoveredPath) {
        self.0[path as usize] += 1;
    }

    /// How often a path was taken.
    pub fn get(&self, path: CoveredPath) -> u64 {
        self.0[path as usize]
    }
}
