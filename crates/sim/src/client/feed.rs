//! The feed of a client: what it asks for, and how far it is. A feed ends with its connection; the client
//! opens it again behind the last batch, at whichever server it is connected to then.

use zebu_client::core::FeedId;
use zebu_proto::client::feed::FROM_NOW;
use zebu_proto::client::{FeedOpen, FeedOptions};

use super::workload::OperationDrawer;

/// A feed of one client.
#[derive(Debug)]
pub(crate) struct SimFeed {
    /// The number of the last attempt to open it.
    pub(crate) id: FeedId,
    /// The next request that opens it.
    pub(crate) open: FeedOpen,
    pub(crate) stage: FeedStage,
}

/// How far a feed is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedStage {
    Closed,
    /// The request that opens it is on its way.
    Opening,
    Open,
}

impl SimFeed {
    pub(crate) fn new(open: FeedOpen) -> SimFeed {
        SimFeed { id: FeedId(0), open, stage: FeedStage::Closed }
    }
}

impl OperationDrawer<'_> {
    /// A new feed: from now, or from the begin of the history.
    pub(super) fn feed(&mut self) -> FeedOpen {
        let prefixes = match self.random.below(4) {
            0 => Vec::new(),
            1 => vec!["/".into()],
            2 => vec![Box::from(&*self.path())],
            _ => vec![Box::from(&*self.path()), Box::from(&*self.path())],
        };
        FeedOpen {
            after: if self.random.permille(700) { FROM_NOW } else { 0 },
            prefixes,
            options: FeedOptions {
                data: self.random.permille(500),
                sessions: self.random.permille(500),
                acl_changes: self.random.permille(500),
            },
            credit: self.random.pick(&[1, 300, 1 << 20]),
        }
    }
}
