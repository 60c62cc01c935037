//! `import`: an exported subtree back into a server, at its old place or another.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::{Given, switch};
use crate::shell::paths;
use crate::shell::reply::{Reply, Tally};
use crate::shell::session::Session;
use crate::shell::subtree_file;
use crate::shell::subtree_writer::{Existing, Warnings, write};

pub(crate) const ENTRY: Entry = Entry {
    name: "import",
    syntax: "[--overwrite] [--dry-run] file [path]",
    about: "Writes an exported subtree to a server, at its old place or at another path; - is standard input",
    examples: &[
        "import apps.json",
        "import -",
        "import apps.json /copy",
        "import --dry-run --overwrite apps.json",
    ],
    origin: Origin::Zebu,
    needs_session: true,
    flags: &[
        switch("overwrite", "Replace data and ACL of nodes that are there already"),
        switch("dry-run", "Only say what would be done"),
    ],
    parse,
};

struct Import {
    file: String,
    target: Option<String>,
    existing: Existing,
    is_dry_run: bool,
}

fn parse(given: &Given) -> Parsed {
    Ok(Box::new(Import {
        file: given.word(0).ok_or(Failure::Usage)?.to_owned(),
        target: given.word(1).map(str::to_owned),
        existing: if given.has("overwrite") { Existing::Overwrite } else { Existing::Refuse },
        is_dry_run: given.has("dry-run"),
    }))
}

impl Command for Import {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            let text = self.read(session)?;
            let tree = subtree_file::read(&text)
                .map_err(|error| Failure::text(format!("{}: {error}", self.file)))?;
            let target = self.target.as_ref().unwrap_or(&tree.root);
            paths::check(target)?;
            let written = write(&session.client()?, &tree, target, self.existing, self.is_dry_run).await;
            let (tally, Warnings(warnings)) = written.map_err(|failure| with_hint(failure, self.existing))?;
            warnings.iter().for_each(|warning| session.note(format!("warning: {warning}")));
            let verb = if self.is_dry_run { "would be imported" } else { "imported" };
            Ok(Reply::Tally(Tally { verb, ..tally }))
        })
    }
}

impl Import {
    /// The text of the file; `-` is standard input, unless the commands come from there.
    fn read(&self, session: &Session) -> Result<String, Failure> {
        if self.file != "-" {
            return std::fs::read_to_string(&self.file)
                .map_err(|error| Failure::text(format!("cannot read {}: {error}", self.file)));
        }
        if session.invocation.command.is_empty() {
            return Err(Failure::text(
                "import - reads standard input, from where the commands come; name a file, or run zebu shell import -",
            ));
        }
        std::io::read_to_string(std::io::stdin())
            .map_err(|error| Failure::text(format!("cannot read standard input: {error}")))
    }
}

fn with_hint(failure: Failure, existing: Existing) -> Failure {
    match (failure, existing) {
        (Failure::Said(mut lines), Existing::Refuse) => {
            for (_, line) in lines.iter_mut().filter(|(_, line)| line.ends_with("nothing was written")) {
                line.push_str(" (--overwrite replaces them)");
            }
            Failure::Said(lines)
        }
        (other, _) => other,
    }
}
