//! `deleteall`: removes a node and all below it, from the leaves upwards, in batches that are all or nothing.
//! `rmr` is its older name.

use std::collections::VecDeque;

use zebu_client::{Client, Error, ErrorCode, Version};

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::{Given, value};
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;
use crate::shell::subtree::spinner;
use crate::shell::walk::{self, Depth};

/// Nodes of one batch, if nothing else is said.
const DEFAULT_BATCH: usize = 1000;
/// Bytes of paths in one batch: a request has a limit.
const BATCH_BYTES: usize = 512 << 10;
/// Batches on their way at once.
const IN_FLIGHT: usize = 10;

pub(crate) const ENTRY: Entry = Entry {
    name: "deleteall",
    syntax: "path [-b batch size]",
    about: "Removes a node and all below it",
    examples: &["deleteall /old", "deleteall /old -b 100", "deleteall /old -b 0"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[value("b", "Nodes that are deleted in one step; 0 is one by one")],
    parse: |given| parse(given, Name::Deleteall),
};

pub(crate) const OLD_NAME: Entry = Entry {
    name: "rmr",
    syntax: "path",
    about: "Removes a node and all below it; the older name of deleteall",
    examples: &["rmr /old"],
    origin: Origin::Unlisted,
    flags: &[],
    parse: |given| parse(given, Name::Rmr),
    ..ENTRY
};

/// The name that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Deleteall,
    Rmr,
}

struct DeleteAll {
    path: String,
    /// Nodes of one batch; `None` if nothing is said.
    batch: Option<usize>,
    name: Name,
}

fn parse(given: &Given, name: Name) -> Parsed {
    let path = given.word(0).ok_or(Failure::Usage)?.to_owned();
    let batch = match given.value("b") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            Failure::text(format!("the batch size is a number, not {text:?}; nothing was deleted"))
        })?),
    };
    Ok(Box::new(DeleteAll { path, batch, name }))
}

impl Command for DeleteAll {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            if self.name == Name::Rmr {
                session.note("The command 'rmr' has been deprecated. Please use 'deleteall' instead.");
            }
            paths::check(&self.path)?;
            let client = session.client()?;
            if self.batch.is_none() && client.deletes_subtrees().await? {
                return self.delete_on_server(&client).await;
            }
            let mut nodes = walk::list(&client, &self.path, Depth::All).await?.depth_first();
            // Children follow their parents: backwards, no node is met before what is below it.
            nodes.reverse();
            let deleted = match self.batch {
                Some(0) => one_by_one(&client, &nodes).await,
                None => in_batches(&client, &nodes, DEFAULT_BATCH).await,
                Some(size) => in_batches(&client, &nodes, size).await,
            };
            match deleted {
                Ok(()) => Ok(Reply::Deleted(self.path.clone())),
                Err(error) if self.batch == Some(0) => Err(error.into()),
                Err(_) => Err(Failure::text("Failed to delete some node(s) in the subtree!")),
            }
        })
    }
}

impl DeleteAll {
    /// The server finds the nodes below: a list of them may be longer than a packet.
    async fn delete_on_server(&self, client: &Client) -> Result<Reply, Failure> {
        let bar = spinner("deleted");
        let shown = bar.clone();
        let delete = client.delete(&self.path).recursive().on_progress(move |nodes| shown.inc(nodes));
        let deleted = delete.await;
        bar.finish_and_clear();
        match deleted {
            Ok(()) => Ok(Reply::Deleted(self.path.clone())),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Err(error.into()),
            Err(_) => Err(Failure::text("Failed to delete some node(s) in the subtree!")),
        }
    }
}

async fn one_by_one(client: &Client, nodes: &[String]) -> Result<(), Error> {
    for node in nodes {
        // Another client may have deleted the node since it was listed.
        client.delete(node).quiet().await?;
    }
    Ok(())
}

async fn in_batches(client: &Client, nodes: &[String], size: usize) -> Result<(), Error> {
    let mut waiting = VecDeque::new();
    let mut result = Ok(());
    let mut rest = nodes;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(size).take_while(|node| {
            bytes += node.len() + 32;
            bytes <= BATCH_BYTES
        });
        let (batch, after) = rest.split_at(fits.count().max(1));
        rest = after;
        if waiting.len() == IN_FLIGHT
            && let Some((batch, sent)) = waiting.pop_front()
        {
            result = result.and(finish(client, batch, sent).await);
        }
        let mut transaction = client.transaction();
        for node in batch {
            transaction.delete(node, Version::Any);
        }
        waiting.push_back((batch, transaction.send()));
    }
    for (batch, sent) in waiting {
        result = result.and(finish(client, batch, sent).await);
    }
    result
}

/// The end of a batch. If one of its nodes is gone already the others still have to go.
async fn finish<R>(
    client: &Client,
    batch: &[String],
    sent: impl Future<Output = Result<R, Error>>,
) -> Result<(), Error> {
    match sent.await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(ErrorCode::NoNode) => one_by_one(client, batch).await,
        Err(error) => Err(error),
    }
}
