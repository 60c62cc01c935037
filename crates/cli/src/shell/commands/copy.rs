//! `cp`: a node, or a subtree, to another path.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::{Given, switch};
use crate::shell::paths;
use crate::shell::reply::{Reply, Tally};
use crate::shell::session::Session;
use crate::shell::subtree::{self, Reach, ZooKeeperNode};
use crate::shell::subtree_writer::{Existing, Warnings, write};

pub(crate) const ENTRY: Entry = Entry {
    name: "cp",
    syntax: "[-r] [-f] source target",
    about: "Copies a node, or with -r all below it too, with data and ACLs",
    examples: &["cp /config /config.old", "cp -r /apps/shop /apps/shop2", "cp -rf /defaults /apps/shop"],
    origin: Origin::Zebu,
    needs_session: true,
    flags: &[switch("r", "With all below it"), switch("f", "Overwrite nodes that are there already")],
    parse,
};

struct Copy {
    source: String,
    target: String,
    reach: Reach,
    existing: Existing,
}

fn parse(given: &Given) -> Parsed {
    let (Some(source), Some(target)) = (given.word(0), given.word(1)) else { return Err(Failure::Usage) };
    Ok(Box::new(Copy {
        source: source.to_owned(),
        target: target.to_owned(),
        reach: if given.has("r") { Reach::Subtree } else { Reach::Node },
        existing: if given.has("f") { Existing::Overwrite } else { Existing::Refuse },
    }))
}

impl Command for Copy {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            paths::check(&self.source)?;
            paths::check(&self.target)?;
            let client = session.client()?;
            // It is read as a whole first: a copy below itself does not meet what it has just made.
            let own = ZooKeeperNode::below(&session.connection()?.chroot);
            let (tree, skipped_ephemerals) = subtree::read(&client, &self.source, self.reach, own).await?;
            let written = write(&client, &tree, &self.target, self.existing, false).await?;
            let (tally, Warnings(warnings)) = written;
            warnings.iter().for_each(|warning| session.note(format!("warning: {warning}")));
            Ok(Reply::Tally(Tally { verb: "copied", skipped_ephemerals, ..tally }))
        })
    }
}
