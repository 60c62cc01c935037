//! Reads that say how fresh their answer must be, and the discovery of servers that can do it. Zebu servers
//! have a virtual node with their features. Discovery reads it once per connection, before the first such
//! read.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use zebu_proto::client::Freshness;
use zebu_proto::{ErrorCode, Jute, OpCode};

use super::call::{ApiCall, put_path_and_watch};
use super::client::Client;
use super::error::{Error, ErrorKind};
use crate::core::{FEATURES_NODE, feature_names};
use crate::net::awake_now;

/// The time after which a missing feature is looked for again: the leader of the server may have changed.
const MISSING_FOR: Duration = Duration::from_secs(10);

/// A request that only some servers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrivateRequest {
    Page,
    Scan,
    DeleteTree,
    Feed,
}

/// The features of a server that private requests and reads with freshness need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ServerFeatures {
    linear: bool,
    max_age: bool,
    min_zxid: bool,
    page: bool,
    scan: bool,
    delete_tree: bool,
    feed: bool,
}

impl ServerFeatures {
    fn parse(text: &str) -> ServerFeatures {
        let has = |wanted| feature_names(text).any(|name| name == wanted);
        ServerFeatures {
            linear: has("linear"),
            max_age: has("max_age"),
            min_zxid: has("min_zxid"),
            page: has("page"),
            scan: has("scan"),
            delete_tree: has("deltree"),
            feed: has("feed"),
        }
    }

    fn has(self, request: PrivateRequest) -> bool {
        match request {
            PrivateRequest::Page => self.page,
            PrivateRequest::Scan => self.scan,
            PrivateRequest::DeleteTree => self.delete_tree,
            PrivateRequest::Feed => self.feed,
        }
    }

    fn allow(self, freshness: Freshness) -> bool {
        (self.linear || !freshness.linearizable)
            && (self.max_age || freshness.max_age_ms.is_none())
            && (self.min_zxid || freshness.min_zxid.is_none())
    }
}

/// The features of the server of one connection.
#[derive(Clone, Copy, Debug)]
struct Discovery {
    connection: u64,
    features: ServerFeatures,
    at: Instant,
}

/// The features that were discovered last.
#[derive(Debug, Default)]
pub(crate) struct DiscoveredFeatures(Mutex<Option<Discovery>>);

/// Whether a read may be sent on the current connection.
pub(crate) enum ReadSupport {
    /// It may, on the connection with this number.
    Supported {
        connection: u64,
    },
    Unsupported,
    /// Discovery comes first.
    Unknown,
}

impl DiscoveredFeatures {
    fn set(&self, discovery: Discovery) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(discovery);
    }

    /// Forgets the features: the server has refused a read that it had announced.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn support(
        &self,
        connection: u64,
        now: Instant,
        freshness: Freshness,
        private: Option<PrivateRequest>,
    ) -> ReadSupport {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(known) if known.connection == connection => {
                let features = known.features;
                if features.allow(freshness) && private.is_none_or(|request| features.has(request)) {
                    ReadSupport::Supported { connection }
                } else if now < known.at + MISSING_FOR {
                    ReadSupport::Unsupported
                } else {
                    ReadSupport::Unknown
                }
            }
            Some(_) | None => ReadSupport::Unknown,
        }
    }
}

impl ApiCall {
    /// Asks for an answer that is at least this fresh.
    pub(crate) fn fresh(mut self, freshness: Freshness) -> ApiCall {
        if freshness.is_any() {
            return self;
        }
        let mut body = Vec::with_capacity(self.body.len() + 24);
        freshness.encode(&mut body);
        self.op.wire().encode(&mut body);
        body.extend_from_slice(&self.body);
        self.op = OpCode::With;
        self.body = body.into();
        self.freshness = freshness;
        self
    }
}

impl Client {
    pub(crate) fn read_support(&self, call: &ApiCall) -> ReadSupport {
        let connection = self.shared.connection.load(Ordering::Acquire);
        self.shared.features.support(connection, awake_now(), call.freshness, call.private)
    }

    /// Reads the features of the server, for requests on the connection that answers.
    pub(crate) async fn discover_features(&self) -> Result<(), Error> {
        let call = ApiCall::new("discover", FEATURES_NODE, OpCode::GetData)
            .body(|out| put_path_and_watch(FEATURES_NODE, false, out));
        let attempt = self.start_awaited(&call);
        let reply = Box::pin(self.wait_for_outcome(&call, attempt)).await?;
        let features = match reply.code {
            0 => call.decode(&reply, |reader| {
                let data = reader.buffer()?.unwrap_or_default();
                Ok(ServerFeatures::parse(&String::from_utf8_lossy(data)))
            })?,
            code if code == ErrorCode::NoNode.wire() => ServerFeatures::default(),
            code => return Err(Error::from_code(code, call.operation, &call.path, &reply.server)),
        };
        self.shared.features.set(Discovery { connection: reply.connection, features, at: awake_now() });
        Ok(())
    }

    /// Whether the connected server, and its leader, delete a subtree on one request. A recursive
    /// [`delete`](Client::delete) uses that by itself.
    pub async fn deletes_subtrees(&self) -> Result<bool, Error> {
        let call =
            ApiCall::new("discover", FEATURES_NODE, OpCode::DeleteTree).private(PrivateRequest::DeleteTree);
        if matches!(self.read_support(&call), ReadSupport::Unknown) {
            self.discover_features().await?;
        }
        Ok(matches!(self.read_support(&call), ReadSupport::Supported { .. }))
    }

    /// The error of a read that the connected server cannot answer so fresh.
    pub(crate) fn unsupported(&self, call: &ApiCall) -> Error {
        call.error(ErrorKind::UnsupportedFreshness)
    }
}

/// Adds the freshness options to a read.
macro_rules! fresh_read {
    ($read:ident) => {
        impl $read {
            /// The answer shows everything that any client had been answered before this read was sent. The
            /// server asks its leader, which asks a quorum.
            ///
            /// Fails with [`ErrorKind::UnsupportedFreshness`](crate::ErrorKind::UnsupportedFreshness) if the
            /// server or its leader is not Zebu. The first such read of a connection waits until the client
            /// knows the server's features, so later calls may overtake it.
            ///
            /// ```
            /// # zebu_testing::with_server(async |server| {
            /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
            /// # let other = zebu_client::Client::connect(&server.connect_string()).await?;
            /// use std::time::Duration;
            ///
            /// client.create("/config").data("v1").await?;
            /// let written = client.set("/config", "v2").await?;
            ///
            /// // Another client, perhaps at a follower that lags behind:
            /// let node = other.get("/config").linearizable().await?;
            /// assert_eq!(&node.data[..], b"v2");
            /// // At least this write, which is cheaper when its zxid is known.
            /// other.get("/config").at_least(written.mzxid).await?;
            /// // Not older than a second; one check of the leader serves many such reads.
            /// other.exists("/config").fresher_than(Duration::from_secs(1)).await?;
            /// # Ok(()) });
            /// ```
            pub fn linearizable(mut self) -> $read {
                self.freshness.linearizable = true;
                self
            }

            /// The answer shows everything that any client had been answered this long before.
            pub fn fresher_than(mut self, age: std::time::Duration) -> $read {
                self.freshness.max_age_ms = Some(i32::try_from(age.as_millis()).unwrap_or(i32::MAX));
                self
            }

            /// The answer shows at least this transaction. The server waits for it up to a quarter of the
            /// session timeout, and fails with
            /// [`ErrorCode::OperationTimeout`](crate::ErrorCode::OperationTimeout) afterwards.
            pub fn at_least(mut self, zxid: i64) -> $read {
                self.freshness.min_zxid = Some(zebu_proto::Zxid(zxid));
                self
            }
        }
    };
}

pub(crate) use fresh_read;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_what_it_can_do() {
        let all = ServerFeatures::parse("version=1.0\nfeatures=min_zxid,linear,max_age\n");
        assert!(all.allow(Freshness::LINEARIZABLE));
        let few = ServerFeatures::parse("features=min_zxid,linear2\n");
        assert_eq!(few, ServerFeatures { min_zxid: true, ..ServerFeatures::default() });
        assert!(!few.allow(Freshness::LINEARIZABLE) && few.allow(Freshness::default()));
        assert_eq!(ServerFeatures::parse("anything"), ServerFeatures::default());
        let lists = ServerFeatures::parse("features=page,scan");
        assert!(lists.has(PrivateRequest::Page) && lists.has(PrivateRequest::Scan));
        assert!(!lists.has(PrivateRequest::DeleteTree));
    }

    #[test]
    fn features_belong_to_a_connection() {
        let features = DiscoveredFeatures::default();
        let now = awake_now();
        let support = |connection, now| features.support(connection, now, Freshness::LINEARIZABLE, None);
        let linear = ServerFeatures { linear: true, ..ServerFeatures::default() };
        assert!(matches!(support(3, now), ReadSupport::Unknown));
        features.set(Discovery { connection: 3, features: linear, at: now });
        assert!(matches!(support(3, now), ReadSupport::Supported { connection: 3 }));
        assert!(matches!(support(3, now + MISSING_FOR), ReadSupport::Supported { .. }));
        assert!(matches!(support(4, now), ReadSupport::Unknown), "another connection");
        assert!(matches!(support(0, now), ReadSupport::Unknown), "no connection");
        features.forget();
        assert!(matches!(support(3, now), ReadSupport::Unknown));
    }

    #[test]
    fn a_missing_feature_is_looked_for_again() {
        let features = DiscoveredFeatures::default();
        let now = awake_now();
        let support = |now| features.support(4, now, Freshness::LINEARIZABLE, None);
        features.set(Discovery { connection: 4, features: ServerFeatures::default(), at: now });
        assert!(matches!(support(now), ReadSupport::Unsupported));
        assert!(matches!(support(now + MISSING_FOR), ReadSupport::Unknown));
    }
}
