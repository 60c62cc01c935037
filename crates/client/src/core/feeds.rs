//! The open feeds of a connection. A feed belongs to its connection: with the connection it is lost, and its
//! owner opens it again behind the last batch.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use zebu_proto::client::{FeedCredit, FeedOpened, FeedPush};
use zebu_proto::{Jute, OpCode, Reader};

use super::action::SessionAction;
use super::phase::SessionPhase;
use super::queue::RequestPurpose;
use super::session::SessionMachine;

/// A feed of this client, on whatever connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FeedId(pub u64);

/// What a feed gets from its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedSignal {
    /// A push of the server.
    Push {
        /// Its content.
        push: FeedPush,
        /// The bytes that it took of the credit.
        bytes: usize,
    },
    /// The connection is lost, and the feed with it.
    Lost,
}

/// The feeds of the connection, by the server's number.
#[derive(Debug, Default)]
pub(super) struct ConnectionFeeds {
    open: BTreeMap<i32, FeedId>,
}

impl<T> SessionMachine<T> {
    /// Grants bytes to a feed, or closes it with zero. Nothing happens if the connection has no such feed.
    pub fn grant_feed(&mut self, now: Instant, feed: FeedId, credit: i32) {
        let Some(number) =
            self.feeds.open.iter().find_map(|(number, open)| (*open == feed).then_some(*number))
        else {
            return;
        };
        if credit == 0 {
            self.feeds.open.remove(&number);
        }
        if matches!(self.phase, SessionPhase::Connected { .. }) {
            let mut body = Vec::new();
            FeedCredit { feed: number, credit }.encode(&mut body);
            self.send_now(now, OpCode::FeedCredit, &body, RequestPurpose::GrantFeed);
            self.last_sent = now;
        }
    }

    /// Handles the reply to a call that opens a feed.
    pub(super) fn feed_opened(&mut self, feed: FeedId, code: i32, body: &Bytes) {
        if code == 0
            && let Ok(opened) = FeedOpened::decode(&mut Reader::new(body))
        {
            self.feeds.open.insert(opened.feed, feed);
        }
    }

    /// Passes a push to its feed. Pushes for a feed that was closed meanwhile are ignored. The server takes
    /// the bytes of the whole frame from the credit, header and length included.
    pub(super) fn feed_pushed(&mut self, now: Instant, zxid: i64, body: &Bytes, frame_bytes: usize) {
        if self.feeds.open.is_empty() {
            return;
        }
        let push = match FeedPush::decode(&mut Reader::new(body)) {
            Ok(Some(push)) => push,
            Ok(None) => return,
            Err(error) => return self.protocol_error(now, &format!("push of a feed: {error}")),
        };
        let feed = match &push {
            FeedPush::Batch(batch) => self.feeds.open.get(&batch.feed).copied(),
            FeedPush::End(end) => self.feeds.open.remove(&end.feed),
        };
        if let Some(feed) = feed {
            // The next server must have applied what the feed has shown. A push that does not go on may
            // repeat a place that the application chose and no server has reached.
            if matches!(&push, FeedPush::Batch(batch) if batch.to > batch.from) {
                self.event_zxid = self.event_zxid.max(zxid);
            }
            let signal = FeedSignal::Push { push, bytes: frame_bytes };
            self.actions.push_back(SessionAction::Feed { feed, signal });
        }
    }

    /// The connection ends.
    pub(super) fn lose_feeds(&mut self) {
        for feed in std::mem::take(&mut self.feeds.open).into_values() {
            self.actions.push_back(SessionAction::Feed { feed, signal: FeedSignal::Lost });
        }
    }
}
