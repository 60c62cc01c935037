//! The part of a connection in feeds: whether its client understands them, and their pushes.

use zebu_proto::client::{FEATURE_FEED, FeedPush, ReplyHeader};
use zebu_proto::{Xid, Zxid};

use super::{ClientConnection, Jute};

impl ClientConnection {
    /// Notes whether the client understands feeds. It may say so once more, and cannot take it back.
    pub(crate) fn note_feed_feature(&mut self, features: i32) {
        self.takes_feeds |= features & FEATURE_FEED != 0;
    }

    /// Whether the client understands feeds.
    pub(crate) fn takes_feeds(&self) -> bool {
        self.takes_feeds
    }

    /// The slot of the next reply; `None` if it is sent at once.
    pub(crate) fn next_reply_slot(&self) -> Option<u64> {
        (!self.is_idle()).then(|| self.first_slot + self.slots.len() as u64)
    }

    /// Whether the reply of this slot is in the outbox.
    pub(crate) fn has_answered(&self, slot: u64) -> bool {
        self.first_slot > slot
    }

    /// Appends a push of a feed. Returns its bytes.
    pub(crate) fn push_feed(&mut self, zxid: Zxid, push: &FeedPush) -> usize {
        let before = self.outbox.len();
        self.push_frame(|out| {
            ReplyHeader { xid: Xid::PUSH.0, zxid: zxid.0, err: 0 }.encode(out);
            push.encode(out);
        });
        self.outbox.len() - before
    }
}
