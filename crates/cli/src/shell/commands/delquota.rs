//! `delquota`: removes one limit of a node, or its whole quota.

use zebu_client::{Client, Error, ErrorCode, path};

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::{Given, switch};
use crate::shell::paths;
use crate::shell::quota::{LIMITS, Limits, ROOT, USAGE};
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "delquota",
    syntax: "[-n|-b|-N|-B] path",
    about: "Removes the quota of a node, or one of its limits",
    examples: &["delquota /apps", "delquota -b /apps"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[
        switch("n", "Only the soft limit of nodes"),
        switch("b", "Only the soft limit of bytes"),
        switch("N", "Only the hard limit of nodes"),
        switch("B", "Only the hard limit of bytes"),
    ],
    parse,
};

struct DelQuota {
    path: String,
    option: Option<&'static str>,
}

fn parse(given: &Given) -> Parsed {
    let option = given.one_of(&["n", "b", "N", "B"])?;
    Ok(Box::new(DelQuota { path: given.word(0).ok_or(Failure::Usage)?.to_owned(), option }))
}

impl Command for DelQuota {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            let connection = session.connection()?;
            let outside = connection.outside.clone();
            let home = format!("{ROOT}{}", connection.full_path(&self.path));
            let node = format!("{home}/{LIMITS}");
            paths::check(&node)?;
            let mut limits = match outside.get(&node).await {
                Ok(found) => Limits::parse(&found.data),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                    return Err(Failure::on_out(format!("Quota does not exist for {}", self.path)));
                }
                Err(error) => return Err(error.into()),
            };
            match self.option {
                Some(option) => {
                    limits.set(option, -1);
                    outside.set(&node, limits.limits_text()).await?;
                }
                None => remove(&outside, &home).await?,
            }
            Ok(Reply::Done)
        })
    }
}

/// Removes a quota, and what led to it and leads to no other.
async fn remove(outside: &Client, home: &str) -> Result<(), Error> {
    outside.delete(&path::join(home, LIMITS)).quiet().await?;
    outside.delete(&path::join(home, USAGE)).quiet().await?;
    let mut next = Some(home);
    while let Some(node) = next.filter(|node| node.len() > ROOT.len()) {
        match outside.delete(node).quiet().await {
            Err(error) if error.code() == Some(ErrorCode::NotEmpty) => return Ok(()),
            other => other?,
        }
        next = path::parent(node);
    }
    Ok(())
}
