//! `redo`: a command of the history once more.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::Given;
use crate::shell::reply::Reply;
use crate::shell::session::Session;
use crate::shell::words;

pub(crate) const ENTRY: Entry = Entry {
    name: "redo",
    syntax: "cmdno",
    about: "Runs a command of the history again",
    examples: &["redo 3"],
    origin: Origin::ZkCli,
    needs_session: false,
    flags: &[],
    parse,
};

struct Redo {
    number: usize,
}

fn parse(given: &Given) -> Parsed {
    let text = given.word(0).ok_or(Failure::Usage)?;
    let number = text.parse().map_err(|_| Failure::text(format!("a command has a number, not {text:?}")))?;
    Ok(Box::new(Redo { number }))
}

impl Command for Redo {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            let line = session.history.get(self.number);
            let line = line.ok_or_else(|| Failure::on_out("Command index out of range"))?;
            if words::split(line).first().is_some_and(|name| name == ENTRY.name) {
                return Err(Failure::on_out("No redoing redos"));
            }
            Ok(Reply::Again(line.to_owned()))
        })
    }
}
