//! Children of a node in pages. Zebu servers answer pages; from other servers the client gets the whole list
//! and cuts it.

use std::sync::Arc;

use bytes::Bytes;
use zebu_proto::client::{Freshness, PageReply, PageRequest};
use zebu_proto::{ErrorCode, Jute, OpCode, Stat};

use super::call::ApiCall;
use super::children::Children;
use super::client::Client;
use super::compression::Compression;
use super::error::Error;
use super::freshness::PrivateRequest;
use super::pending::Pending;
use super::retry::{RepeatRule, RetryPolicy};
use super::types::{ChildList, NodeData};
use crate::path;

const OPERATION: &str = "pages";

/// Children whose data or stats are requested at a time from a server without pages.
const BATCH: usize = 128;

/// A child on a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildEntry {
    /// Its name.
    pub name: String,
    /// Its stat, if it was requested and the client may read the child.
    pub stat: Option<Stat>,
    /// Its data, if it was requested and the client may read the child. Null data is empty.
    pub data: Option<Bytes>,
    /// Whether the data does not decompress. It is as stored then.
    pub bad_compression: bool,
}

/// A page of children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildPage {
    /// The children, in the byte order of their names.
    pub children: Vec<ChildEntry>,
    /// The stat of the parent. The pages of a list show one state if their `pzxid` is the same.
    pub parent: Stat,
}

/// The pages of a node's children; see [`Children::pages`].
pub struct ChildPages {
    client: Client,
    path: String,
    size: usize,
    freshness: Freshness,
    retry: Arc<dyn RetryPolicy>,
    stats: bool,
    data: bool,
    position: PagesPosition,
}

/// The next page.
enum PagesPosition {
    /// Begins behind this name.
    After(String),
    /// Is cut from a list: the names that are left, in descending order.
    Listed(Vec<String>, Stat),
    End,
}

impl Children {
    /// Lists the children in pages of up to `size` names, in the byte order of the names. A child that exists
    /// throughout is on exactly one page. Lists of any length come through, because each page fits a packet.
    ///
    /// Servers other than Zebu send the whole list, which must fit a packet.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.create("/jobs").await?;
    /// # for name in ["a", "b", "c"] { client.create(&format!("/jobs/{name}")).await?; }
    /// let mut pages = client.children("/jobs").pages(2).with_stats();
    /// let mut names = Vec::new();
    /// while let Some(page) = pages.next().await {
    ///     names.extend(page?.children.into_iter().map(|child| child.name));
    /// }
    /// assert_eq!(names, ["a", "b", "c"]);
    /// # Ok(()) });
    /// ```
    pub fn pages(self, size: usize) -> ChildPages {
        let (client, path, freshness, retry) = self.into_parts();
        ChildPages {
            client,
            path,
            size: size.max(1),
            freshness,
            retry,
            stats: false,
            data: false,
            position: PagesPosition::After(String::new()),
        }
    }
}

impl ChildPages {
    /// With the stat of each child.
    #[must_use]
    pub fn with_stats(mut self) -> ChildPages {
        self.stats = true;
        self
    }

    /// With the data of each child.
    #[must_use]
    pub fn with_data(mut self) -> ChildPages {
        self.data = true;
        self
    }

    /// Begins behind this name.
    #[must_use]
    pub fn after(mut self, name: &str) -> ChildPages {
        self.position = PagesPosition::After(name.to_owned());
        self
    }

    /// The next page; `None` after the last one. The first page may be empty. After an error, the call asks
    /// for the same page again.
    pub async fn next(&mut self) -> Option<Result<ChildPage, Error>> {
        loop {
            let after = match &mut self.position {
                PagesPosition::End => return None,
                PagesPosition::Listed(..) => return Some(self.cut_page().await),
                PagesPosition::After(after) => after.clone(),
            };
            let (page, next) = match self.request(&after).await {
                Ok(page) => page,
                Err(error) if error.is_unsupported_freshness() => match self.list(&after).await {
                    Ok((names, stat)) => {
                        self.position = PagesPosition::Listed(names, stat);
                        continue;
                    }
                    Err(error) => return Some(Err(error)),
                },
                Err(error) => return Some(Err(error)),
            };
            self.position = next.map_or(PagesPosition::End, PagesPosition::After);
            // A server may stop before it has found a child.
            if !page.children.is_empty() || matches!(self.position, PagesPosition::End) {
                return Some(Ok(page));
            }
        }
    }

    async fn request(&self, after: &str) -> Result<(ChildPage, Option<String>), Error> {
        let full = self.client.resolve(OPERATION, &self.path)?;
        let request = PageRequest {
            after: after.into(),
            // The stat tells null data from data that the client may not read.
            stats: self.stats || self.data,
            data: self.data,
            ..PageRequest::new(&full, i32::try_from(self.size).unwrap_or(i32::MAX))
        };
        let call = ApiCall::new(OPERATION, &self.path, OpCode::Page)
            .body(|out| request.encode(out))
            .private(PrivateRequest::Page)
            .fresh(self.freshness);
        let first = self.client.start_awaited(&call);
        let reply = self.client.run(&call, first, self.retry.clone(), RepeatRule::Always).await?;
        let page = call.decode(&reply, PageReply::decode)?;
        let mut stats = page.stats.into_iter();
        let mut data = page.data.into_iter();
        let mut children = Vec::with_capacity(page.children.len());
        for name in page.children {
            let stat = stats.next();
            let is_hidden = stat.is_some_and(|stat| stat.czxid == -1);
            let data = data.next().filter(|_| !is_hidden).map(|data| data.map(Bytes::from_owner));
            let data = data.map(Option::unwrap_or_default);
            let (data, bad_compression) = self.client.compression.unpack_given(data);
            let stat = stat.filter(|_| self.stats && !is_hidden);
            children.push(ChildEntry { name: name.into(), stat, data, bad_compression });
        }
        Ok((ChildPage { children, parent: page.stat }, page.next.map(String::from)))
    }

    /// The names behind `after`, in descending order.
    async fn list(&self, after: &str) -> Result<(Vec<String>, Stat), Error> {
        let mut children = self.client.children(&self.path);
        children.set_freshness(self.freshness);
        let ChildList { mut names, stat } = children.retry_with(self.retry.clone()).await?;
        names.retain(|name| name.as_str() > after);
        names.sort_unstable_by(|one, other| other.cmp(one));
        Ok((names, stat))
    }

    /// Cuts the next page from a list.
    async fn cut_page(&mut self) -> Result<ChildPage, Error> {
        let PagesPosition::Listed(names, stat) = &self.position else {
            unreachable!("the caller has found a list");
        };
        let (parent, first) = (*stat, names.len().saturating_sub(self.size));
        let page: Vec<String> = names[first..].iter().rev().cloned().collect();
        let mut children = Vec::with_capacity(page.len());
        for batch in page.chunks(BATCH) {
            children.extend(self.read_batch(batch).await?);
        }
        if let PagesPosition::Listed(names, _) = &mut self.position {
            names.truncate(first);
            if names.is_empty() {
                self.position = PagesPosition::End;
            }
        }
        Ok(ChildPage { children, parent })
    }

    /// The entries of these children. Children that are gone are left out.
    async fn read_batch(&self, names: &[String]) -> Result<Vec<ChildEntry>, Error> {
        if !self.stats && !self.data {
            let entry = |name: &String| {
                let name = name.clone();
                ChildEntry { name, stat: None, data: None, bad_compression: false }
            };
            return Ok(names.iter().map(entry).collect());
        }
        let read = |name: &String| {
            self.client.get(&path::join(&self.path, name)).compression(Compression::None).send()
        };
        let reads: Vec<Pending<NodeData>> = names.iter().map(read).collect();
        let mut entries = Vec::with_capacity(names.len());
        for (name, read) in names.iter().zip(reads) {
            let (stat, data) = match read.await {
                Ok(node) => (Some(node.stat), Some(node.data)),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => continue,
                Err(error) if error.code() == Some(ErrorCode::NoAuth) => (None, None),
                Err(error) => return Err(error),
            };
            let (data, bad_compression) = self.client.compression.unpack_given(data.filter(|_| self.data));
            let stat = stat.filter(|_| self.stats);
            entries.push(ChildEntry { name: name.clone(), stat, data, bad_compression });
        }
        Ok(entries)
    }
}
