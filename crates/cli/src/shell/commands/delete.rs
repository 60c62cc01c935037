//! `delete`: removes a node without children. A version that is given is checked, in the older form too.

use zebu_client::Version;

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::{Given, value};
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;
use crate::shell::version::read_version;

pub(crate) const ENTRY: Entry = Entry {
    name: "delete",
    syntax: "[-v version] path",
    about: "Removes a node without children",
    examples: &["delete /old", "delete -v 3 /config", "delete /config 3"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[value("v", "Delete with an expected version")],
    parse,
};

struct Delete {
    path: String,
    version: Version,
    old_form: bool,
}

fn parse(given: &Given) -> Parsed {
    let path = given.word(0).ok_or(Failure::Usage)?.to_owned();
    let version = read_version(given.value("v").or(given.word(1)))?;
    Ok(Box::new(Delete { path, version, old_form: given.words.len() > 1 }))
}

impl Command for Delete {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            if self.old_form {
                session.note(
                    "'delete path [version]' has been deprecated. \
                     Please use 'delete [-v version] path' instead.",
                );
            }
            paths::check(&self.path)?;
            session.client()?.delete(&self.path).version(self.version).await?;
            Ok(Reply::Deleted(self.path.clone()))
        })
    }
}
