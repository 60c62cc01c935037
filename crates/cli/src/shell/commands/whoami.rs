//! `whoami`: the credentials of the session.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::flags::Given;
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "whoami",
    syntax: "",
    about: "Shows the credentials of the session",
    examples: &["whoami", "whoami --json"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[],
    parse,
};

struct WhoAmI;

fn parse(_: &Given) -> Parsed {
    Ok(Box::new(WhoAmI))
}

impl Command for WhoAmI {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move { Ok(Reply::Identities(session.client()?.who_am_i().await?)) })
    }
}
