//! `listquota`: the limits of a node and what it uses.

use zebu_client::{ErrorCode, path};

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::Given;
use crate::shell::paths;
use crate::shell::quota::{LIMITS, Limits, ROOT, USAGE};
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "listquota",
    syntax: "path",
    about: "Shows the quota of a node and what is used of it",
    examples: &["listquota /apps", "listquota --json /apps"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[],
    parse,
};

struct ListQuota {
    path: String,
}

fn parse(given: &Given) -> Parsed {
    Ok(Box::new(ListQuota { path: given.word(0).ok_or(Failure::Usage)?.to_owned() }))
}

impl Command for ListQuota {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            let connection = session.connection()?;
            let home = format!("{ROOT}{}", connection.full_path(&self.path));
            let node = format!("{home}/{LIMITS}");
            session.note(format!("absolute path is {node}"));
            paths::check(&node)?;
            let limits = match connection.outside.get(&node).await {
                Ok(found) => Limits::parse(&found.data),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                    return Err(Failure::text(format!("quota for {} does not exist.", self.path)));
                }
                Err(error) => return Err(error.into()),
            };
            let usage = connection.outside.get(&path::join(&home, USAGE)).await?;
            Ok(Reply::Quota { path: self.path.clone(), limits, usage: Limits::parse(&usage.data) })
        })
    }
}
