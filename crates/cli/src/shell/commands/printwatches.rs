//! `printwatches`: whether watch events are shown.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::flags::Given;
use crate::shell::reply::Reply;
use crate::shell::session::{Events, Session};

pub(crate) const ENTRY: Entry = Entry {
    name: "printwatches",
    syntax: "on|off",
    about: "Shows watch events or not",
    examples: &["printwatches", "printwatches off"],
    origin: Origin::ZkCli,
    needs_session: false,
    flags: &[],
    parse,
};

struct PrintWatches {
    choice: Option<Events>,
}

fn parse(given: &Given) -> Parsed {
    let choice = given.word(0).map(|word| if word == "on" { Events::Shown } else { Events::Hidden });
    Ok(Box::new(PrintWatches { choice }))
}

impl Command for PrintWatches {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            if let Some(choice) = self.choice {
                session.events = choice;
                return Ok(Reply::Done);
            }
            let word = if session.events == Events::Shown { "on" } else { "off" };
            Ok(Reply::Line(format!("printwatches is {word}")))
        })
    }
}
