//! getData, with and without a watch.

use std::sync::Arc;

use tracing::Instrument;
use zebu_proto::client::Freshness;
use zebu_proto::{DecodeError, Jute, OpCode, Reader, Stat};

use super::call::{ApiCall, WhenFull, put_path_and_watch};
use super::client::Client;
use super::compression::Compression;
use super::error::Error;
use super::freshness::fresh_read;
use super::pending::{Pending, sendable};
use super::retry::{RepeatRule, RetryPolicy};
use super::types::NodeData;
use super::watch::{OneshotWatcher, WatcherHandle};
use crate::core::{ServerReply, WatchIntent};

const OPERATION: &str = "get";

/// A read of a node's data; see [`Client::get`].
#[must_use = "nothing is sent before send or await"]
pub struct Get {
    client: Client,
    path: String,
    compression: Compression,
    freshness: Freshness,
    retry: Arc<dyn RetryPolicy>,
}

impl Client {
    /// Reads a node's data.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.create("/config").await?;
    /// let node = client.get("/config").await?;
    /// println!("{} bytes, version {}", node.data.len(), node.stat.version);
    /// # Ok(()) });
    /// ```
    pub fn get(&self, path: &str) -> Get {
        let (compression, retry) = (self.compression, self.retry.clone());
        Get { client: self.clone(), path: path.to_owned(), compression, retry, freshness: self.reads }
    }
}

impl Get {
    /// The compression of the data. Uncompressed data is recognised.
    pub fn compression(mut self, compression: Compression) -> Get {
        self.compression = compression;
        self
    }

    /// Registers a watch that fires when the data changes or the node is deleted.
    pub fn watched(self) -> WatchedGet {
        WatchedGet { retry: self.retry.clone(), get: self }
    }

    fn call(&self, full: &str, watch: bool) -> ApiCall {
        ApiCall::new(OPERATION, &self.path, OpCode::GetData)
            .body(|out| put_path_and_watch(full, watch, out))
            .fresh(self.freshness)
    }

    fn read(&self, call: &ApiCall, reply: &ServerReply) -> Result<NodeData, Error> {
        let node = call.decode(reply, |reader| read_node(reader, reply))?;
        let unpacked = self.compression.unpack(node.data);
        let data = unpacked.map_err(|kind| call.error(kind).with_server(&reply.server))?;
        Ok(NodeData { data, is_null: node.is_null, stat: node.stat })
    }

    fn begin(self, when_full: WhenFull) -> Pending<NodeData> {
        let span = tracing::debug_span!("get", path = %self.path);
        let full = match self.client.resolve(OPERATION, &self.path) {
            Ok(full) => full,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let call = self.call(&full, false);
        let first = self.client.start(&call, when_full);
        let run = async move {
            let reply = self.client.run(&call, first, self.retry.clone(), RepeatRule::Always).await?;
            self.read(&call, &reply)
        };
        Box::pin(run.instrument(span))
    }
}

/// Decodes a node. The data is a slice of the frame, not a copy.
pub(crate) fn read_node(reader: &mut Reader<'_>, reply: &ServerReply) -> Result<NodeData, DecodeError> {
    let (is_null, length) = match reader.buffer()? {
        Some(data) => (false, data.len()),
        None => (true, 0),
    };
    let end = reader.position();
    Ok(NodeData { data: reply.body.slice(end - length..end), is_null, stat: Stat::decode(reader)? })
}

/// A read of a node's data with a watch; see [`Get::watched`].
#[must_use = "nothing is sent before send or await"]
pub struct WatchedGet {
    get: Get,
    retry: Arc<dyn RetryPolicy>,
}

impl WatchedGet {
    fn begin(self, when_full: WhenFull) -> Pending<(NodeData, OneshotWatcher)> {
        let get = self.get;
        let span = tracing::debug_span!("get", path = %get.path, watched = true);
        let full = match get.client.resolve(OPERATION, &get.path) {
            Ok(full) => full,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let (end, registration) = WatcherHandle::new(&get.client, WatchIntent::Data, &full);
        let mut call = get.call(&full, true);
        call.watch = Some(registration);
        let first = get.client.start(&call, when_full);
        let run = async move {
            let reply = get.client.run(&call, first, self.retry, RepeatRule::Always).await?;
            Ok((get.read(&call, &reply)?, OneshotWatcher::new(end)))
        };
        Box::pin(run.instrument(span))
    }
}

fresh_read!(Get);
sendable!(Get => NodeData);
sendable!(WatchedGet => (NodeData, OneshotWatcher));
