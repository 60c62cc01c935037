//! `stat`: the bookkeeping of a node.

use zebu_client::ErrorCode;

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::{Given, switch};
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;
use crate::shell::watches::ShellWatchKind;

pub(crate) const ENTRY: Entry = Entry {
    name: "stat",
    syntax: "[-w] path",
    about: "Shows the bookkeeping of a node",
    examples: &["stat /config", "stat -w /not-there-yet", "stat --json /config"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[switch("w", "Watch for changes on the znode")],
    parse,
};

struct Stat {
    path: String,
    watch: bool,
    old_form: bool,
}

fn parse(given: &Given) -> Parsed {
    let path = given.word(0).ok_or(Failure::Usage)?.to_owned();
    let old_form = given.words.len() > 1;
    Ok(Box::new(Stat { path, watch: given.has("w") || old_form, old_form }))
}

impl Command for Stat {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            if self.old_form {
                session.note("'stat path [watch]' has been deprecated. Please use 'stat [-w] path' instead.");
            }
            paths::check(&self.path)?;
            let client = session.client()?;
            let stat = if self.watch {
                let (stat, watcher) = client.exists(&self.path).watched().await?;
                // A node that is not there is watched too.
                session.watches.keep(ShellWatchKind::Exists, &self.path, watcher);
                stat
            } else {
                client.exists(&self.path).await?
            };
            let missing = || Failure::refused(ErrorCode::NoNode, &self.path);
            Ok(Reply::Stat { path: self.path.clone(), stat: stat.ok_or_else(missing)? })
        })
    }
}
