//! Feeds: the committed transactions below some paths, in order and each exactly once. A feed goes on over
//! lost connections, on any server, behind the last transaction that it has seen.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use tokio::sync::mpsc;
use zebu_proto::client::{
    ChangeKind, ClientHello, CreatedOwner, FEATURE_FEED, FROM_NOW, FeedBatch, FeedChange, FeedOpen,
    FeedOpened, FeedOptions, FeedPush, FeedRecord,
};
use zebu_proto::{ErrorCode, Jute, OpCode, SessionId};

use super::call::ApiCall;
use super::client::Client;
use super::compression::Compression;
use super::error::Error;
use super::freshness::PrivateRequest;
use crate::core::{FeedId, FeedSignal};
use crate::net::DriverCommand;
use crate::path;

const OPERATION: &str = "feed";

/// Bytes that the server may push before the application has taken some.
const CREDIT_BYTES: i32 = 1 << 20;

/// Credit is granted again when this many bytes were taken.
const GRANT_BYTES: usize = 256 << 10;

/// Items that wait for the application, besides the pushes within the credit.
const ITEMS_MAX: usize = 64;

/// The pause between two attempts to open the feed.
const REOPEN_PAUSE: Duration = Duration::from_millis(100);

/// Attempts to open the feed on one connection that another request could disturb.
const UNKNOWN_HELLO_MAX: u32 = 10;

/// One transaction of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedTransaction {
    /// Its zxid.
    pub zxid: i64,
    /// The clock of the leader, in milliseconds since 1970.
    pub time_ms: i64,
    /// The session that wrote; zero for the ensemble's own transactions.
    pub session: SessionId,
    /// What it changed, in order. A transaction of several operations has several changes.
    pub changes: Vec<NodeChange>,
}

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    /// What happened.
    pub kind: ChangeKind,
    /// The path of the node; empty for a session.
    pub path: String,
    /// The version of data or ACL after the change.
    pub version: i32,
    /// The new data, with [`Feed::with_data`]. Null data is empty.
    pub data: Option<Bytes>,
    /// Whether the data does not decompress. It is as stored then.
    pub bad_compression: bool,
    /// The kind of a created node.
    pub owner: CreatedOwner,
}

/// What a feed yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedItem {
    /// A transaction that changed something.
    Change(FeedTransaction),
    /// Everything up to this zxid was shown. The servers send about one per second.
    Progress(i64),
    /// The feed is open on a connection; see [`Feed::with_openings`].
    Opened {
        /// The feed goes on behind this zxid.
        after: i64,
        /// The last transaction that the server had applied.
        last: i64,
    },
    /// The server no longer has all transactions; the feed ends. Read the nodes again, and open a feed behind
    /// what was read.
    Purged {
        /// The server may have what is behind this zxid.
        oldest: i64,
    },
}

/// A feed of changes; see [`Client::feed`].
#[must_use = "nothing is sent before the first item is asked for"]
pub struct Feed {
    client: Client,
    prefixes: Vec<String>,
    after: i64,
    options: FeedOptions,
    compression: Compression,
    has_openings: bool,
    items: Option<mpsc::Receiver<Result<FeedItem, Error>>>,
    position: Option<i64>,
}

impl Client {
    /// The transactions that change nodes at or below a path, from now on, in order, each exactly once.
    ///
    /// Servers without feeds fail it with
    /// [`ErrorKind::UnsupportedFreshness`](crate::ErrorKind::UnsupportedFreshness). The server must list the
    /// client in `feed.readers`. A feed keeps the session open until it is dropped.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// use zebu_client::FeedItem;
    ///
    /// # client.create("/app").await?;
    /// let seen = client.get("/app").await?.stat.mzxid;
    /// # client.create("/app/a").data("1").await?;
    /// let mut feed = client.feed("/app").after(seen).with_data();
    /// while let Some(item) = feed.next().await {
    ///     match item? {
    ///         FeedItem::Change(txn) => println!("{:x}: {:?}", txn.zxid, txn.changes),
    ///         FeedItem::Progress(zxid) => println!("complete up to {zxid:x}"),
    ///         FeedItem::Purged { oldest } => println!("read again; the log begins at {oldest:x}"),
    ///         FeedItem::Opened { .. } => {}
    ///     }
    /// #   if feed.position() > Some(seen) { break }
    /// }
    /// # Ok(()) });
    /// ```
    pub fn feed(&self, path: &str) -> Feed {
        Feed {
            client: self.clone(),
            prefixes: vec![path.to_owned()],
            after: FROM_NOW,
            options: FeedOptions::default(),
            compression: self.compression,
            has_openings: false,
            items: None,
            position: None,
        }
    }
}

impl Feed {
    /// Also nodes at or below this path. A feed has up to 16 paths.
    pub fn and(mut self, path: &str) -> Feed {
        self.prefixes.push(path.to_owned());
        self
    }

    /// Begins behind this transaction instead of now.
    pub fn after(mut self, zxid: i64) -> Feed {
        self.after = zxid;
        self
    }

    /// With the data of created and changed nodes.
    pub fn with_data(mut self) -> Feed {
        self.options.data = true;
        self
    }

    /// With the sessions that begin and end.
    pub fn with_sessions(mut self) -> Feed {
        self.options.sessions = true;
        self
    }

    /// With changes of ACLs. The ACL itself is not shown.
    pub fn with_acl_changes(mut self) -> Feed {
        self.options.acl_changes = true;
        self
    }

    /// With [`FeedItem::Opened`] for each connection, before everything else that the feed yields on it. The
    /// feed has caught up on that connection when its position has reached `last`.
    pub fn with_openings(mut self) -> Feed {
        self.has_openings = true;
        self
    }

    /// The compression of the data. Uncompressed data is recognised.
    pub fn compression(mut self, compression: Compression) -> Feed {
        self.compression = compression;
        self
    }

    /// The zxid behind which another feed continues without a gap; `None` before the first item.
    pub fn position(&self) -> Option<i64> {
        self.position
    }

    /// The next item; `None` at the end, after an error or [`FeedItem::Purged`]. Dropping the future loses
    /// nothing.
    pub async fn next(&mut self) -> Option<Result<FeedItem, Error>> {
        poll_fn(|context| self.poll_item(context)).await
    }

    fn poll_item(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<FeedItem, Error>>> {
        let items = self.items.get_or_insert_with(|| {
            let (sender, receiver) = mpsc::channel(ITEMS_MAX);
            let task = FeedReader {
                client: self.client.clone(),
                prefixes: self.prefixes.clone(),
                place: self.after,
                options: self.options,
                compression: self.compression,
                has_openings: self.has_openings,
                items: sender,
            };
            self.client.shared.runtime.spawn(task.run());
            receiver
        });
        let item = std::task::ready!(items.poll_recv(context));
        match &item {
            Some(Ok(FeedItem::Change(txn))) => self.position = Some(txn.zxid),
            Some(Ok(FeedItem::Progress(zxid) | FeedItem::Opened { after: zxid, .. })) => {
                self.position = Some(*zxid);
            }
            Some(Ok(FeedItem::Purged { .. }) | Err(_)) | None => {}
        }
        Poll::Ready(item)
    }
}

impl Stream for Feed {
    type Item = Result<FeedItem, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_item(context)
    }
}

/// The task of a feed: opens it on each connection and passes its items on.
struct FeedReader {
    client: Client,
    prefixes: Vec<String>,
    /// Everything up to here was passed on.
    place: i64,
    options: FeedOptions,
    compression: Compression,
    has_openings: bool,
    items: mpsc::Sender<Result<FeedItem, Error>>,
}

/// A feed on one connection.
struct OpenFeed {
    id: FeedId,
    /// The last transaction that the server had applied.
    last: i64,
    signals: mpsc::UnboundedReceiver<FeedSignal>,
    /// Bytes that were taken since the last grant.
    taken: usize,
}

/// How a feed on one connection ended.
enum FeedEnding {
    /// It can be opened again.
    Lost,
    /// The application wants no more, or there is no more.
    Over,
}

impl FeedReader {
    async fn run(mut self) {
        let mut unknown_hellos = 0;
        let items = self.items.clone();
        loop {
            let opened = tokio::select! {
                opened = self.open() => opened,
                () = items.closed() => return,
            };
            match opened {
                Ok(mut open) => {
                    unknown_hellos = 0;
                    let ending = self.follow(&mut open).await;
                    self.grant(open.id, 0);
                    if matches!(ending, FeedEnding::Over) {
                        return;
                    }
                }
                Err(error) => {
                    // The connection has changed between hello and the request.
                    let is_unknown = error.code() == Some(ErrorCode::BadArguments);
                    unknown_hellos += u32::from(is_unknown);
                    let is_lost = (error.is_not_sent() || error.is_ambiguous()) && !error.is_final();
                    let is_temporary = is_lost || (is_unknown && unknown_hellos < UNKNOWN_HELLO_MAX);
                    if !is_temporary {
                        // The application may have dropped the feed.
                        let _ = self.items.send(Err(error)).await;
                        return;
                    }
                }
            }
            tokio::time::sleep(REOPEN_PAUSE).await;
        }
    }

    /// Says hello and opens the feed behind its place.
    async fn open(&mut self) -> Result<OpenFeed, Error> {
        let first = self.prefixes[0].clone();
        let mut prefixes = Vec::with_capacity(self.prefixes.len());
        for prefix in &self.prefixes {
            prefixes.push(self.client.resolve(OPERATION, prefix)?.into());
        }
        let hello = ApiCall::new(OPERATION, &first, OpCode::Hello)
            .body(|out| ClientHello { features: FEATURE_FEED }.encode(out))
            .private(PrivateRequest::Feed);
        let request = FeedOpen { after: self.place, prefixes, options: self.options, credit: CREDIT_BYTES };
        let mut call = ApiCall::new(OPERATION, &first, OpCode::Feed)
            .body(|out| request.encode(out))
            .private(PrivateRequest::Feed);
        let (sender, signals) = mpsc::unbounded_channel();
        let id = FeedId(self.client.shared.watcher_id().0);
        call.feed = Some((id, sender));
        self.client.call_once(&hello).await?;
        let mut opening = OpeningFeed { client: &self.client, id: Some(id) };
        let reply = self.client.call_once(&call).await?;
        let opened = call.decode(&reply, FeedOpened::decode)?;
        opening.id = None;
        if self.place == FROM_NOW {
            self.place = opened.last;
        }
        Ok(OpenFeed { id, last: opened.last, signals, taken: 0 })
    }

    /// Passes the items of an open feed on.
    async fn follow(&mut self, open: &mut OpenFeed) -> FeedEnding {
        let opened = FeedItem::Opened { after: self.place, last: open.last };
        if self.has_openings && self.items.send(Ok(opened)).await.is_err() {
            return FeedEnding::Over;
        }
        loop {
            let signal = tokio::select! {
                signal = open.signals.recv() => signal,
                () = self.items.closed() => return FeedEnding::Over,
            };
            let (push, bytes) = match signal {
                Some(FeedSignal::Push { push, bytes }) => (push, bytes),
                Some(FeedSignal::Lost) | None => return FeedEnding::Lost,
            };
            let passed = match push {
                FeedPush::Batch(batch) if batch.from == self.place => self.pass(batch).await,
                // The server has lost or repeated something: the feed is opened again at its place.
                FeedPush::Batch(_) => return FeedEnding::Lost,
                FeedPush::End(end) => {
                    let item = FeedItem::Purged { oldest: end.oldest };
                    let _ = self.items.send(Ok(item)).await;
                    return FeedEnding::Over;
                }
            };
            if !passed {
                return FeedEnding::Over;
            }
            open.taken += bytes;
            if open.taken >= GRANT_BYTES {
                self.grant(open.id, i32::try_from(open.taken).unwrap_or(CREDIT_BYTES));
                open.taken = 0;
            }
        }
    }

    /// Passes a batch on. Returns whether the application wants more.
    async fn pass(&mut self, batch: FeedBatch) -> bool {
        let last = batch.records.last().map_or(batch.from, |record| record.zxid);
        let is_mark = batch.records.is_empty() || batch.to > last;
        for record in batch.records {
            let item = FeedItem::Change(self.transaction(record));
            if self.items.send(Ok(item)).await.is_err() {
                return false;
            }
        }
        self.place = batch.to;
        !is_mark || self.items.send(Ok(FeedItem::Progress(batch.to))).await.is_ok()
    }

    fn transaction(&self, record: FeedRecord) -> FeedTransaction {
        let FeedRecord { zxid, time_ms, session, changes } = record;
        let changes = changes.into_iter().map(|change| self.change(change)).collect();
        FeedTransaction { zxid, time_ms, session: SessionId(session), changes }
    }

    /// Data that does not decompress must not end the feed: it would end again at the same transaction.
    fn change(&self, change: FeedChange) -> NodeChange {
        let FeedChange { kind, path, version, data, owner } = change;
        let has_data = matches!(kind, ChangeKind::Created | ChangeKind::DataChanged) && self.options.data;
        let data = has_data.then(|| data.map(Bytes::from_owner).unwrap_or_default());
        let (data, bad_compression) = self.compression.unpack_given(data);
        let path = match &*path {
            "" => String::new(),
            path => path::without_root(&self.client.root, path).to_owned(),
        };
        NodeChange { kind, path, version, data, bad_compression, owner }
    }

    fn grant(&self, feed: FeedId, credit: i32) {
        // A driver that has ended has no feeds.
        let _ = self.client.shared.commands.send(DriverCommand::GrantFeed { feed, credit });
    }
}

/// Closes a feed whose opening was given up: its reply may be on its way.
struct OpeningFeed<'a> {
    client: &'a Client,
    /// `None` once it is open.
    id: Option<FeedId>,
}

impl Drop for OpeningFeed<'_> {
    fn drop(&mut self) {
        if let Some(feed) = self.id {
            // A driver that has ended has no feeds.
            let _ = self.client.shared.commands.send(DriverCommand::GrantFeed { feed, credit: 0 });
        }
    }
}
