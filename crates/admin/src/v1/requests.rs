//! Write requests of the client protocol and their replies, as the routes use them.

use std::borrow::Cow;
use std::sync::Arc;

use zebu_proto::client::multi::MULTI_END;
use zebu_proto::client::reply::Create2Response;
use zebu_proto::client::{
    CreateMode, CreateOp, CreateRequest, DeleteRequest, MultiOp, SetAclRequest, SetDataRequest,
};
use zebu_proto::{Acl, DecodeError, ErrorCode, Jute, OpCode, Reader, Stat};

use super::call::ApiCall;
use super::problem::Problem;
use super::request_connection::Reply;

/// The version that every node has.
pub(crate) const ANY_VERSION: i32 = -1;

/// A node to create.
#[derive(Clone, Debug)]
pub(crate) struct NewNode {
    pub(crate) path: String,
    pub(crate) data: Option<Arc<[u8]>>,
    pub(crate) acl: Vec<Acl>,
    pub(crate) mode: CreateMode,
    /// Milliseconds; only for modes with a time to live.
    pub(crate) ttl_ms: Option<i64>,
}

impl NewNode {
    pub(crate) fn request(self) -> CreateRequest {
        let op = match self.mode {
            CreateMode::Container => CreateOp::Container,
            CreateMode::PersistentWithTtl | CreateMode::PersistentSequentialWithTtl => CreateOp::Ttl,
            CreateMode::Persistent
            | CreateMode::Ephemeral
            | CreateMode::PersistentSequential
            | CreateMode::EphemeralSequential => CreateOp::Create2,
        };
        CreateRequest {
            op,
            path: Some(self.path.into()),
            data: self.data,
            acl: Some(Cow::Owned(self.acl)),
            flags: self.mode.flags(),
            ttl_ms: self.ttl_ms.unwrap_or(-1),
        }
    }
}

impl ApiCall {
    /// Creates a node. Returns its path, which a counter may end, and its stat.
    pub(crate) async fn create(&self, node: NewNode) -> Result<(String, Stat), Problem> {
        let path = node.path.clone();
        let request = node.request();
        let mut body = Vec::new();
        request.encode(&mut body);
        let reply = self.send(request.op.op_code(), body).await?;
        let created: Create2Response = self.decode(&reply, &path)?;
        Ok((created.path.map(String::from).unwrap_or(path), created.stat))
    }

    /// Replaces the data of a node.
    pub(crate) async fn set_data(
        &self,
        path: &str,
        data: Option<Arc<[u8]>>,
        version: i32,
    ) -> Result<Stat, Problem> {
        let request = SetDataRequest { path: Some(path.into()), data, version };
        let reply = self.send(OpCode::SetData, encoded(&request)).await?;
        self.decode(&reply, path)
    }

    /// Deletes a node without children.
    pub(crate) async fn delete(&self, path: &str, version: i32) -> Result<(), Problem> {
        let request = DeleteRequest { path: Some(path.into()), version };
        let reply = self.send(OpCode::Delete, encoded(&request)).await?;
        self.check(&reply, path)
    }

    /// Replaces the ACL of a node.
    pub(crate) async fn set_acl(&self, path: &str, acl: Vec<Acl>, version: i32) -> Result<Stat, Problem> {
        let request = SetAclRequest { path: Some(path.into()), acl: Some(Cow::Owned(acl)), version };
        let reply = self.send(OpCode::SetAcl, encoded(&request)).await?;
        self.decode(&reply, path)
    }

    /// Sends a multi; the reply holds one result per operation.
    pub(crate) async fn multi(&self, ops: &[MultiOp]) -> Result<Reply, Problem> {
        let mut body = Vec::new();
        ops.iter().for_each(|op| op.encode(&mut body));
        MULTI_END.encode(&mut body);
        self.send(OpCode::Multi, body).await
    }

    /// Waits until this server has applied what is committed now.
    pub(crate) async fn sync(&self, path: &str) -> Result<(), Problem> {
        let reply = self.send(OpCode::Sync, encoded(&Some::<Box<str>>(path.into()))).await?;
        self.check(&reply, path)
    }

    /// The error of a reply, if it has one.
    pub(crate) fn check(&self, reply: &Reply, path: &str) -> Result<(), Problem> {
        reply.error.map_or(Ok(()), |code| Err(self.problem(code, path)))
    }

    fn decode<T: Jute>(&self, reply: &Reply, path: &str) -> Result<T, Problem> {
        self.check(reply, path)?;
        let decoded: Result<T, DecodeError> = T::decode(&mut Reader::new(&reply.body));
        // The server wrote these bytes, and the write was executed.
        decoded.map_err(|_| self.problem(ErrorCode::DataInconsistency, path))
    }
}

fn encoded(record: &impl Jute) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    bytes
}
