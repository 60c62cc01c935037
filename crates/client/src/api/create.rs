//! create in all its modes, and what makes it safe: parents on demand, protection, repeating.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tracing::Instrument;
use zebu_proto::client::{CreateMode, CreateOp, CreateRequest};
use zebu_proto::{Acl, ErrorCode};

use super::call::{Attempt, Call, WhenFull};
use super::client::Client;
use super::compression::Compression;
use super::content::Content;
use super::error::Error;
use super::janitor::Chore;
use super::pending::{Pending, sendable};
use super::protection::{Protection, Sweeper};
use super::retry::{Repeat, Retry, RetryPolicy};
use super::types::{Created, Version};
use crate::path;

pub(super) const OPERATION: &str = "create";

/// How long a node lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    Persistent,
    Ephemeral,
    Container,
    Ttl(Duration),
}

/// Whether the server appends a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    Exact,
    Sequential,
}

/// What to do about missing parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Parents {
    /// They must be there.
    #[default]
    Required,
    /// They are made, persistent.
    Persistent,
    /// They are made, as containers: they go some time after their last child.
    Containers,
}

/// What a repeated create makes of a node that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfPresent {
    Fail,
    /// Success if data and version are those of a node that was just created.
    Compare,
    /// Its data is set.
    Set(Version),
}

/// A create; see [`Client::create`].
#[must_use = "nothing is sent before send or await"]
pub struct Create {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) content: Content,
    pub(super) lifetime: Lifetime,
    pub(super) naming: Naming,
    pub(super) acl: Arc<[Acl]>,
    pub(super) parents_acl: Arc<[Acl]>,
    pub(super) parents: Parents,
    pub(super) protection: Option<Protection>,
    pub(super) if_present: IfPresent,
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
    /// let ticket = client.create("/queue/item-").sequential().data("job").await?;
    /// println!("{} is number {:?}", ticket.path, ticket.sequence);
    /// client.create("/cache/x").ttl(Duration::from_secs(60)).await?;
    /// // Safe to lose the answer of: the node's name carries an id that it is found by.
    /// let lock = client.create("/locks/lock-").ephemeral().sequential().protected().await?;
    /// # Ok(()) });
    /// ```
    pub fn create(&self, path: &str) -> Create {
        Create {
            client: self.clone(),
            path: path.to_owned(),
            content: Content::Empty,
            lifetime: Lifetime::Persistent,
            naming: Naming::Exact,
            acl: self.acl.clone(),
            parents_acl: self.acl.clone(),
            parents: Parents::Required,
            protection: None,
            if_present: IfPresent::Fail,
            compression: self.compression,
            retry: self.retry.clone(),
        }
    }

    /// Makes a node and all that is missing above it, and is content if it is there already.
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
        let mut attempts = self.attempts(self.retry.clone());
        loop {
            match outside.make_path(&full, Lifetime::Persistent).await {
                Ok(()) => return Ok(()),
                Err(error) => attempts.after(error, Repeat::Always).await?,
            }
        }
    }

    /// One attempt to make a path of the server, from the nearest node that exists downwards.
    pub(super) async fn make_path(&self, full: &str, lifetime: Lifetime) -> Result<(), Error> {
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
        self.content = Content::Given(data.into());
        self
    }

    /// No data at all, which clients in Java see as null. Without this and [`Create::data`] the node is empty.
    pub fn null_data(mut self) -> Create {
        self.content = Content::Null;
        self
    }

    /// The node goes with the session.
    pub fn ephemeral(mut self) -> Create {
        self.lifetime = Lifetime::Ephemeral;
        self
    }

    /// The server appends a counter of ten digits to the name.
    pub fn sequential(mut self) -> Create {
        self.naming = Naming::Sequential;
        self
    }

    /// The node goes some time after its last child (servers from 3.5.1).
    pub fn container(mut self) -> Create {
        self.lifetime = Lifetime::Container;
        self
    }

    /// The node goes when it has no children and was not modified for this long (servers from 3.5.3 with
    /// `zookeeper.extendedTypesEnabled=true`).
    pub fn ttl(mut self, ttl: Duration) -> Create {
        self.lifetime = Lifetime::Ttl(ttl);
        self
    }

    /// One of the seven modes by name. The two with a TTL take it from [`Create::ttl`].
    pub fn mode(mut self, mode: CreateMode) -> Create {
        self.naming = if mode.is_sequential() { Naming::Sequential } else { Naming::Exact };
        self.lifetime = match (mode, self.lifetime) {
            (CreateMode::Container, _) => Lifetime::Container,
            (mode, _) if mode.is_ephemeral() => Lifetime::Ephemeral,
            (mode, Lifetime::Ttl(ttl)) if mode.has_ttl() => Lifetime::Ttl(ttl),
            (mode, _) if mode.has_ttl() => Lifetime::Ttl(Duration::ZERO),
            _ => Lifetime::Persistent,
        };
        self
    }

    /// The node's ACL.
    pub fn acl(mut self, acl: impl Into<Arc<[Acl]>>) -> Create {
        self.acl = acl.into();
        self
    }

    /// What to do about missing parents. They are made with the client's
    /// [default ACL](crate::ClientBuilder::default_acl), whatever ACL the node has.
    pub fn parents(mut self, parents: Parents) -> Create {
        self.parents = parents;
        self
    }

    /// The ACL of parents that are made.
    pub fn parents_acl(mut self, acl: impl Into<Arc<[Acl]>>) -> Create {
        self.parents_acl = acl.into();
        self
    }

    /// Puts `_c_` and an id in front of the name, as Curator does. If the answer is lost, the node is
    /// looked for by this id before the create is repeated: it happens once. If the call fails for good or
    /// its future is dropped, what it may have created is removed in the background.
    pub fn protected(mut self) -> Create {
        self.protection = Some(Protection::new(self.client.shared.random(), self.client.shared.random()));
        self
    }

    /// Repeats the create when its outcome is unknown, and takes a node with the same data and version 0
    /// for its own. Another client that does the same cannot be told apart.
    pub fn idempotent(mut self) -> Create {
        self.if_present = IfPresent::Compare;
        self
    }

    /// Sets the data if the node is there already.
    pub fn or_set(mut self, version: Version) -> Create {
        self.if_present = IfPresent::Set(version);
        self
    }

    /// How the data is stored.
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
            Err(error) => Attempt::Refused(error.clone()),
        };
        let sweeper = if prepared.is_ok() { self.sweeper() } else { None };
        Box::pin(async move { self.run(prepared?, first, sweeper).await }.instrument(span))
    }

    /// The path with the id of a protected node.
    pub(super) fn named(&self) -> String {
        match &self.protection {
            Some(protection) => protection.apply(&self.path),
            None => self.path.clone(),
        }
    }

    /// Cleans up behind a protected create that does not come to its end.
    pub(super) fn sweeper(&self) -> Option<Sweeper> {
        let protection = self.protection.as_ref()?;
        path::check_path(&self.named()).ok()?;
        let full = self.client.full_path(&self.path);
        let parent = path::parent(&full)?.to_owned();
        Some(Sweeper::new(&self.client, Chore::Sweep { parent, prefix: protection.prefix() }))
    }

    pub(super) fn prepare(&self) -> Result<Call, Error> {
        let client = &self.client;
        let invalid = |reason| Err(client.invalid(OPERATION, &self.path, reason));
        let sequential = self.naming == Naming::Sequential;
        let plain = client.shared.plain_create.load(Ordering::Relaxed);
        let (op, mode, ttl_ms) = match (self.lifetime, sequential) {
            (Lifetime::Container, true) => return invalid("a container cannot be sequential"),
            (Lifetime::Container, false) => (CreateOp::Container, CreateMode::Container, -1),
            (Lifetime::Ttl(ttl), _) => {
                let mode = match self.naming {
                    Naming::Exact => CreateMode::PersistentWithTtl,
                    Naming::Sequential => CreateMode::PersistentSequentialWithTtl,
                };
                match i64::try_from(ttl.as_millis()) {
                    Ok(ttl_ms @ 1..=0xff_ffff_ffff) => (CreateOp::Ttl, mode, ttl_ms),
                    Ok(_) | Err(_) => return invalid("a TTL lies between 1 ms and 34 years"),
                }
            }
            (Lifetime::Persistent, false) => (plain_or_stat(plain), CreateMode::Persistent, -1),
            (Lifetime::Persistent, true) => (plain_or_stat(plain), CreateMode::PersistentSequential, -1),
            (Lifetime::Ephemeral, false) => (plain_or_stat(plain), CreateMode::Ephemeral, -1),
            (Lifetime::Ephemeral, true) => (plain_or_stat(plain), CreateMode::EphemeralSequential, -1),
        };
        let named = self.named();
        // Sequential nodes may have no name but their number.
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
        Ok(Call::new(OPERATION, &self.path, op.op_code()).body(|out| request.encode(out)))
    }
}

const fn plain_or_stat(plain: bool) -> CreateOp {
    if plain { CreateOp::Create } else { CreateOp::Create2 }
}

sendable!(Create => Created);
