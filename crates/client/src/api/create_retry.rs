//! The retry loop of a create: missing parents, existing nodes, and the search for a node after a lost reply.

use std::sync::atomic::Ordering;

use zebu_proto::client::CreateOp;
use zebu_proto::client::reply::Create2Response;
use zebu_proto::{ErrorCode, Jute, OpCode, Stat};

use super::call::{ApiCall, CallAttempt, put_path_and_watch};
use super::cleanup::{CleanupGuard, CleanupTask};
use super::client::Client;
use super::compression::Compression;
use super::create::{Create, IfNodeExists, NameSuffix, NodeLifetime, OPERATION, Parents};
use super::error::{Error, ErrorKind};
use super::protection::{Protection, ProtectionStyle};
use super::retry::{RepeatRule, Retry, RetryLoop};
use super::types::{ConfirmedBy, Created, sequence_of};
use crate::core::ServerReply;
use crate::path;

/// The limit of attempts to create parents; a container may be deleted before its child is created.
pub(super) const PARENT_ROUNDS: u32 = 5;

/// The step after a failed attempt.
enum CreateStep {
    Done(Created),
    Retry,
    /// Retry with another id.
    RetryRenamed,
}

impl Create {
    pub(super) async fn run(
        mut self,
        mut call: ApiCall,
        mut attempt: CallAttempt,
        mut cleanup_guard: Option<CleanupGuard>,
    ) -> Result<Created, Error> {
        let mut retry = self.client.retry_loop(self.retry.clone());
        let mut parent_rounds = 0;
        loop {
            let error = match self.client.reply_of(&call, attempt).await {
                Ok(reply) => {
                    let created = self.read(&call, &reply).await?;
                    cleanup_guard.take().into_iter().for_each(CleanupGuard::disarm);
                    return Ok(created);
                }
                Err(error) => error,
            };
            match self.after_failure(error, &mut retry, &mut parent_rounds).await {
                Ok(CreateStep::Done(created)) => {
                    cleanup_guard.take().into_iter().for_each(CleanupGuard::disarm);
                    return Ok(created);
                }
                Ok(CreateStep::Retry) => {}
                Ok(CreateStep::RetryRenamed) => {
                    // The old name belongs to a session that has ended. Replacing the guard removes that
                    // node.
                    cleanup_guard = self.cleanup_guard();
                }
                Err(error) => {
                    if !error.is_ambiguous() {
                        cleanup_guard.take().into_iter().for_each(CleanupGuard::disarm);
                    }
                    return Err(error);
                }
            }
            call = self.prepare()?;
            attempt = self.client.start_awaited(&call);
        }
    }

    /// Chooses the step after a failed attempt.
    async fn after_failure(
        &mut self,
        error: Error,
        retry: &mut RetryLoop,
        parent_rounds: &mut u32,
    ) -> Result<CreateStep, Error> {
        match error.kind() {
            ErrorKind::Server(ErrorCode::NoNode)
                if self.parents != Parents::Required && *parent_rounds < PARENT_ROUNDS =>
            {
                *parent_rounds += 1;
                self.create_parents(retry).await?;
                Ok(CreateStep::Retry)
            }
            ErrorKind::Server(ErrorCode::NodeExists) => self.on_node_exists(error, retry).await,
            ErrorKind::Server(ErrorCode::Unimplemented) if self.has_plain_form() => {
                self.client.shared.plain_create.store(true, Ordering::Relaxed);
                Ok(CreateStep::Retry)
            }
            ErrorKind::Ambiguous(_) if self.protection.is_some() => {
                retry.after(error, RepeatRule::Always).await?;
                self.find_created(retry).await
            }
            _ => {
                let repeat = match self.if_exists {
                    IfNodeExists::Fail => RepeatRule::IfNotSent,
                    // With a counter every create makes a new node: a repeated create is never idempotent.
                    IfNodeExists::Compare | IfNodeExists::Set(_) if self.suffix == NameSuffix::Counter => {
                        RepeatRule::IfNotSent
                    }
                    IfNodeExists::Compare | IfNodeExists::Set(_) => RepeatRule::Always,
                };
                retry.after(error, repeat).await?;
                Ok(CreateStep::Retry)
            }
        }
    }

    /// Whether the request was create2, which servers before 3.5 do not know.
    fn has_plain_form(&self) -> bool {
        let plain = self.client.shared.plain_create.load(Ordering::Relaxed);
        !plain && matches!(self.lifetime, NodeLifetime::Persistent | NodeLifetime::Ephemeral)
    }

    async fn create_parents(&self, retry: &mut RetryLoop) -> Result<(), Error> {
        let full = self.client.full_path(&self.named());
        let Some(parent) = path::parent(&full).filter(|parent| *parent != "/") else { return Ok(()) };
        let lifetime = match self.parents {
            Parents::Containers => NodeLifetime::Container,
            Parents::Persistent | Parents::Required => NodeLifetime::Persistent,
        };
        let outside = Client { root: "".into(), acl: self.parents_acl.clone(), ..self.client.clone() };
        loop {
            match outside.create_path(parent, lifetime).await {
                Ok(()) => return Ok(()),
                Err(error) => retry.after(error, RepeatRule::Always).await?,
            }
        }
    }

    /// Handles a node that already exists.
    async fn on_node_exists(&mut self, error: Error, retry: &mut RetryLoop) -> Result<CreateStep, Error> {
        let named = self.named();
        loop {
            let result = match self.if_exists {
                IfNodeExists::Fail => return Err(error),
                IfNodeExists::Compare => {
                    let read =
                        self.client.get(&named).compression(Compression::None).retry(Retry::Never).await;
                    match read {
                        Ok(node) if node.stat.version == 0 && node.data == self.content.bytes() => {
                            Ok(node.stat)
                        }
                        Ok(_) => return Err(error),
                        Err(error) => Err(error),
                    }
                }
                IfNodeExists::Set(version) => {
                    let data = self.content.bytes();
                    let set = self.client.set(&named, data).version(version).compression(Compression::None);
                    set.retry(Retry::Never).await
                }
            };
            match result {
                Ok(stat) => return Ok(CreateStep::Done(self.created(named, stat, ConfirmedBy::Search))),
                // The node was deleted in between: create it.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(CreateStep::Retry),
                Err(error) => retry.after(error, RepeatRule::Always).await?,
            }
        }
    }

    /// Searches for the node of a protected create after a lost reply.
    async fn find_created(&mut self, retry: &mut RetryLoop) -> Result<CreateStep, Error> {
        let Some(protection) = &self.protection else { return Ok(CreateStep::Retry) };
        let (style, prefix) = (protection.style(), protection.prefix());
        let parent = path::parent(&self.named()).unwrap_or("/").to_owned();
        loop {
            match self.search_once(&parent, &prefix, style).await {
                Ok(verdict) => {
                    retry.resolved();
                    return Ok(verdict);
                }
                Err(error) => retry.after_search(error).await?,
            }
        }
    }

    async fn search_once(
        &mut self,
        parent: &str,
        prefix: &str,
        style: ProtectionStyle,
    ) -> Result<CreateStep, Error> {
        let found = self.client.children_with_prefix(parent, prefix).await?;
        let Some(name) = found.first() else { return Ok(CreateStep::Retry) };
        let path = path::join(parent, name);
        let Some(stat) = self.client.exists(&path).retry(Retry::Never).await? else {
            return Ok(CreateStep::Retry);
        };
        if self.lifetime == NodeLifetime::Ephemeral && stat.ephemeral_owner != self.client.session().id.0 {
            // The node is deleted with the session that created it. A new name keeps the two apart.
            self.client.schedule_cleanup(CleanupTask::Delete(self.client.full_path(&path)));
            self.protection = Some(Protection::new(style, self.client.shared.unique_bits()));
            return Ok(CreateStep::RetryRenamed);
        }
        Ok(CreateStep::Done(self.created(path, stat, ConfirmedBy::Search)))
    }

    fn created(&self, path: String, stat: Stat, confirmed_by: ConfirmedBy) -> Created {
        let sequence = match self.suffix {
            NameSuffix::None => None,
            NameSuffix::Counter => sequence_of(&path, &self.named()),
        };
        Created { path, stat, sequence, confirmed_by }
    }

    /// Decodes the reply.
    async fn read(&self, call: &ApiCall, reply: &ServerReply) -> Result<Created, Error> {
        if call.op != CreateOp::Create.op_code() {
            let response = call.decode(reply, Create2Response::decode)?;
            let path = response.path.unwrap_or_default();
            let path = path::without_root(&self.client.root, &path).to_owned();
            return Ok(self.created(path, response.stat, ConfirmedBy::Reply));
        }
        // A server before 3.5 returns the path alone.
        let full = call.decode(reply, Box::<str>::decode)?;
        let path = path::without_root(&self.client.root, &full).to_owned();
        let exists = ApiCall::new(OPERATION, &self.path, OpCode::Exists)
            .body(|out| put_path_and_watch(&full, false, out));
        let mut retry = self.client.retry_loop(self.retry.clone());
        loop {
            match self.client.call_once(&exists).await {
                Ok(reply) => {
                    let stat = exists.decode(&reply, Jute::decode)?;
                    return Ok(self.created(path, stat, ConfirmedBy::Reply));
                }
                Err(error) => retry.after(error, RepeatRule::Always).await?,
            }
        }
    }
}
