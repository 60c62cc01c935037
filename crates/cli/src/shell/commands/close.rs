//! `close`: ends the session, not the shell.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::flags::Given;
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "close",
    syntax: "",
    about: "Ends the session; its ephemeral nodes go",
    examples: &["close"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[],
    parse,
};

struct Close;

fn parse(_: &Given) -> Parsed {
    Ok(Box::new(Close))
}

impl Command for Close {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            session.disconnect().await;
            Ok(Reply::Done)
        })
    }
}
