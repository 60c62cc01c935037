//! `export`: a subtree into a file, with data and ACLs.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::{Failure, Stream};
use crate::shell::flags::Given;
use crate::shell::invocation::Form;
use crate::shell::paths;
use crate::shell::reply::{Reply, Tally};
use crate::shell::session::Session;
use crate::shell::subtree::{self, Reach, ZooKeeperNode};
use crate::shell::subtree_file;

pub(crate) const ENTRY: Entry = Entry {
    name: "export",
    syntax: "path file",
    about: "Writes a subtree with data and ACLs into a JSON file; - is standard output",
    examples: &["export /apps apps.json", "export /apps -"],
    origin: Origin::Zebu,
    needs_session: true,
    flags: &[],
    parse,
};

struct Export {
    path: String,
    file: String,
    json: bool,
}

fn parse(given: &Given) -> Parsed {
    let (Some(path), Some(file)) = (given.word(0), given.word(1)) else { return Err(Failure::Usage) };
    Ok(Box::new(Export { path: path.to_owned(), file: file.to_owned(), json: given.has("json") }))
}

impl Command for Export {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            paths::check(&self.path)?;
            let own = ZooKeeperNode::below(&session.connection()?.chroot);
            let (tree, skipped_ephemerals) =
                subtree::read(&session.client()?, &self.path, Reach::Subtree, own).await?;
            let created = tree.nodes.len() as u64;
            let bytes =
                tree.nodes.iter().filter_map(|node| node.data.as_ref()).map(|data| data.len() as u64).sum();
            let text = subtree_file::write(&tree);
            if self.file == "-" {
                let is_json = self.json || session.invocation.form == Form::Json;
                // One object, one line; import reads it all the same.
                let text = if is_json { text.replace('\n', "") } else { text };
                session.screen.line(Stream::Out, text.trim_end());
                return Ok(Reply::Nothing);
            }
            std::fs::write(&self.file, text)
                .map_err(|error| Failure::text(format!("cannot write {}: {error}", self.file)))?;
            Ok(Reply::Tally(Tally { verb: "exported", created, overwritten: 0, skipped_ephemerals, bytes }))
        })
    }
}
