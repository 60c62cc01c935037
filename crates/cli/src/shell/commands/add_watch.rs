//! `addWatch`: a watch that stays, on a node or on a whole subtree.

use zebu_client::WatchMode;

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::{Given, value};
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;
use crate::shell::watches::ShellWatchKind;

pub(crate) const ENTRY: Entry = Entry {
    name: "addWatch",
    syntax: "[-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - default is \
             PERSISTENT_RECURSIVE",
    about: "Watches a node, or it and all below it, until the watch is removed",
    examples: &["addWatch /apps", "addWatch -m PERSISTENT /config"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[value("m", "PERSISTENT or PERSISTENT_RECURSIVE")],
    parse,
};

struct AddWatch {
    path: String,
    mode: WatchMode,
}

fn parse(given: &Given) -> Parsed {
    let path = given.word(0).filter(|_| given.words.len() == 1).ok_or(Failure::Usage)?.to_owned();
    let mode = match given.value("m").map(str::to_uppercase).as_deref() {
        None | Some("PERSISTENT_RECURSIVE") => WatchMode::Tree,
        Some("PERSISTENT") => WatchMode::Node,
        Some(_) => return Err(Failure::Usage),
    };
    Ok(Box::new(AddWatch { path, mode }))
}

impl Command for AddWatch {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            paths::check(&self.path)?;
            let stream = session.client()?.watch(&self.path, self.mode).await?;
            let kind = match self.mode {
                WatchMode::Node => ShellWatchKind::Node,
                WatchMode::Tree => ShellWatchKind::Tree,
            };
            session.watches.keep_stream(kind, &self.path, stream);
            Ok(Reply::Done)
        })
    }
}
