//! `setAcl`: changes who may do what with a node, or with all nodes of a subtree.

use zebu_client::Version;

use crate::shell::acl;
use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::{Failure, Stream, error_text, java_message};
use crate::shell::flags::{Given, switch, value};
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;
use crate::shell::version::read_version;
use crate::shell::walk::{self, Depth};

pub(crate) const ENTRY: Entry = Entry {
    name: "setAcl",
    syntax: "[-s] [-v version] [-R] path acl",
    about: "Changes the access control list of a node",
    examples: &[
        "setAcl /private auth::cdrwa",
        "setAcl -v 2 /config world:anyone:r,digest:ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM=:cdrwa",
        "setAcl -R /apps world:anyone:cdrwa",
    ],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[
        switch("s", "Print znode stats additionally"),
        value("v", "Set with an expected version of the list"),
        switch("R", "All nodes below, too"),
    ],
    parse,
};

struct SetAcl {
    path: String,
    acl: String,
    version: Version,
    with_stat: bool,
    recursive: bool,
}

fn parse(given: &Given) -> Parsed {
    let (Some(path), Some(acl)) = (given.word(0), given.word(1)) else { return Err(Failure::Usage) };
    Ok(Box::new(SetAcl {
        path: path.to_owned(),
        acl: acl.to_owned(),
        version: read_version(given.value("v"))?,
        with_stat: given.has("s"),
        recursive: given.has("R"),
    }))
}

impl Command for SetAcl {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            let acl = acl::parse(&self.acl);
            if acl.entries.is_empty() {
                return Err(acl.error());
            }
            acl.errors.iter().for_each(|line| session.note(line));
            paths::check(&self.path)?;
            let client = session.client()?;
            if !self.recursive {
                let stat = client.set_acl(&self.path, acl.entries).version(self.version).await?;
                return Ok(Reply::Written { path: self.path.clone(), stat, with_stat: self.with_stat });
            }
            let nodes = walk::list(&client, &self.path, Depth::All).await?.children_then_descent();
            let mut failed = Vec::new();
            for node in nodes {
                if let Err(error) = client.set_acl(&node, acl.entries.clone()).version(self.version).await {
                    let general = error.code().map(|code| java_message(code, Some(&node)));
                    let text = general.unwrap_or_else(|| error_text(&error, Some(&node)));
                    failed.push((Stream::Out, text));
                }
            }
            if failed.is_empty() { Ok(Reply::Done) } else { Err(Failure::Said(failed)) }
        })
    }
}
