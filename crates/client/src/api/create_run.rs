//! How a create comes to its end: attempts, missing parents, nodes that are there already, and the search
//! for a node whose answer was lost.

use std::sync::atomic::Ordering;

use zebu_proto::client::CreateOp;
use zebu_proto::client::reply::Create2Response;
use zebu_proto::{ErrorCode, Jute, OpCode, Stat};

use super::call::{Attempt, Call, put_path_and_watch};
use super::client::Client;
use super::compression::Compression;
use super::create::{Create, IfPresent, Lifetime, Naming, OPERATION, Parents};
use super::error::{Error, ErrorKind};
use super::janitor::Chore;
use super::protection::{Protection, Sweeper};
use super::retry::{Attempts, Repeat, Retry};
use super::types::{Created, Proof, sequence_of};
use crate::core::Answer;
use crate::path;

/// How often parents are made for one call; containers may go again before their child comes.
const PARENT_ROUNDS: u32 = 5;

/// What follows a failed attempt.
enum Verdict {
    Done(Created),
    Again,
    /// Again, under another id.
    Renamed,
}

impl Create {
    pub(super) async fn run(
        mut self,
        mut call: Call,
        mut attempt: Attempt,
        mut sweeper: Option<Sweeper>,
    ) -> Result<Created, Error> {
        let mut attempts = self.client.attempts(self.retry.clone());
        let mut parent_rounds = 0;
        loop {
            let error = match self.client.finish(&call, attempt).await {
                Ok(answer) => {
                    let created = self.read(&call, &answer).await?;
                    sweeper.take().into_iter().for_each(Sweeper::disarm);
                    return Ok(created);
                }
                Err(error) => error,
            };
            match self.judge(error, &mut attempts, &mut parent_rounds).await {
                Ok(Verdict::Done(created)) => {
                    sweeper.take().into_iter().for_each(Sweeper::disarm);
                    return Ok(created);
                }
                Ok(Verdict::Again) => {}
                Ok(Verdict::Renamed) => {
                    // The old name belongs to a session that is gone; the sweeper of the old name stays armed
                    // until here and removes it.
                    sweeper = self.sweeper();
                }
                Err(error) => {
                    if !error.is_ambiguous() {
                        sweeper.take().into_iter().for_each(Sweeper::disarm);
                    }
                    return Err(error);
                }
            }
            call = self.prepare()?;
            attempt = self.client.start_awaited(&call);
        }
    }

    /// What to do after a failed attempt.
    async fn judge(
        &mut self,
        error: Error,
        attempts: &mut Attempts,
        parent_rounds: &mut u32,
    ) -> Result<Verdict, Error> {
        match error.kind() {
            ErrorKind::Server(ErrorCode::NoNode)
                if self.parents != Parents::Required && *parent_rounds < PARENT_ROUNDS =>
            {
                *parent_rounds += 1;
                self.make_parents(attempts).await?;
                Ok(Verdict::Again)
            }
            ErrorKind::Server(ErrorCode::NodeExists) => self.present(error, attempts).await,
            ErrorKind::Server(ErrorCode::Unimplemented) if self.has_plain_form() => {
                self.client.shared.plain_create.store(true, Ordering::Relaxed);
                Ok(Verdict::Again)
            }
            ErrorKind::Ambiguous(_) if self.protection.is_some() => {
                attempts.after(error, Repeat::Always).await?;
                self.search(attempts).await
            }
            _ => {
                let repeat = match self.if_present {
                    IfPresent::Fail => Repeat::IfNotSent,
                    // A counter makes every create a new node: repeating is never the same as once.
                    IfPresent::Compare | IfPresent::Set(_) if self.naming == Naming::Sequential => {
                        Repeat::IfNotSent
                    }
                    IfPresent::Compare | IfPresent::Set(_) => Repeat::Always,
                };
                attempts.after(error, repeat).await?;
                Ok(Verdict::Again)
            }
        }
    }

    /// Whether create2 was asked for, which servers before 3.5 do not know.
    fn has_plain_form(&self) -> bool {
        let plain = self.client.shared.plain_create.load(Ordering::Relaxed);
        !plain && matches!(self.lifetime, Lifetime::Persistent | Lifetime::Ephemeral)
    }

    async fn make_parents(&self, attempts: &mut Attempts) -> Result<(), Error> {
        let full = self.client.full_path(&self.path);
        let Some(parent) = path::parent(&full).filter(|parent| *parent != "/") else { return Ok(()) };
        let lifetime = match self.parents {
            Parents::Containers => Lifetime::Container,
            Parents::Persistent | Parents::Required => Lifetime::Persistent,
        };
        let outside = Client { root: "".into(), acl: self.parents_acl.clone(), ..self.client.clone() };
        loop {
            match outside.make_path(parent, lifetime).await {
                Ok(()) => return Ok(()),
                Err(error) => attempts.after(error, Repeat::Always).await?,
            }
        }
    }

    /// The node is there already.
    async fn present(&mut self, error: Error, attempts: &mut Attempts) -> Result<Verdict, Error> {
        let named = self.named();
        loop {
            let result = match self.if_present {
                IfPresent::Fail => return Err(error),
                IfPresent::Compare => {
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
                IfPresent::Set(version) => {
                    let data = self.content.bytes();
                    let set = self.client.set(&named, data).version(version).compression(Compression::None);
                    set.retry(Retry::Never).await
                }
            };
            match result {
                Ok(stat) => return Ok(Verdict::Done(self.created(named, stat, Proof::Found))),
                // It has gone in between: create it after all.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(Verdict::Again),
                Err(error) => attempts.after(error, Repeat::Always).await?,
            }
        }
    }

    /// Looks for the node of a protected create whose answer was lost.
    async fn search(&mut self, attempts: &mut Attempts) -> Result<Verdict, Error> {
        let Some(protection) = &self.protection else { return Ok(Verdict::Again) };
        let prefix = protection.prefix();
        let parent = path::parent(&self.path).unwrap_or("/").to_owned();
        loop {
            match self.look(&parent, &prefix).await {
                Ok(verdict) => {
                    attempts.resolved();
                    return Ok(verdict);
                }
                Err(error) => attempts.after_search(error).await?,
            }
        }
    }

    async fn look(&mut self, parent: &str, prefix: &str) -> Result<Verdict, Error> {
        let found = self.client.find_protected(parent, prefix).await?;
        let Some(name) = found.first() else { return Ok(Verdict::Again) };
        let path = path::join(parent, name);
        let Some(stat) = self.client.exists(&path).retry(Retry::Never).await? else {
            return Ok(Verdict::Again);
        };
        if self.lifetime == Lifetime::Ephemeral && stat.ephemeral_owner != self.client.session().id.0 {
            // It goes with the session that made it. A new name, so that the two are never confused.
            self.client.clean_up(Chore::Delete(self.client.full_path(&path)));
            self.protection = Some(Protection::new(self.client.shared.random(), self.client.shared.random()));
            return Ok(Verdict::Renamed);
        }
        Ok(Verdict::Done(self.created(path, stat, Proof::Found)))
    }

    fn created(&self, path: String, stat: Stat, proof: Proof) -> Created {
        let sequence = match self.naming {
            Naming::Exact => None,
            Naming::Sequential => sequence_of(&path, &self.named()),
        };
        Created { path, stat, sequence, proof }
    }

    /// The answer of the server, as the caller sees it.
    async fn read(&self, call: &Call, answer: &Answer) -> Result<Created, Error> {
        if call.op != CreateOp::Create.op_code() {
            let response = call.decode(answer, Create2Response::decode)?;
            let path = response.path.unwrap_or_default();
            let path = path::without_root(&self.client.root, &path).to_owned();
            return Ok(self.created(path, response.stat, Proof::Answered));
        }
        // A server before 3.5 answers the path alone.
        let full = call.decode(answer, Box::<str>::decode)?;
        let path = path::without_root(&self.client.root, &full).to_owned();
        let exists = Call::new(OPERATION, &self.path, OpCode::Exists)
            .body(|out| put_path_and_watch(&full, false, out));
        let mut attempts = self.client.attempts(self.retry.clone());
        loop {
            match self.client.once(&exists).await {
                Ok(answer) => {
                    let stat = exists.decode(&answer, Jute::decode)?;
                    return Ok(self.created(path, stat, Proof::Answered));
                }
                Err(error) => attempts.after(error, Repeat::Always).await?,
            }
        }
    }
}
