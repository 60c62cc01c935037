//! What a feed shows of a transaction: changes at or below its prefixes, of the kinds that it asks for.

use zebu_proto::client::{ChangeKind, FeedChange, FeedOptions, FeedRecord};

use super::feed_txn::FeedTxn;
use crate::freshness::is_at_or_below;

/// The filter of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedFilter {
    /// All paths if there is none.
    prefixes: Box<[Box<str>]>,
    options: FeedOptions,
}

impl FeedFilter {
    /// A filter for these prefixes and kinds of changes.
    pub fn new(prefixes: Vec<Box<str>>, options: FeedOptions) -> FeedFilter {
        FeedFilter { prefixes: prefixes.into(), options }
    }

    fn shows(&self, change: &FeedChange) -> bool {
        match change.kind {
            ChangeKind::SessionOpened | ChangeKind::SessionEnded => return self.options.sessions,
            ChangeKind::AclChanged if !self.options.acl_changes => return false,
            ChangeKind::AclChanged | ChangeKind::Created | ChangeKind::Deleted | ChangeKind::DataChanged => {}
        }
        self.prefixes.is_empty() || self.prefixes.iter().any(|top| is_at_or_below(&change.path, top))
    }

    /// The record of a transaction: one for all of its changes. `None` if it has nothing to show.
    pub fn record(&self, txn: &FeedTxn) -> Option<FeedRecord> {
        let shown = txn.changes.iter().flatten().filter(|change| self.shows(change));
        let changes: Vec<FeedChange> = shown.map(|change| self.shown(change)).collect();
        let (zxid, time_ms, session) = (txn.zxid.0, txn.time_ms, txn.session);
        (!changes.is_empty()).then_some(FeedRecord { zxid, time_ms, session, changes })
    }

    fn shown(&self, change: &FeedChange) -> FeedChange {
        let data = if self.options.data { change.data.clone() } else { None };
        FeedChange { data, path: change.path.clone(), ..*change }
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::Zxid;
    use zebu_proto::client::CreatedOwner;

    use super::*;

    fn txn(changes: &[(ChangeKind, &str)]) -> FeedTxn {
        let change = |&(kind, path): &(ChangeKind, &str)| FeedChange {
            kind,
            path: path.into(),
            version: 0,
            data: Some([1].into()),
            owner: CreatedOwner::Plain,
        };
        let changes = Some(changes.iter().map(change).collect());
        FeedTxn { zxid: Zxid(1), time_ms: 0, session: 0, changes }
    }

    fn shown(prefixes: &[&str], options: FeedOptions, txn: &FeedTxn) -> Vec<String> {
        let prefixes = prefixes.iter().map(|&prefix| prefix.into()).collect();
        let record = FeedFilter::new(prefixes, options).record(txn);
        record.into_iter().flat_map(|record| record.changes).map(|change| change.path.to_string()).collect()
    }

    #[test]
    fn a_prefix_is_compared_by_parts_of_paths() {
        let created = ChangeKind::Created;
        let txn = txn(&[(created, "/app"), (created, "/app/a"), (created, "/apple"), (created, "/b")]);
        let none = FeedOptions::default();
        assert_eq!(shown(&["/app"], none, &txn), ["/app", "/app/a"]);
        assert_eq!(shown(&["/b", "/apple"], none, &txn), ["/apple", "/b"]);
        assert_eq!(shown(&["/"], none, &txn).len(), 4);
        assert_eq!(shown(&[], none, &txn).len(), 4);
        assert_eq!(FeedFilter::new(vec!["/c".into()], none).record(&txn), None);
    }

    #[test]
    fn kinds_and_data_are_shown_on_demand() {
        let txn = txn(&[
            (ChangeKind::DataChanged, "/a"),
            (ChangeKind::AclChanged, "/a/acl"),
            (ChangeKind::SessionEnded, ""),
        ]);
        let none = FeedOptions::default();
        assert_eq!(shown(&["/a"], none, &txn), ["/a"]);
        assert_eq!(shown(&["/a"], FeedOptions { acl_changes: true, ..none }, &txn), ["/a", "/a/acl"]);
        assert_eq!(shown(&["/a"], FeedOptions { sessions: true, ..none }, &txn), ["/a", ""]);
        for data in [false, true] {
            let record = FeedFilter::new(Vec::new(), FeedOptions { data, ..none }).record(&txn);
            let changes = record.expect("it shows a change").changes;
            assert!(changes.iter().all(|change| change.data.is_some() == data));
        }
    }
}
