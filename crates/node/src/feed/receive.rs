//! Receives the requests about feeds: checks that the client may see the history, and opens the feed.

use std::sync::Arc;

use zebu_proto::client::feed::{FEATURE_FEED, FROM_NOW, FeedOpen, FeedOpened, FeedRequest};
use zebu_proto::{ErrorCode, Jute, Permissions, Zxid};
use zebu_tree::access::{AclChecks, allowed};
use zebu_tree::{Credentials, path};

use super::FeedSettings;
use super::filter::FeedFilter;
use super::table::{FeedKey, FeedOpening, FeedTable};
use crate::connection::{ClientConnection, RequestMeta};
use crate::prepared_reply::{PreparedReply, ReplyZxid};
use crate::replica::Replica;
use crate::serving_mode::ServingMode;

impl Replica {
    /// Sets how clients may use feeds.
    #[must_use]
    pub fn with_feeds(mut self, settings: FeedSettings) -> Replica {
        self.feed_settings = settings;
        self
    }

    /// The feeds of the clients of this server.
    pub fn feeds(&self) -> &Arc<FeedTable> {
        &self.feeds
    }

    /// The bit of hello for feeds, if this server has them.
    pub(crate) fn feed_feature(&self, connection: &ClientConnection) -> i32 {
        if self.has_feeds(connection) { FEATURE_FEED } else { 0 }
    }

    /// Whether clients of this server may open feeds. Without a leader the history could end in another way.
    pub(crate) fn has_feeds(&self, connection: &ClientConnection) -> bool {
        let is_read_write = match connection.serving_term.mode {
            ServingMode::Standalone | ServingMode::Leader | ServingMode::Follower | ServingMode::Observer => {
                true
            }
            ServingMode::ReadOnly => false,
        };
        is_read_write && self.feed_settings.feeds_max > 0
    }

    /// Answers a request about feeds.
    pub(crate) fn receive_feed(
        &self,
        connection: &mut ClientConnection,
        meta: RequestMeta,
        request: FeedRequest,
    ) {
        if !self.has_feeds(connection) {
            return self.refuse_private(connection, meta);
        }
        let reply = match request {
            FeedRequest::Open(open) => match self.open_feed(connection, *open) {
                Ok(opened) => {
                    let mut body = Vec::new();
                    opened.encode(&mut body);
                    PreparedReply::body(body)
                }
                Err(error) => PreparedReply::header(ReplyZxid::Applied, Some(error)),
            },
            // A feed may have ended while the request was on its way.
            FeedRequest::Credit(request) => {
                let key = FeedKey { connection: connection.id, feed: request.feed };
                match request.credit {
                    0 => drop(self.feeds.close(key)),
                    bytes => self.feeds.grant(key, bytes),
                }
                PreparedReply::header(ReplyZxid::Applied, None)
            }
        };
        self.reply_in_order(connection, meta, reply);
    }

    fn open_feed(&self, connection: &ClientConnection, open: FeedOpen) -> Result<FeedOpened, ErrorCode> {
        if !connection.takes_feeds() {
            return Err(ErrorCode::BadArguments);
        }
        if open.prefixes.iter().any(|prefix| path::validate(prefix).is_err()) {
            return Err(ErrorCode::BadArguments);
        }
        if !self.may_read_history(&connection.credentials, &open) {
            return Err(ErrorCode::NoAuth);
        }
        let last = self.last_zxid();
        let after = if open.after == FROM_NOW { last } else { Zxid(open.after) };
        let opening = FeedOpening {
            connection: connection.id,
            filter: FeedFilter::new(open.prefixes, open.options),
            after,
            credit: open.credit.into(),
            reply_slot: connection.next_reply_slot(),
        };
        let feed = self.feeds.open(opening, self.feed_settings.feeds_max)?;
        self.metrics.feeds_opened.increment();
        Ok(FeedOpened { feed, last: last.0 })
    }

    /// The log has no ACLs of the past. So a reader of feeds must be configured, and may read the first node
    /// of each prefix, or the nearest one above it that exists.
    fn may_read_history(&self, credentials: &Credentials, open: &FeedOpen) -> bool {
        if credentials.is_super() || self.policy.acl_checks == AclChecks::Skipped {
            return true;
        }
        let readers = &self.feed_settings.readers;
        let is_anyone =
            |id: &zebu_proto::Id| (id.scheme.as_deref(), id.id.as_deref()) == (Some("world"), Some("anyone"));
        let is_reader = readers.iter().any(|id| is_anyone(id) || credentials.iter().any(|own| own == id));
        let root = ["/".into()];
        let prefixes = if open.prefixes.is_empty() { &root[..] } else { &open.prefixes };
        is_reader && prefixes.iter().all(|prefix| self.may_read_at(prefix, credentials))
    }

    fn may_read_at(&self, prefix: &str, credentials: &Credentials) -> bool {
        let mut top = prefix;
        loop {
            if let Some(node) = self.tree.node(top) {
                return allowed(node.acl(), Permissions::READ, credentials, &self.policy);
            }
            match top.rsplit_once('/') {
                Some(("", _)) if top != "/" => top = "/",
                Some((above, _)) if !above.is_empty() => top = above,
                Some(_) | None => return false,
            }
        }
    }
}
