//! `getEphemerals`: the ephemeral nodes of this session.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::flags::Given;
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "getEphemerals",
    syntax: "path",
    about: "Lists the ephemeral nodes of this session",
    examples: &["getEphemerals", "getEphemerals /members"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[],
    parse,
};

struct GetEphemerals {
    prefix: String,
}

fn parse(given: &Given) -> Parsed {
    Ok(Box::new(GetEphemerals { prefix: given.word(0).unwrap_or("/").to_owned() }))
}

impl Command for GetEphemerals {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            paths::check(&self.prefix)?;
            Ok(Reply::Ephemerals(session.client()?.ephemerals(&self.prefix).await?))
        })
    }
}
