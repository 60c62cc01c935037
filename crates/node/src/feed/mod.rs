//! Feeds of committed transactions. `receive.rs` opens a feed, `table.rs` holds the open feeds of a server,
//! and `recent.rs` the last transactions while there are feeds. `cursor.rs` is the place of one feed: it
//! turns transactions (`feed_txn.rs`) into batches, by its filter (`filter.rs`).
//!
//! The edge moves the cursors. It reads older transactions from the log files, outside of the core.

mod cursor;
mod feed_txn;
mod filter;
mod receive;
mod recent;
mod table;

use zebu_proto::Id;

pub use cursor::{FeedCursor, FeedProgress};
pub use feed_txn::FeedTxn;
pub use filter::FeedFilter;
pub use recent::{RECENT_BYTES_MAX, RECENT_TXNS_MAX};
pub use table::{FEED_BATCH_BYTES, FEED_CREDIT_MAX, FeedKey, FeedSource, FeedTable};

/// The number of feeds of a server, unless the configuration says otherwise.
pub const FEEDS_DEFAULT: usize = 64;

/// Settings of feeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedSettings {
    /// Feeds that the clients of a server may have (`feed.max`); zero turns feeds off.
    pub feeds_max: usize,
    /// Identities that may open feeds, besides the super user (`feed.readers`).
    pub readers: Box<[Id]>,
}

impl Default for FeedSettings {
    fn default() -> FeedSettings {
        FeedSettings { feeds_max: FEEDS_DEFAULT, readers: Box::default() }
    }
}
