//! `history`: the last commands with their numbers.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::flags::Given;
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "history",
    syntax: "",
    about: "Lists the last commands with their numbers",
    examples: &["history"],
    origin: Origin::ZkCli,
    needs_session: false,
    flags: &[],
    parse,
};

struct History;

fn parse(_: &Given) -> Parsed {
    Ok(Box::new(History))
}

impl Command for History {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move { Ok(Reply::History(session.history.recent())) })
    }
}
