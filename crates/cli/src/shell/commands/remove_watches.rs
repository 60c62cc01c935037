//! `removewatches`: takes back the watches of this session on a node.

use zebu_client::ErrorCode;

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::{Given, switch};
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;
use crate::shell::watches::ShellWatchKind;

pub(crate) const ENTRY: Entry = Entry {
    name: "removewatches",
    syntax: "path [-c|-d|-a] [-l]",
    about: "Takes back the watches of this session on a node",
    examples: &["removewatches /config", "removewatches /apps -c"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[
        switch("c", "Watches for children"),
        switch("d", "Watches for data"),
        switch("p", "Persistent watches"),
        switch("r", "Persistent recursive watches"),
        switch("a", "All of them"),
        switch("l", "Also if no server can be reached"),
    ],
    parse,
};

struct RemoveWatches {
    path: String,
    kinds: &'static [ShellWatchKind],
}

fn parse(given: &Given) -> Parsed {
    let path = given.word(0).ok_or(Failure::Usage)?.to_owned();
    let kinds: &'static [ShellWatchKind] = match given.one_of(&["c", "d", "p", "r", "a"])? {
        Some("c") => &[ShellWatchKind::Children],
        Some("d") => &[ShellWatchKind::Data, ShellWatchKind::Exists],
        Some("p") => &[ShellWatchKind::Node],
        Some("r") => &[ShellWatchKind::Tree],
        Some(_) | None => &[
            ShellWatchKind::Children,
            ShellWatchKind::Data,
            ShellWatchKind::Exists,
            ShellWatchKind::Node,
            ShellWatchKind::Tree,
        ],
    };
    Ok(Box::new(RemoveWatches { path, kinds }))
}

impl Command for RemoveWatches {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            paths::check(&self.path)?;
            match session.watches.remove(&self.path, self.kinds) {
                true => Ok(Reply::Done),
                false => Err(Failure::refused(ErrorCode::NoWatcher, &self.path)),
            }
        })
    }
}
