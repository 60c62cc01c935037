//! `getAllChildrenNumber`: how many nodes are below a node.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::Given;
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "getAllChildrenNumber",
    syntax: "path",
    about: "Counts the nodes below a node, at all depths",
    examples: &["getAllChildrenNumber /apps"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[],
    parse,
};

struct GetAllChildrenNumber {
    path: String,
}

fn parse(given: &Given) -> Parsed {
    Ok(Box::new(GetAllChildrenNumber { path: given.word(0).ok_or(Failure::Usage)?.to_owned() }))
}

impl Command for GetAllChildrenNumber {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            paths::check(&self.path)?;
            let number = session.client()?.count_descendants(&self.path).await?;
            Ok(Reply::Count { path: self.path.clone(), number })
        })
    }
}
