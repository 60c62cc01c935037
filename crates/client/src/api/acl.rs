//! getACL and setACL.

use std::sync::Arc;

use tracing::Instrument;
use zebu_proto::client::Freshness;
use zebu_proto::client::reply::GetAclResponse;
use zebu_proto::{Acl, Jute, OpCode, Stat};

use super::call::{ApiCall, WhenFull, put_path};
use super::client::Client;
use super::freshness::fresh_read;
use super::pending::{Pending, sendable};
use super::retry::{RepeatRule, RetryPolicy};
use super::types::{AclList, Version};

/// A read of a node's ACL; see [`Client::get_acl`].
#[must_use = "nothing is sent before send or await"]
pub struct GetAcl {
    client: Client,
    path: String,
    freshness: Freshness,
    retry: Arc<dyn RetryPolicy>,
}

/// A write of a node's ACL; see [`Client::set_acl`].
#[must_use = "nothing is sent before send or await"]
pub struct SetAcl {
    client: Client,
    path: String,
    acl: Vec<Acl>,
    version: Version,
    retry: Arc<dyn RetryPolicy>,
}

impl Client {
    /// Reads a node's access control list.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.create("/config").await?;
    /// for entry in client.get_acl("/config").await?.entries {
    ///     println!("{:?} may {:#07b}", entry.id, entry.perms);
    /// }
    /// # Ok(()) });
    /// ```
    pub fn get_acl(&self, path: &str) -> GetAcl {
        GetAcl {
            client: self.clone(),
            path: path.to_owned(),
            retry: self.retry.clone(),
            freshness: self.reads,
        }
    }

    /// Replaces a node's access control list.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.create("/config").await?;
    /// use zebu_client::{Acl, Permissions, digest_id};
    ///
    /// let owner = Acl::new(Permissions::ALL, "digest", digest_id("user", "secret"));
    /// let reader = Acl::new(Permissions::READ, "world", "anyone");
    /// client.set_acl("/config", vec![owner, reader]).await?;
    /// # Ok(()) });
    /// ```
    pub fn set_acl(&self, path: &str, acl: impl Into<Vec<Acl>>) -> SetAcl {
        SetAcl {
            client: self.clone(),
            path: path.to_owned(),
            acl: acl.into(),
            version: Version::Any,
            retry: self.retry.clone(),
        }
    }
}

impl GetAcl {
    fn begin(self, when_full: WhenFull) -> Pending<AclList> {
        const OPERATION: &str = "get acl";
        let span = tracing::debug_span!("get_acl", path = %self.path);
        let full = match self.client.resolve(OPERATION, &self.path) {
            Ok(full) => full,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let call = ApiCall::new(OPERATION, &self.path, OpCode::GetAcl)
            .body(|out| put_path(&full, out))
            .fresh(self.freshness);
        let first = self.client.start(&call, when_full);
        let run = async move {
            let reply = self.client.run(&call, first, self.retry, RepeatRule::Always).await?;
            let response = call.decode(&reply, GetAclResponse::decode)?;
            Ok(AclList { entries: response.acl, stat: response.stat })
        };
        Box::pin(run.instrument(span))
    }
}

impl SetAcl {
    /// Only if this is the current version of the list (`aversion`).
    pub fn version(mut self, version: Version) -> SetAcl {
        self.version = version;
        self
    }

    fn begin(self, when_full: WhenFull) -> Pending<Stat> {
        const OPERATION: &str = "set acl";
        let span = tracing::debug_span!("set_acl", path = %self.path);
        let full = match self.client.resolve(OPERATION, &self.path) {
            Ok(full) => full,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let call = ApiCall::new(OPERATION, &self.path, OpCode::SetAcl).body(|out| {
            put_path(&full, out);
            self.acl.encode(out);
            self.version.wire().encode(out);
        });
        let first = self.client.start(&call, when_full);
        let run = async move {
            let reply = self.client.run(&call, first, self.retry, RepeatRule::IfNotSent).await?;
            call.decode(&reply, Stat::decode)
        };
        Box::pin(run.instrument(span))
    }
}

fresh_read!(GetAcl);
sendable!(GetAcl => AclList);
sendable!(SetAcl => Stat);
