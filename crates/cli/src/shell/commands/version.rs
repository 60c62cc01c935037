//! `version`: the version of the shell.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::Given;
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "version",
    syntax: "",
    about: "Shows the version of this shell",
    examples: &["version"],
    origin: Origin::ZkCli,
    needs_session: false,
    flags: &[],
    parse,
};

struct Version;

fn parse(given: &Given) -> Parsed {
    if given.words.is_empty() { Ok(Box::new(Version)) } else { Err(Failure::Usage) }
}

impl Command for Version {
    fn run<'a>(&'a self, _: &'a mut Session) -> Running<'a> {
        let line = format!("ZooKeeper CLI version: {}", crate::commands::version::compatible_version());
        Box::pin(async move { Ok(Reply::Line(line)) })
    }
}
