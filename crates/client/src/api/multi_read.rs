//! multiRead: several reads in one request, each with its own result.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use tracing::Instrument;
use zebu_proto::client::multi::{MULTI_END, MultiHeader};
use zebu_proto::client::{MultiReply, decode_multi_replies};
use zebu_proto::{Jute, OpCode};

use super::call::{Call, WhenFull, put_path_and_watch};
use super::client::Client;
use super::error::{Error, ErrorKind};
use super::pending::{Pending, sendable};
use super::retry::{Repeat, RetryPolicy};
use super::types::NodeData;
use crate::core::Answer;

const OPERATION: &str = "multi read";

/// Names one read, and by its type what it results in.
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
enum Kind {
    Data,
    Children,
}

/// Reads that are being put together; see [`Client::multi_read`].
#[must_use = "nothing is sent before send or await"]
pub struct MultiRead {
    client: Client,
    reads: Vec<(Kind, String)>,
    retry: Arc<dyn RetryPolicy>,
}

impl Client {
    /// Puts several reads into one request (servers from 3.6). Each succeeds or fails by itself.
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
        MultiRead { client: self.clone(), reads: Vec::new(), retry: self.retry.clone() }
    }
}

impl MultiRead {
    fn push<R>(&mut self, kind: Kind, path: &str) -> ReadRef<R> {
        self.reads.push((kind, path.to_owned()));
        ReadRef { index: self.reads.len() - 1, result: PhantomData }
    }

    /// Reads a node's data.
    pub fn get(&mut self, path: &str) -> ReadRef<NodeData> {
        self.push(Kind::Data, path)
    }

    /// Lists a node's children.
    pub fn children(&mut self, path: &str) -> ReadRef<Vec<String>> {
        self.push(Kind::Children, path)
    }

    fn call(&self) -> Result<Call, Error> {
        let mut body = Vec::new();
        for (kind, path) in &self.reads {
            let op = match kind {
                Kind::Data => OpCode::GetData,
                Kind::Children => OpCode::GetChildren,
            };
            let full = self.client.resolve(OPERATION, path)?;
            MultiHeader { op: op.wire(), done: false, err: -1 }.encode(&mut body);
            put_path_and_watch(&full, false, &mut body);
        }
        MULTI_END.encode(&mut body);
        Ok(Call::new(OPERATION, "", OpCode::MultiRead).body(|out| *out = body))
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
            let answer = self.client.run(&call, first, self.retry.clone(), Repeat::Always).await?;
            self.read(&call, &answer)
        };
        Box::pin(run.instrument(span))
    }

    fn read(&self, call: &Call, answer: &Answer) -> Result<MultiReadResults, Error> {
        let replies = call.decode(answer, decode_multi_replies)?;
        let bad = |what: &str| call.error(ErrorKind::BadReply(what.into())).at(&answer.server);
        if replies.len() != self.reads.len() {
            return Err(bad("not one result for each read"));
        }
        let mut results = Vec::with_capacity(replies.len());
        for ((kind, path), reply) in self.reads.iter().zip(replies) {
            results.push(match (kind, reply) {
                (_, MultiReply::Error(code)) => Err(Error::from_code(code, OPERATION, path, &answer.server)),
                (Kind::Data, MultiReply::GetData(response)) => {
                    let is_null = response.data.is_none();
                    let data = response.data.map(|data| Bytes::copy_from_slice(&data)).unwrap_or_default();
                    let unpacked = self.client.compression.unpack(data);
                    let data = unpacked.map_err(|kind| Error::new(kind, OPERATION, path));
                    data.map(|data| OneRead::Data(NodeData { data, is_null, stat: response.stat }))
                }
                (Kind::Children, MultiReply::GetChildren(names)) => {
                    Ok(OneRead::Children(names.into_iter().map(String::from).collect()))
                }
                _ => return Err(bad("a result of another operation")),
            });
        }
        Ok(MultiReadResults { results })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum OneRead {
    Data(NodeData),
    Children(Vec<String>),
}

/// The results of several reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiReadResults {
    results: Vec<Result<OneRead, Error>>,
}

impl MultiReadResults {
    /// The data of one node, or why it could not be read.
    ///
    /// # Panics
    ///
    /// If the read belongs to another request.
    pub fn data(&self, read: ReadRef<NodeData>) -> Result<&NodeData, Error> {
        match self.one(read.index)? {
            OneRead::Data(data) => Ok(data),
            OneRead::Children(_) => panic!("the read belongs to another request"),
        }
    }

    /// The names of one node's children, or why they could not be listed.
    ///
    /// # Panics
    ///
    /// If the read belongs to another request.
    pub fn children(&self, read: ReadRef<Vec<String>>) -> Result<&[String], Error> {
        match self.one(read.index)? {
            OneRead::Children(names) => Ok(names),
            OneRead::Data(_) => panic!("the read belongs to another request"),
        }
    }

    fn one(&self, index: usize) -> Result<&OneRead, Error> {
        let result = self.results.get(index).expect("the read belongs to this request");
        result.as_ref().map_err(Clone::clone)
    }
}

sendable!(MultiRead => MultiReadResults);
