//! `get`: the data of a node.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::{Given, own_switch, switch};
use crate::shell::paths;
use crate::shell::reply::{Reply, Spelling};
use crate::shell::session::Session;
use crate::shell::watches::ShellWatchKind;

pub(crate) const ENTRY: Entry = Entry {
    name: "get",
    // The usage line of zkCli, which scripts may compare.
    syntax: "[-s] [-w] [-b] [-x] path",
    about: "Reads the data of a node",
    examples: &[
        "get /config",
        "get -s /config",
        "get -x /blob",
        "get -w /config",
        "get -l /config",
        "get --json /config",
    ],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[
        switch("b", "Output data in base64 format"),
        own_switch("l", "Linearizable: show everything that was answered to any client before"),
        switch("s", "Print znode stats additionally"),
        switch("w", "Watch for changes on the znode"),
        switch("x", "Output data in hexdump format"),
    ],
    parse,
};

struct Get {
    path: String,
    with_stat: bool,
    watch: bool,
    linearizable: bool,
    spelling: Spelling,
    old_form: bool,
}

fn parse(given: &Given) -> Parsed {
    let path = given.word(0).ok_or(Failure::Usage)?.to_owned();
    let old_form = given.words.len() > 1;
    let spelling = match (given.has("x"), given.has("b")) {
        (true, _) => Spelling::HexDump,
        (false, true) => Spelling::Base64,
        (false, false) => Spelling::Plain,
    };
    let (with_stat, watch) = (given.has("s"), given.has("w") || old_form);
    let linearizable = given.has("l");
    Ok(Box::new(Get { path, with_stat, watch, linearizable, spelling, old_form }))
}

impl Command for Get {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            if self.old_form {
                session
                    .note("'get path [watch]' has been deprecated. Please use 'get [-s] [-w] path' instead.");
            }
            paths::check(&self.path)?;
            let client = session.client()?;
            let get = client.get(&self.path);
            let get = if self.linearizable { get.linearizable() } else { get };
            let node = if self.watch {
                let (node, watcher) = get.watched().await?;
                session.watches.keep(ShellWatchKind::Data, &self.path, watcher);
                node
            } else {
                get.await?
            };
            Ok(Reply::Data {
                path: self.path.clone(),
                data: (!node.is_null).then(|| node.data.to_vec()),
                stat: node.stat,
                with_stat: self.with_stat,
                spelling: self.spelling,
            })
        })
    }
}
