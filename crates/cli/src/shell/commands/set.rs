//! `set`: replaces the data of a node. A version that is given is checked, in the older form too.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zebu_client::Version;

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::{Given, switch, value};
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;
use crate::shell::version::read_version;

pub(crate) const ENTRY: Entry = Entry {
    name: "set",
    syntax: "path data [-s] [-v version] [-b]",
    about: "Replaces the data of a node",
    examples: &["set /config v2", "set -s -v 3 /config v4", "set /config v5 4", "set -b /blob aGVsbG8="],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[
        switch("b", "Supply data in base64 format"),
        switch("s", "Print znode stats additionally"),
        value("v", "Set with an expected version"),
    ],
    parse,
};

struct Set {
    path: String,
    data: Vec<u8>,
    version: Version,
    with_stat: bool,
}

fn parse(given: &Given) -> Parsed {
    let (Some(path), Some(text)) = (given.word(0), given.word(1)) else { return Err(Failure::Usage) };
    let data = match given.has("b") {
        false => text.as_bytes().to_vec(),
        true => STANDARD
            .decode(text)
            .map_err(|error| Failure::text(format!("the data is not base64: {error}")))?,
    };
    let version = read_version(given.value("v").or(given.word(2)))?;
    Ok(Box::new(Set { path: path.to_owned(), data, version, with_stat: given.has("s") }))
}

impl Command for Set {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            paths::check(&self.path)?;
            let client = session.client()?;
            let stat = client.set(&self.path, self.data.clone()).version(self.version).await?;
            Ok(Reply::Written { path: self.path.clone(), stat, with_stat: self.with_stat })
        })
    }
}
