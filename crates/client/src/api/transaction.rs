//! multi: several writes, all or none, with a typed result for each.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tracing::Instrument;
use zebu_proto::client::multi::MULTI_END;
use zebu_proto::client::{
    CheckRequest, CreateMode, CreateOp, CreateRequest, DeleteRequest, MultiOp, MultiReply, SetDataRequest,
    decode_multi_replies,
};
use zebu_proto::{Acl, ErrorCode, Jute, OpCode, Stat};

use super::call::{ApiCall, WhenFull};
use super::client::Client;
use super::compression::Compression;
use super::error::{Error, ErrorKind};
use super::node_content::NodeContent;
use super::pending::{Pending, sendable};
use super::retry::{RepeatRule, RetryPolicy};
use super::types::Version;
use crate::core::ServerReply;
use crate::path;

const OPERATION: &str = "transaction";

/// Identifies one operation of a transaction; its type is that of the result.
#[derive(Debug)]
pub struct OpRef<R> {
    index: usize,
    result: PhantomData<fn() -> R>,
}

impl<R> Clone for OpRef<R> {
    fn clone(&self) -> OpRef<R> {
        *self
    }
}

impl<R> Copy for OpRef<R> {}

impl<R> OpRef<R> {
    /// Its index in the transaction, from zero.
    pub fn index(self) -> usize {
        self.index
    }
}

/// A node to be created by a transaction.
#[derive(Clone, Debug)]
pub struct CreateSpec {
    content: NodeContent,
    mode: CreateMode,
    ttl: Option<Duration>,
    acl: Option<Vec<Acl>>,
}

impl Default for CreateSpec {
    fn default() -> CreateSpec {
        CreateSpec { content: NodeContent::Empty, mode: CreateMode::Persistent, ttl: None, acl: None }
    }
}

impl CreateSpec {
    /// A persistent, empty node with the client's ACL.
    pub fn new() -> CreateSpec {
        CreateSpec::default()
    }

    /// The node's data.
    pub fn data(mut self, data: impl Into<Bytes>) -> CreateSpec {
        self.content = NodeContent::Given(data.into());
        self
    }

    /// Null data, as Java clients know it. Without this and [`CreateSpec::data`] the data is empty.
    pub fn null_data(mut self) -> CreateSpec {
        self.content = NodeContent::Null;
        self
    }

    /// The node's mode.
    pub fn mode(mut self, mode: CreateMode) -> CreateSpec {
        self.mode = mode;
        self
    }

    /// The TTL of a mode with a TTL.
    pub fn ttl(mut self, ttl: Duration) -> CreateSpec {
        self.ttl = Some(ttl);
        self
    }

    /// The node's ACL.
    pub fn acl(mut self, acl: impl Into<Vec<Acl>>) -> CreateSpec {
        self.acl = Some(acl.into());
        self
    }
}

/// The path and, from servers since 3.7.2 and 3.8.2, the stat of a node that a transaction has created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedInTransaction {
    /// Its path.
    pub path: String,
    /// Its stat, if the server returns it.
    pub stat: Option<Stat>,
}

/// A transaction under construction; see [`Client::transaction`].
#[must_use = "nothing is sent before send or await"]
pub struct Transaction {
    client: Client,
    ops: Vec<MultiOp>,
    paths: Vec<String>,
    problem: Option<Error>,
    compression: Compression,
    retry: Arc<dyn RetryPolicy>,
}

impl Client {
    /// Starts a transaction of several writes: all are carried out or none.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.create("/lock").await?;
    /// # for value in ["1", "2", "3"] {
    /// #     client.set("/lock", value).await?;
    /// # }
    /// # client.create("/counter").await?;
    /// # client.ensure_path("/jobs/6").await?;
    /// use zebu_client::{CreateSpec, Version};
    ///
    /// let mut transaction = client.transaction();
    /// transaction.check("/lock", Version::Exactly(3));
    /// let created = transaction.create("/jobs/7", CreateSpec::new().data("payload"));
    /// let set = transaction.set("/counter", "7", Version::Any);
    /// transaction.delete("/jobs/6", Version::Any);
    /// let results = transaction.await?;
    /// println!("{} and {}", results.get(created).path, results.get(set).version);
    /// # Ok(()) });
    /// ```
    pub fn transaction(&self) -> Transaction {
        let (compression, retry) = (self.compression, self.retry.clone());
        Transaction {
            client: self.clone(),
            ops: Vec::new(),
            paths: Vec::new(),
            problem: None,
            compression,
            retry,
        }
    }
}

impl Transaction {
    /// Sets the compression of later operations.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let servers = server.connect_string();
    /// use zebu_client::{Client, Compression, CreateSpec};
    ///
    /// let client = Client::builder(&servers)?.compression(Compression::Gzip).connect().await?;
    /// let mut transaction = client.transaction().compression(Compression::None);
    /// transaction.create("/shared", CreateSpec::new().data("plain"));
    /// transaction.await?;
    /// assert_eq!(client.get("/shared").compression(Compression::None).await?.data, "plain");
    /// # Ok(()) });
    /// ```
    pub fn compression(mut self, compression: Compression) -> Transaction {
        self.compression = compression;
        self
    }

    fn push<R>(&mut self, path: &str, op: impl FnOnce(Box<str>) -> MultiOp) -> OpRef<R> {
        let full = self.client.resolve(OPERATION, path).unwrap_or_else(|error| {
            self.problem.get_or_insert(error);
            String::new()
        });
        self.ops.push(op(full.into()));
        self.paths.push(path.to_owned());
        OpRef { index: self.ops.len() - 1, result: PhantomData }
    }

    /// The transaction fails unless the node has this version.
    pub fn check(&mut self, path: &str, version: Version) -> OpRef<()> {
        let version = version.wire();
        self.push(path, |path| MultiOp::Check(CheckRequest { path: Some(path), version }))
    }

    /// Creates a node.
    pub fn create(&mut self, path: &str, spec: CreateSpec) -> OpRef<CreatedInTransaction> {
        let plain = self.client.shared.plain_create.load(Ordering::Relaxed);
        let op = match spec.mode {
            CreateMode::Container => CreateOp::Container,
            mode if mode.has_ttl() => CreateOp::Ttl,
            _ if plain => CreateOp::Create,
            _ => CreateOp::Create2,
        };
        let ttl_ms = spec.ttl.map_or(-1, |ttl| i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
        if spec.mode.has_ttl() && ttl_ms <= 0 {
            let error = self.client.invalid(OPERATION, path, "a mode with a TTL needs one of at least 1 ms");
            self.problem.get_or_insert(error);
        }
        let data = spec.content.packed(self.compression).wire();
        let acl = Some(spec.acl.unwrap_or_else(|| self.client.acl.to_vec()).into());
        let flags = spec.mode.flags();
        self.push(path, |path| {
            MultiOp::Create(CreateRequest { op, path: Some(path), data, acl, flags, ttl_ms })
        })
    }

    /// Replaces a node's data.
    pub fn set(&mut self, path: &str, data: impl Into<Bytes>, version: Version) -> OpRef<Stat> {
        let data = Some(Arc::from(&*self.compression.pack(data.into())));
        let version = version.wire();
        self.push(path, |path| MultiOp::SetData(SetDataRequest { path: Some(path), data, version }))
    }

    /// Makes a node's data null, as Java clients know it.
    pub fn set_null(&mut self, path: &str, version: Version) -> OpRef<Stat> {
        let version = version.wire();
        self.push(path, |path| MultiOp::SetData(SetDataRequest { path: Some(path), data: None, version }))
    }

    /// Deletes a node.
    pub fn delete(&mut self, path: &str, version: Version) -> OpRef<()> {
        let version = version.wire();
        self.push(path, |path| MultiOp::Delete(DeleteRequest { path: Some(path), version }))
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    fn begin(self, when_full: WhenFull) -> Pending<TransactionResults> {
        let span = tracing::debug_span!("transaction", operations = self.ops.len());
        if let Some(problem) = self.problem {
            return Box::pin(async { Err(problem) });
        }
        if self.ops.is_empty() {
            return Box::pin(async { Ok(TransactionResults { results: Vec::new() }) });
        }
        let call = ApiCall::new(OPERATION, "", OpCode::Multi).body(|out| {
            self.ops.iter().for_each(|op| op.encode(out));
            MULTI_END.encode(out);
        });
        let first = self.client.start(&call, when_full);
        let run = async move {
            let reply = self.client.run(&call, first, self.retry.clone(), RepeatRule::IfNotSent).await?;
            self.read(&call, &reply)
        };
        Box::pin(run.instrument(span))
    }

    fn read(&self, call: &ApiCall, reply: &ServerReply) -> Result<TransactionResults, Error> {
        let replies = call.decode(reply, decode_multi_replies)?;
        let failed = |reply: &MultiReply| match reply {
            MultiReply::Error(0) => None,
            MultiReply::Error(code) => Some(*code),
            _ => None,
        };
        if let Some((index, code)) =
            replies.iter().enumerate().find_map(|(index, reply)| failed(reply).map(|code| (index, code)))
        {
            let path = self.paths.get(index).map_or("", String::as_str);
            let kind = match ErrorCode::from_wire(code) {
                Some(code) => ErrorKind::Transaction { index, code },
                None => ErrorKind::UnknownCode(code),
            };
            return Err(Error::new(kind, OPERATION, path).with_server(&reply.server));
        }
        let bad = |what: &str| call.error(ErrorKind::BadReply(what.into())).with_server(&reply.server);
        if replies.len() != self.ops.len() {
            return Err(bad("the number of results differs from that of the operations"));
        }
        let pairs = self.ops.iter().zip(replies);
        let results = pairs.map(|(op, reply)| self.result(op, reply)).collect::<Option<Vec<_>>>();
        Ok(TransactionResults { results: results.ok_or_else(|| bad("a result of a wrong type"))? })
    }

    fn result(&self, op: &MultiOp, reply: MultiReply) -> Option<OpResult> {
        let local = |path: &str| path::without_root(&self.client.root, path).to_owned();
        match (op, reply) {
            (MultiOp::Create(_), MultiReply::Create(path)) => {
                Some(OpResult::Created(CreatedInTransaction { path: local(&path), stat: None }))
            }
            (MultiOp::Create(_), MultiReply::Create2(response)) => {
                let path = local(&response.path.unwrap_or_default());
                Some(OpResult::Created(CreatedInTransaction { path, stat: Some(response.stat) }))
            }
            (MultiOp::SetData(_), MultiReply::SetData(stat)) => Some(OpResult::Stat(stat)),
            (MultiOp::Delete(_), MultiReply::Delete) | (MultiOp::Check(_), MultiReply::Check) => {
                Some(OpResult::Done(()))
            }
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum OpResult {
    Created(CreatedInTransaction),
    Stat(Stat),
    Done(()),
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::CreatedInTransaction {}
    impl Sealed for super::Stat {}
    impl Sealed for () {}
}

/// The result type of an operation.
pub trait TransactionResult: sealed::Sealed + Sized {
    #[doc(hidden)]
    fn pick(results: &TransactionResults, index: usize) -> Option<&Self>;
}

impl TransactionResult for CreatedInTransaction {
    fn pick(results: &TransactionResults, index: usize) -> Option<&Self> {
        match results.results.get(index)? {
            OpResult::Created(created) => Some(created),
            OpResult::Stat(_) | OpResult::Done(()) => None,
        }
    }
}

impl TransactionResult for Stat {
    fn pick(results: &TransactionResults, index: usize) -> Option<&Self> {
        match results.results.get(index)? {
            OpResult::Stat(stat) => Some(stat),
            OpResult::Created(_) | OpResult::Done(()) => None,
        }
    }
}

impl TransactionResult for () {
    fn pick(results: &TransactionResults, index: usize) -> Option<&Self> {
        match results.results.get(index)? {
            OpResult::Done(done) => Some(done),
            OpResult::Created(_) | OpResult::Stat(_) => None,
        }
    }
}

/// The results of a committed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionResults {
    results: Vec<OpResult>,
}

impl TransactionResults {
    /// The result of one operation.
    ///
    /// # Panics
    ///
    /// If the operation belongs to another transaction.
    pub fn get<R: TransactionResult>(&self, op: OpRef<R>) -> &R {
        R::pick(self, op.index).expect("the operation belongs to this transaction")
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.results.len()
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }
}

sendable!(Transaction => TransactionResults);
