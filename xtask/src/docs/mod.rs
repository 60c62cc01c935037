//! `docs`: files of the book that a program writes. Pictures come from texts in `docs/pictures`, references
//! from the code. `tidy` compares the files with what this module would write.

mod book;
mod boxes;
mod canvas;
mod keys;
mod recording;
mod sequence;
mod words;
mod znodes;

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::Args;

use crate::step::project_root;

/// Where the sources of pictures are.
const PICTURES: &str = "docs/pictures/";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Record docs/pictures/*.recording too, with this build of zebu
    #[arg(long, value_name = "ZEBU")]
    record: Option<std::path::PathBuf>,
    /// Build the book with mdbook too; SKIPPED without the pinned version (MDBOOK names the program)
    #[arg(long)]
    book: bool,
}

/// A file that this module writes.
pub(crate) struct Generated {
    /// Below the top of the project.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Writes all files.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = project_root();
    let mut files = generate(&root)?;
    if let Some(zebu) = &arguments.record {
        let zebu = zebu.canonicalize().with_context(|| format!("no program {}", zebu.display()))?;
        files.extend(recording::record_all(&root, &zebu)?);
    }
    for Generated { path, text } in files {
        let target = root.join(&path);
        if fs::read_to_string(&target).ok().as_deref() != Some(&text) {
            fs::write(&target, text).with_context(|| format!("cannot write {path}"))?;
            println!("wrote {path}");
        }
    }
    if arguments.book { book::build(&root) } else { Ok(()) }
}

/// What the files should hold, except for recordings.
pub(crate) fn generate(root: &Path) -> anyhow::Result<Vec<Generated>> {
    let read = |path: &str| -> anyhow::Result<String> {
        fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
    };
    let mut files = Vec::new();
    for path in list(root, PICTURES)? {
        let Some((stem, kind)) = path.rsplit_once('.') else { continue };
        let draw = match kind {
            "boxes" => boxes::draw,
            "sequence" => sequence::draw,
            "znodes" => znodes::draw,
            _ => continue,
        };
        let text = draw(&read(&path)?).with_context(|| path.clone())?;
        files.push(Generated { path: format!("{stem}.svg"), text });
    }
    let reference = |name: &str, text: String| Generated { path: format!("docs/reference/{name}.md"), text };
    files.push(reference("keys", keys::page(&read)?));
    files.push(reference("four-letter-words", words::four_letter_words(&read)?));
    files.push(reference("error-codes", words::error_codes(&read)?));
    let commands = list(root, "crates/cli/src/commands/")?;
    files.push(reference("exit-statuses", words::exit_statuses(&commands, &read)?));
    Ok(files)
}

/// The files below a directory, sorted.
fn list(root: &Path, directory: &str) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(root.join(directory)).with_context(|| format!("cannot list {directory}"))?;
    for entry in entries {
        let entry = entry?;
        let path = format!("{directory}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            found.extend(list(root, &format!("{path}/"))?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
