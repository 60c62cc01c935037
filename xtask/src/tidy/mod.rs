//! `tidy`: the rules of the house that no compiler checks. Each rule is one file; this one joins them.
//! Every violation names the file, the line, what is wrong and why it matters.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::changelog;
use crate::step::project_root;

mod book;
mod count_ratchet;
mod dependencies;
mod direction;
mod language;
mod length;
pub(crate) mod links;
pub(crate) mod metadata;
mod opening;
mod paths;
mod purity;
mod source;
mod type_names;
mod wildcards;
mod words;

use source::{Role, SourceFile};

const OUTDATED: &str = "what is never reached has to be looked at when it changes; cargo xtask error-arms";

const MISFIT: &str =
    "what the simulator finds is known only while every bug can be put back; cargo xtask mutants";

const CHANGELOG_FORM: &str = "readers and packages need each version's changes; CHANGELOG.md names the form";

/// One broken rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// File below the project's top, with `:line` if the rule is about a line.
    place: String,
    what: String,
    why: &'static str,
}

impl Violation {
    fn new(place: impl Into<String>, what: impl Into<String>, why: &'static str) -> Violation {
        Violation { place: place.into(), what: what.into(), why }
    }

    fn at(file: &SourceFile, line: usize, what: impl Into<String>, why: &'static str) -> Violation {
        Violation::new(format!("{}:{line}", file.path), what, why)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {} ({})", self.place, self.what, self.why)
    }
}

/// Runs every rule; an error if any is broken.
pub(crate) fn run() -> anyhow::Result<()> {
    let root = project_root();
    let texts = read_texts(&root)?;
    let sources = rust_sources(&texts);
    let metadata = metadata::ask_cargo()?;
    let crates = metadata::read(&metadata)?;

    let mut violations = direction::check(&crates);
    for flaw in crate::publish::manifest::check(&metadata)? {
        violations.push(Violation::new(format!("{} (Cargo.toml)", flaw.package), flaw.what, flaw.why));
    }
    violations.extend(dependencies::check(&crates));
    violations.extend(changelog_violations(&texts));
    violations.extend(type_names::check(&sources));
    violations.extend(length::check(&sources, &ratchet(&root, length::RATCHET_FILE)?));
    violations.extend(language::check(&texts, &ratchet(&root, language::RATCHET_FILE)?));
    violations.extend(wildcards::check(&sources, &ratchet(&root, wildcards::RATCHET_FILE)?));
    for file in &sources {
        violations.extend(opening::check(file));
        violations.extend(purity::check(file));
        violations.extend(words::check(file));
    }
    for (path, text) in &texts {
        violations.extend(words::check_machine_paths(path, text));
    }
    violations.extend(links::check(&texts));
    violations.extend(book::check_summary(&texts));
    violations.extend(book::check_translations(&texts));
    violations.extend(book::check_generated(&texts, &crate::docs::generate(&root)?));
    for outdated in crate::error_arms::outdated()? {
        violations.push(Violation::new(outdated, "the reason has lost its error path", OUTDATED));
    }
    for misfit in crate::mutants::outdated()? {
        violations.push(Violation::new(misfit, "the patch does not fit the code as it is", MISFIT));
    }
    for violation in &violations {
        println!("{violation}");
    }
    if !violations.is_empty() {
        bail!("tidy: {} violations", violations.len());
    }
    println!(
        "tidy: {} crates, {} Rust files, {} texts: nothing to say",
        crates.len(),
        sources.len(),
        texts.len()
    );
    Ok(())
}

/// Rewrites the ratchets with lower numbers and fewer lines; never with higher ones.
pub(crate) fn lower_ratchets() -> anyhow::Result<()> {
    let root = project_root();
    let texts = read_texts(&root)?;
    let lengths = ratchet(&root, length::RATCHET_FILE)?;
    let sources = rust_sources(&texts);
    lower(&root, length::RATCHET_FILE, &lengths, length::lowered(&sources, &lengths))?;
    let wildcards = ratchet(&root, wildcards::RATCHET_FILE)?;
    lower(&root, wildcards::RATCHET_FILE, &wildcards, wildcards::lowered(&sources, &wildcards))?;
    let language = ratchet(&root, language::RATCHET_FILE)?;
    lower(&root, language::RATCHET_FILE, &language, language::lowered(&texts, &language))
}

fn changelog_violations(texts: &[(String, String)]) -> Vec<Violation> {
    let text = texts.iter().find(|(path, _)| path == changelog::FILE).map_or("", |(_, text)| text.as_str());
    let flaws = changelog::flaws(text, env!("CARGO_PKG_VERSION"));
    let place = |line: usize| format!("{}:{line}", changelog::FILE);
    flaws.into_iter().map(|(line, what)| Violation::new(place(line), what, CHANGELOG_FORM)).collect()
}

fn lower(root: &Path, file: &str, old: &str, new: String) -> anyhow::Result<()> {
    if new != old {
        fs::write(root.join(file), &new).with_context(|| format!("cannot write {file}"))?;
        println!("lowered {file}");
    }
    Ok(())
}

fn ratchet(root: &Path, file: &str) -> anyhow::Result<String> {
    let path = root.join(file);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn rust_sources(texts: &[(String, String)]) -> Vec<SourceFile> {
    let mut sources: Vec<SourceFile> = texts
        .iter()
        .filter(|(path, _)| path.ends_with(".rs"))
        .map(|(path, text)| SourceFile::new(path, text))
        .collect();
    let test_modules: Vec<String> = sources.iter().flat_map(SourceFile::test_module_files).collect();
    for file in &mut sources {
        let below_test_module = test_modules.iter().any(|module| {
            file.path == *module || file.path.starts_with(&format!("{}/", module.trim_end_matches(".rs")))
        });
        if below_test_module {
            file.role = Role::Test;
        }
    }
    sources
}

/// Every text of the project: paths below the top, with `/`, in a stable order. Binary files are left out.
fn read_texts(root: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let entries =
            fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))?;
        for entry in entries {
            let path: PathBuf = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_symlink() || paths::is_generated(&name) {
                continue;
            }
            if path.is_dir() {
                directories.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let below = path.strip_prefix(root).context("a path outside of the project")?;
                texts.push((below.to_string_lossy().replace('\\', "/"), text));
            }
        }
    }
    texts.sort();
    Ok(texts)
}
