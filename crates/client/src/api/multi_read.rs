//! multiRead: several reads in one request, each with its own result.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use tracing::Instrument;
use zebu_proto::client::Freshness;
use zebu_proto::client::multi::{MULTI_END, MultiHeader};
use zebu_proto::client::{MultiReply, decode_multi_replies};
use zebu_proto::{Jute, OpCode};

use super::call::{ApiCall, WhenFull, put_path_and_watch};
use super::client::Client;
use super::error::{Error, ErrorKind};
use super::freshness::fresh_read;
use super::pending::{Pending, sendable};
use super::retry::{RepeatRule, RetryPolicy};
use super::types::NodeData;
use crate::core::ServerReply;

const OPERATION: &str = "multi read";

/// Identifies one read; its type is that of the result.
#[derive(Debug)]
pub struct ReadRef<R> {
    index: usize,
    result: PhantomData<fn() -> R>,
}

impl<R> Clone for ReadRef<R> {
    fn clone(&self) -> ReadRef<R> {
        *self
    }
}

impl<R> Copy for ReadRef<R> {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadKind {
    Data,
    Children,
}

/// A multiRead under construction; see [`Client::multi_read`].
#[must_use = "nothing is sent before send or await"]
pub struct MultiRead {
    client: Client,
    reads: Vec<(ReadKind, String)>,
    freshness: Freshness,
    retry: Arc<dyn RetryPolicy>,
}

impl Client {
    /// Sends several reads in one request (servers from 3.6). Each one succeeds or fails separately.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.create("/config").await?;
    /// # client.create("/members").await?;
    /// let mut reads = client.multi_read();
    /// let config = reads.get("/config");
    /// let members = reads.children("/members");
    /// let results = reads.await?;
    /// println!("{:?}", results.data(config)?.data);
    /// println!("{:?}", results.children(members)?);
    /// # Ok(()) });
    /// ```
    pub fn multi_read(&self) -> MultiRead {
        MultiRead {
            client: self.clone(),
            reads: Vec::new(),
            retry: self.retry.clone(),
            freshness: self.reads,
        }
    }
}

impl MultiRead {
    fn push<R>(&mut self, kind: ReadKind, path: &str) -> ReadRef<R> {
        self.reads.push((kind, path.to_owned()));
        ReadRef { index: self.reads.len() - 1, result: PhantomData }
    }

    /// Reads a node's data.
    pub fn get(&mut self, path: &str) -> ReadRef<NodeData> {
        self.push(ReadKind::Data, path)
    }

    /// Lists a node's children.
    pub fn children(&mut self, path: &str) -> ReadRef<Vec<String>> {
        self.push(ReadKind::Children, path)
    }

    fn call(&self) -> Result<ApiCall, Error> {
        let mut body = Vec::new();
        for (kind, path) in &self.reads {
            let op = match kind {
                ReadKind::Data => OpCode::GetData,
                ReadKind::Children => OpCode::GetChildren,
            };
            let full = self.client.resolve(OPERATION, path)?;
            MultiHeader { op: op.wire(), done: false, err: -1 }.encode(&mut body);
            put_path_and_watch(&full, false, &mut body);
        }
        MULTI_END.encode(&mut body);
        Ok(ApiCall::new(OPERATION, "", OpCode::MultiRead).body(|out| *out = body).fresh(self.freshness))
    }

    fn begin(self, when_full: WhenFull) -> Pending<MultiReadResults> {
        let span = tracing::debug_span!("multi_read", operations = self.reads.len());
        if self.reads.is_empty() {
            return Box::pin(async { Ok(MultiReadResults { results: Vec::new() }) });
        }
        let call = match self.call() {
            Ok(call) => call,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let first = self.client.start(&call, when_full);
        let run = async move {
            let reply = self.client.run(&call, first, self.retry.clone(), RepeatRule::Always).await?;
            self.read(&call, &reply)
        };
        Box::pin(run.instrument(span))
    }

    fn read(&self, call: &ApiCall, reply: &ServerReply) -> Result<MultiReadResults, Error> {
        let replies = call.decode(reply, decode_multi_replies)?;
        let bad = |what: &str| call.error(ErrorKind::BadReply(what.into())).with_server(&reply.server);
        if replies.len() != self.reads.len() {
            return Err(bad("the number of results differs from that of the reads"));
        }
        let mut results = Vec::with_capacity(replies.len());
        for ((kind, path), result) in self.reads.iter().zip(replies) {
            results.push(match (kind, result) {
                (_, MultiReply::Error(code)) => Err(Error::from_code(code, OPERATION, path, &reply.server)),
                (ReadKind::Data, MultiReply::GetData(response)) => {
                    let is_null = response.data.is_none();
                    let data = response.data.map(|data| Bytes::copy_from_slice(&data)).unwrap_or_default();
                    let unpacked = self.client.compression.unpack(data);
                    let data = unpacked.map_err(|kind| Error::new(kind, OPERATION, path));
                    data.map(|data| ReadResult::Data(NodeData { data, is_null, stat: response.stat }))
                }
                (ReadKind::Children, MultiReply::GetChildren(names)) => {
                    Ok(ReadResult::Children(names.into_iter().map(String::from).collect()))
                }
                _ => return Err(bad("a result of a wrong type")),
            });
        }
        Ok(MultiReadResults { results })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ReadResult {
    Data(NodeData),
    Children(Vec<String>),
}

/// The results of several reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiReadResults {
    results: Vec<Result<ReadResult, Error>>,
}

impl MultiReadResults {
    /// The data of one node, or the error.
    ///
    /// # Panics
    ///
    /// If the read belongs to another request.
    pub fn data(&self, read: ReadRef<NodeData>) -> Result<&NodeData, Error> {
        match self.one(read.index)? {
            ReadResult::Data(data) => Ok(data),
            ReadResult::Children(_) => panic!("the read belongs to another request"),
        }
    }

    /// The names of one node's children, or the error.
    ///
    /// # Panics
    ///
    /// If the read belongs to another request.
    pub fn children(&self, read: ReadRef<Vec<String>>) -> Result<&[String], Error> {
        match self.one(read.index)? {
            ReadResult::Children(names) => Ok(names),
            ReadResult::Data(_) => panic!("the read belongs to another request"),
        }
    }

    fn one(&self, index: usize) -> Result<&ReadResult, Error> {
        let result = self.results.get(index).expect("the read belongs to this request");
        result.as_ref().map_err(Clone::clone)
    }
}

fresh_read!(MultiRead);
sendable!(MultiRead => MultiReadResults);
