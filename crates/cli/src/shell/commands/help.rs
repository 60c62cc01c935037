//! `help`: what commands there are, or all about one.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::Given;
use crate::shell::reply::Reply;
use crate::shell::session::Session;
use crate::shell::table;

pub(crate) const ENTRY: Entry = Entry {
    name: "help",
    syntax: "[command]",
    about: "Explains the commands, or one of them with examples",
    examples: &["help", "help create"],
    origin: Origin::Zebu,
    needs_session: false,
    flags: &[],
    parse,
};

struct Help {
    command: Option<String>,
}

fn parse(given: &Given) -> Parsed {
    Ok(Box::new(Help { command: given.word(0).map(str::to_owned) }))
}

impl Command for Help {
    fn run<'a>(&'a self, _: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            let Some(name) = &self.command else { return Ok(Reply::Line(overview())) };
            let entry = table::find(name);
            let entry =
                entry.ok_or_else(|| Failure::text(format!("there is no command {name}; try help")))?;
            Ok(Reply::Line(entry.help()))
        })
    }
}

/// All commands, one line each.
pub(crate) fn overview() -> String {
    let line = |entry: &Entry| format!("  {:21} {}", entry.name, entry.about);
    let of = |origin| table::sorted().filter(move |entry| entry.origin == origin).map(line);
    let text = |origin| of(origin).collect::<Vec<_>>().join("\n");
    format!(
        "Commands, as in zkCli:\n{}\n\nOlder forms:\n{}\n\nMore:\n{}\n\n\
         help COMMAND explains one of them. Every command takes --json.",
        text(Origin::ZkCli),
        text(Origin::Unlisted),
        text(Origin::Zebu),
    )
}
