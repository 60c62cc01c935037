//! create in all its modes, with parents on demand, protection and safe retries.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tracing::Instrument;
use zebu_proto::client::{CreateMode, CreateOp, CreateRequest};
use zebu_proto::{Acl, ErrorCode};

use super::call::{ApiCall, CallAttempt, WhenFull};
use super::cleanup::{CleanupGuard, CleanupTask};
use super::client::Client;
use super::compression::Compression;
use super::create_retry::PARENT_ROUNDS;
use super::error::Error;
use super::node_content::NodeContent;
use super::pending::{Pending, sendable};
use super::protection::{Protection, ProtectionStyle};
use super::retry::{RepeatRule, Retry, RetryPolicy};
use super::types::{Created, Version};
use crate::path;

pub(super) const OPERATION: &str = "create";

/// The lifetime of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeLifetime {
    Persistent,
    Ephemeral,
    Container,
    Ttl(Duration),
}

/// Whether the server appends a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameSuffix {
    None,
    Counter,
}

/// The handling of missing parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Parents {
    /// The parents must exist.
    #[default]
    Required,
    /// Missing parents are created as persistent nodes.
    Persistent,
    /// Missing parents are created as containers, which the server deletes some time after their last child.
    Containers,
}

/// The handling of a node that already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfNodeExists {
    Fail,
    /// Success if data and version are those of a newly created node.
    Compare,
    /// Sets the data of the node.
    Set(Version),
}

/// A create; see [`Client::create`].
#[must_use = "nothing is sent before send or await"]
pub struct Create {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) content: NodeContent,
    pub(super) lifetime: NodeLifetime,
    pub(super) suffix: NameSuffix,
    pub(super) acl: Arc<[Acl]>,
    pub(super) parents_acl: Arc<[Acl]>,
    pub(super) parents: Parents,
    pub(super) protection: Option<Protection>,
    pub(super) if_exists: IfNodeExists,
    pub(super) compression: Compression,
    pub(super) retry: Arc<dyn RetryPolicy>,
}

impl Client {
    /// Creates a node. Without options: persistent, empty, with the client's ACL.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # for parent in ["/queue", "/cache", "/locks"] {
    /// #     client.create(parent).await?;
    /// # }
    /// use std::time::Duration;
    /// use zebu_client::Parents;
    ///
    /// client.create("/config").data("v1").await?;
    /// client.create("/members/a").ephemeral().parents(Parents::Containers).await?;
    /// let item = client.create("/queue/item-").sequential().data("job").await?;
    /// println!("{} is number {:?}", item.path, item.sequence);
    /// client.create("/cache/x").ttl(Duration::from_secs(60)).await?;
    /// // Safe to lose the reply of: the node's name carries an id that it is found by.
    /// let lock = client.create("/locks/lock-").ephemeral().sequential().protected().await?;
    /// # Ok(()) });
    /// ```
    pub fn create(&self, path: &str) -> Create {
        Create {
            client: self.clone(),
            path: path.to_owned(),
            content: NodeContent::Empty,
            lifetime: NodeLifetime::Persistent,
            suffix: NameSuffix::None,
            acl: self.acl.clone(),
            parents_acl: self.acl.clone(),
            parents: Parents::Required,
            protection: None,
            if_exists: IfNodeExists::Fail,
            compression: self.compression,
            retry: self.retry.clone(),
        }
    }

    /// Creates a node and its missing parents. An existing node is no error.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// client.ensure_path("/apps/shop/locks").await?;
    /// # Ok(()) });
    /// ```
    #[tracing::instrument(level = "debug", skip_all, fields(path = %path))]
    pub async fn ensure_path(&self, path: &str) -> Result<(), Error> {
        let full = self.resolve("ensure path", path)?;
        let outside = Client { root: "".into(), ..self.clone() };
        let mut retry = self.retry_loop(self.retry.clone());
        loop {
            match outside.create_path(&full, NodeLifetime::Persistent).await {
                Ok(()) => return Ok(()),
                Err(error) => retry.after(error, RepeatRule::Always).await?,
            }
        }
    }

    /// Creates a path of the server, from its nearest existing ancestor downwards. Repeats this if an
    /// ancestor is deleted meanwhile; servers delete empty containers.
    pub(super) async fn create_path(&self, full: &str, lifetime: NodeLifetime) -> Result<(), Error> {
        for _ in 1..PARENT_ROUNDS {
            match self.create_missing_nodes(full, lifetime).await {
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
                result => return result,
            }
        }
        self.create_missing_nodes(full, lifetime).await
    }

    async fn create_missing_nodes(&self, full: &str, lifetime: NodeLifetime) -> Result<(), Error> {
        let mut missing = Vec::new();
        let mut next = Some(full);
        while let Some(node) = next.filter(|node| *node != "/") {
            if self.exists(node).retry(Retry::Never).await?.is_some() {
                break;
            }
            missing.push(node);
            next = path::parent(node);
        }
        for node in missing.into_iter().rev() {
            let mut create = self.create(node).retry(Retry::Never);
            create.lifetime = lifetime;
            match create.await {
                Ok(_) => {}
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Create {
    /// The node's data.
    pub fn data(mut self, data: impl Into<Bytes>) -> Create {
        self.content = NodeContent::Given(data.into());
        self
    }

    /// Null data, as Java clients know it. Without this and [`Create::data`] the data is empty.
    pub fn null_data(mut self) -> Create {
        self.content = NodeContent::Null;
        self
    }

    /// Creates an ephemeral node.
    pub fn ephemeral(mut self) -> Create {
        self.lifetime = NodeLifetime::Ephemeral;
        self
    }

    /// The server appends a counter of ten digits to the name.
    pub fn sequential(mut self) -> Create {
        self.suffix = NameSuffix::Counter;
        self
    }

    /// Creates a container, which the server deletes some time after its last child (servers from 3.5.1).
    pub fn container(mut self) -> Create {
        self.lifetime = NodeLifetime::Container;
        self
    }

    /// Creates a TTL node, which the server deletes when it has no children and was not modified for this
    /// time (servers from 3.5.3 with `zookeeper.extendedTypesEnabled=true`).
    pub fn ttl(mut self, ttl: Duration) -> Create {
        self.lifetime = NodeLifetime::Ttl(ttl);
        self
    }

    /// Sets the mode by name. The two modes with a TTL take it from [`Create::ttl`].
    pub fn mode(mut self, mode: CreateMode) -> Create {
        self.suffix = if mode.is_sequential() { NameSuffix::Counter } else { NameSuffix::None };
        self.lifetime = match (mode, self.lifetime) {
            (CreateMode::Container, _) => NodeLifetime::Container,
            (mode, _) if mode.is_ephemeral() => NodeLifetime::Ephemeral,
            (mode, NodeLifetime::Ttl(ttl)) if mode.has_ttl() => NodeLifetime::Ttl(ttl),
            (mode, _) if mode.has_ttl() => NodeLifetime::Ttl(Duration::ZERO),
            _ => NodeLifetime::Persistent,
        };
        self
    }

    /// The node's ACL.
    pub fn acl(mut self, acl: impl Into<Arc<[Acl]>>) -> Create {
        self.acl = acl.into();
        self
    }

    /// The handling of missing parents. They get the client's [default
    /// ACL](crate::ClientBuilder::default_acl), whatever ACL the node has.
    pub fn parents(mut self, parents: Parents) -> Create {
        self.parents = parents;
        self
    }

    /// The ACL of created parents.
    pub fn parents_acl(mut self, acl: impl Into<Arc<[Acl]>>) -> Create {
        self.parents_acl = acl.into();
        self
    }

    /// Adds a prefix of `_c_` and a unique id to the name, as Curator does. After a lost reply the client
    /// searches for the id before it repeats the create, so that the node is created once. If the call fails
    /// or its future is dropped, the background removes the node.
    pub fn protected(self) -> Create {
        self.protected_as(ProtectionStyle::Curator)
    }

    /// Like [`protected`](Create::protected), with the prefix of another library.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// use zebu_client::ProtectionStyle;
    ///
    /// let create = client.create("/__lock__").ephemeral().sequential();
    /// let lock = create.protected_as(ProtectionStyle::Kazoo).await?;
    /// assert!(lock.path.ends_with("__lock__0000000000"));
    /// # Ok(()) });
    /// ```
    pub fn protected_as(mut self, style: ProtectionStyle) -> Create {
        self.protection = Some(Protection::new(style, self.client.shared.unique_bits()));
        self
    }

    /// Repeats the create when its outcome is unknown, and accepts an existing node with the same data and
    /// version 0 as its own. It cannot distinguish another client that does the same.
    pub fn idempotent(mut self) -> Create {
        self.if_exists = IfNodeExists::Compare;
        self
    }

    /// Sets the data if the node already exists.
    pub fn or_set(mut self, version: Version) -> Create {
        self.if_exists = IfNodeExists::Set(version);
        self
    }

    /// The compression of the data.
    pub fn compression(mut self, compression: Compression) -> Create {
        self.compression = compression;
        self
    }

    fn begin(mut self, when_full: WhenFull) -> Pending<Created> {
        let span = tracing::debug_span!("create", path = %self.path);
        self.content = std::mem::take(&mut self.content).packed(self.compression);
        let prepared = self.prepare();
        let first = match &prepared {
            Ok(call) => self.client.start(call, when_full),
            Err(error) => CallAttempt::Refused(error.clone()),
        };
        let cleanup_guard = if prepared.is_ok() { self.cleanup_guard() } else { None };
        Box::pin(async move { self.run(prepared?, first, cleanup_guard).await }.instrument(span))
    }

    /// The path with the prefix of a protected node.
    pub(super) fn named(&self) -> String {
        match &self.protection {
            Some(protection) => protection.apply(&self.path),
            None => self.path.clone(),
        }
    }

    /// The guard that removes the node of a protected create with an unknown outcome.
    pub(super) fn cleanup_guard(&self) -> Option<CleanupGuard> {
        let protection = self.protection.as_ref()?;
        let named = self.named();
        path::check_path(&named).ok()?;
        let full = self.client.full_path(&named);
        let parent = path::parent(&full)?.to_owned();
        Some(CleanupGuard::new(
            &self.client,
            CleanupTask::DeleteByPrefix { parent, prefix: protection.prefix() },
        ))
    }

    pub(super) fn prepare(&self) -> Result<ApiCall, Error> {
        let client = &self.client;
        let invalid = |reason| Err(client.invalid(OPERATION, &self.path, reason));
        let sequential = self.suffix == NameSuffix::Counter;
        let plain = client.shared.plain_create.load(Ordering::Relaxed);
        let (op, mode, ttl_ms) = match (self.lifetime, sequential) {
            (NodeLifetime::Container, true) => return invalid("a container cannot be sequential"),
            (NodeLifetime::Container, false) => (CreateOp::Container, CreateMode::Container, -1),
            (NodeLifetime::Ttl(ttl), _) => {
                let mode = match self.suffix {
                    NameSuffix::None => CreateMode::PersistentWithTtl,
                    NameSuffix::Counter => CreateMode::PersistentSequentialWithTtl,
                };
                match i64::try_from(ttl.as_millis()) {
                    Ok(ttl_ms @ 1..=0xff_ffff_ffff) => (CreateOp::Ttl, mode, ttl_ms),
                    Ok(_) | Err(_) => return invalid("a TTL lies between 1 ms and 34 years"),
                }
            }
            (NodeLifetime::Persistent, false) => (create_op(plain), CreateMode::Persistent, -1),
            (NodeLifetime::Persistent, true) => (create_op(plain), CreateMode::PersistentSequential, -1),
            (NodeLifetime::Ephemeral, false) => (create_op(plain), CreateMode::Ephemeral, -1),
            (NodeLifetime::Ephemeral, true) => (create_op(plain), CreateMode::EphemeralSequential, -1),
        };
        let named = self.named();
        // The name of a sequential node may be its number alone.
        let full = match named.strip_suffix('/') {
            Some(parent) if sequential && !parent.is_empty() => {
                format!("{}/", client.resolve(OPERATION, parent)?)
            }
            Some("") if sequential => client.full_path("/"),
            Some(_) | None => client.resolve(OPERATION, &named)?,
        };
        let request = CreateRequest {
            op,
            path: Some(full.into()),
            data: self.content.wire(),
            acl: Some(self.acl.to_vec().into()),
            flags: mode.flags(),
            ttl_ms,
        };
        Ok(ApiCall::new(OPERATION, &self.path, op.op_code()).body(|out| request.encode(out)))
    }
}

const fn create_op(plain: bool) -> CreateOp {
    if plain { CreateOp::Create } else { CreateOp::Create2 }
}

sendable!(Create => Created);
