//! `quit` and `exit`: the end, with the status of the command before.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::flags::Given;
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "quit",
    syntax: "",
    about: "Ends the shell",
    examples: &["quit"],
    origin: Origin::ZkCli,
    needs_session: false,
    flags: &[],
    parse,
};

pub(crate) const EXIT: Entry = Entry { name: "exit", examples: &["exit"], origin: Origin::Unlisted, ..ENTRY };

struct Quit;

fn parse(_: &Given) -> Parsed {
    Ok(Box::new(Quit))
}

impl Command for Quit {
    fn run<'a>(&'a self, _: &'a mut Session) -> Running<'a> {
        Box::pin(async { Ok(Reply::Quit) })
    }
}
