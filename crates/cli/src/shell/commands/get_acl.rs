//! `getAcl`: who may do what with a node.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::{Given, switch};
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "getAcl",
    syntax: "[-s] path",
    about: "Shows the access control list of a node",
    examples: &["getAcl /private", "getAcl -s /private"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[switch("s", "Print znode stats additionally")],
    parse,
};

struct GetAcl {
    path: String,
    with_stat: bool,
}

fn parse(given: &Given) -> Parsed {
    let path = given.word(0).ok_or(Failure::Usage)?.to_owned();
    Ok(Box::new(GetAcl { path, with_stat: given.has("s") }))
}

impl Command for GetAcl {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            paths::check(&self.path)?;
            let list = session.client()?.get_acl(&self.path).await?;
            let stat = self.with_stat.then_some(list.stat);
            Ok(Reply::Acl { path: self.path.clone(), entries: list.entries, stat })
        })
    }
}
