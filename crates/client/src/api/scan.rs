//! The nodes of a subtree, one after the other. Zebu servers answer scans; for other servers the client lists
//! and reads node by node, many at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use zebu_proto::client::{Freshness, ScanReply, ScanRequest};
use zebu_proto::{ErrorCode, OpCode, Stat};

use super::call::ApiCall;
use super::client::Client;
use super::compression::Compression;
use super::error::Error;
use super::freshness::{PrivateRequest, fresh_read};
use super::pending::Pending;
use super::retry::{RepeatRule, RetryPolicy};
use super::types::{ChildList, NodeData};
use crate::path;

const OPERATION: &str = "scan";

/// Bytes of a page. Servers may answer with less.
const PAGE_BYTES: i32 = 512 << 10;

/// Nodes that are read ahead from a server without scans.
const READ_AHEAD: usize = 64;

/// A node of a subtree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanEntry {
    /// Its path.
    pub path: String,
    /// Its stat, if it was requested.
    pub stat: Option<Stat>,
    /// Its data, if it was requested. Null data is empty.
    pub data: Option<Bytes>,
    /// Whether the data does not decompress. It is as stored then.
    pub bad_compression: bool,
}

/// A walk through a subtree; see [`Client::scan`].
pub struct Scan {
    client: Client,
    path: String,
    depth: Option<u32>,
    stats: bool,
    data: bool,
    compression: Compression,
    freshness: Freshness,
    retry: Arc<dyn RetryPolicy>,
    found: VecDeque<ScanEntry>,
    position: ScanPosition,
}

enum ScanPosition {
    /// The next page of the server begins behind this place.
    After(String),
    /// The client walks: nodes to visit, the next one last.
    Walk(Vec<Visit>),
    End,
}

/// A node that the client visits.
struct Visit {
    path: String,
    depth: u32,
    /// The reads on their way.
    reads: Option<VisitReads>,
}

struct VisitReads {
    node: Option<Pending<NodeData>>,
    children: Option<Pending<ChildList>>,
}

impl Client {
    /// Walks through a subtree: a node comes before the nodes below it, siblings in the byte order of their
    /// names. Nodes that the client may not read are left out with their subtrees. A node that exists
    /// throughout is found exactly once.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.ensure_path("/apps/shop/cart").await?;
    /// let mut nodes = client.scan("/apps").with_data();
    /// let mut paths = Vec::new();
    /// while let Some(node) = nodes.next().await {
    ///     paths.push(node?.path);
    /// }
    /// assert_eq!(paths, ["/apps", "/apps/shop", "/apps/shop/cart"]);
    /// # Ok(()) });
    /// ```
    pub fn scan(&self, path: &str) -> Scan {
        Scan {
            client: self.clone(),
            path: path.to_owned(),
            depth: None,
            stats: false,
            data: false,
            compression: self.compression,
            freshness: *self.reads,
            retry: self.retry.clone(),
            found: VecDeque::new(),
            position: ScanPosition::After(String::new()),
        }
    }
}

impl Scan {
    /// With the stat of each node.
    #[must_use]
    pub fn with_stats(mut self) -> Scan {
        self.stats = true;
        self
    }

    /// With the data of each node.
    #[must_use]
    pub fn with_data(mut self) -> Scan {
        self.data = true;
        self
    }

    /// The compression of the data. Uncompressed data is recognised.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Scan {
        self.compression = compression;
        self
    }

    /// Sets the retry policy of the pages.
    #[must_use]
    pub fn retry(mut self, policy: impl RetryPolicy) -> Scan {
        self.retry = Arc::new(policy);
        self
    }

    /// Only so many levels below the first node.
    #[must_use]
    pub fn depth(mut self, levels: u32) -> Scan {
        self.depth = Some(levels);
        self
    }

    /// The next node; `None` after the last one. After an error, the call tries the same again.
    pub async fn next(&mut self) -> Option<Result<ScanEntry, Error>> {
        loop {
            if let Some(node) = self.found.pop_front() {
                return Some(Ok(node));
            }
            let result = match &self.position {
                ScanPosition::End => return None,
                ScanPosition::After(place) => {
                    let place = place.clone();
                    self.next_page(&place).await
                }
                ScanPosition::Walk(_) => self.visit_next().await,
            };
            match result {
                Ok(()) => {}
                Err(error) if error.is_unsupported_freshness() && self.freshness.is_any() => {
                    let root = Visit { path: self.path.clone(), depth: 0, reads: None };
                    self.position = match &self.position {
                        ScanPosition::After(place) if place.is_empty() => ScanPosition::Walk(vec![root]),
                        // The server has changed within the walk; the caller must begin again.
                        ScanPosition::After(_) | ScanPosition::Walk(_) | ScanPosition::End => {
                            return Some(Err(error));
                        }
                    };
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    async fn next_page(&mut self, place: &str) -> Result<(), Error> {
        let full = self.client.resolve(OPERATION, &self.path)?;
        let request = ScanRequest {
            after: place.into(),
            depth: self.depth.map_or(-1, |levels| i32::try_from(levels).unwrap_or(i32::MAX)),
            stats: self.stats,
            data: self.data,
            ..ScanRequest::new(&full, PAGE_BYTES)
        };
        let call = ApiCall::new(OPERATION, &self.path, OpCode::Scan)
            .body(|out| request.encode(out))
            .private(PrivateRequest::Scan)
            .fresh(self.freshness);
        let first = self.client.start_awaited(&call);
        let reply = self.client.run(&call, first, self.retry.clone(), RepeatRule::Always).await?;
        let page = call.decode(&reply, |reader| ScanReply::decode(reader, self.stats, self.data))?;
        for node in page.nodes {
            let data = node.data.map(|data| data.map(Bytes::from_owner).unwrap_or_default());
            let (data, bad_compression) = self.compression.unpack_given(data);
            let path = path::without_root(&self.client.root, &node.path).to_owned();
            self.found.push_back(ScanEntry { path, stat: node.stat, data, bad_compression });
        }
        self.position = page.next.map_or(ScanPosition::End, |next| ScanPosition::After(next.into()));
        Ok(())
    }

    /// Visits the next node without scans of the server, and reads others ahead.
    async fn visit_next(&mut self) -> Result<(), Error> {
        let wants_node = self.stats || self.data;
        let ScanPosition::Walk(visits) = &mut self.position else { return Ok(()) };
        for visit in visits.iter_mut().rev().take(READ_AHEAD) {
            if visit.reads.is_none() {
                let lists = self.depth.is_none_or(|depth| visit.depth < depth);
                visit.reads = Some(VisitReads {
                    node: wants_node
                        .then(|| self.client.get(&visit.path).compression(Compression::None).send()),
                    children: lists.then(|| self.client.children(&visit.path).send()),
                });
            }
        }
        let Some(Visit { path, depth, reads: Some(reads) }) = visits.pop() else {
            self.position = ScanPosition::End;
            return Ok(());
        };
        let node = match reads.node {
            Some(read) => read.await.map(Some),
            None => Ok(None),
        };
        let children = match reads.children {
            Some(read) => read.await.map(|list| list.names),
            None => Ok(Vec::new()),
        };
        let (node, mut names) = match (node, children) {
            (Ok(node), Ok(names)) => (node, names),
            (Err(error), _) | (_, Err(error)) => {
                let is_left_out = matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::NoAuth));
                return if is_left_out && depth > 0 {
                    Ok(())
                } else {
                    visits.push(Visit { path, depth, reads: None });
                    Err(error)
                };
            }
        };
        names.sort_unstable_by(|one, other| other.cmp(one));
        visits.extend(names.iter().map(|name| Visit {
            path: path::join(&path, name),
            depth: depth + 1,
            reads: None,
        }));
        let stat = node.as_ref().filter(|_| self.stats).map(|node| node.stat);
        let data = node.filter(|_| self.data).map(|node| node.data);
        let (data, bad_compression) = self.compression.unpack_given(data);
        self.found.push_back(ScanEntry { path, stat, data, bad_compression });
        Ok(())
    }
}

fresh_read!(Scan);
