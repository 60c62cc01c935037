//! `cargo xtask publish --check`: packs each published crate as `cargo publish` would, and checks the packed
//! files. It needs no network and publishes nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::dist::output;
use crate::step::{self, cargo, target_directory};

pub(crate) mod manifest;

use manifest::PublishedCrate;

/// The limit of crates.io for one packed crate.
const BYTES_MAX: u64 = 10 * 1024 * 1024;

/// The files that each packed crate must have.
const REQUIRED_FILES: [&str; 4] = ["Cargo.toml", "Cargo.toml.orig", "README.md", "LICENSE"];

/// Whether to check only, and whether to compile.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Pack and check; required, because this chore never publishes
    #[arg(long, required = true)]
    check: bool,
    /// Compile each packed crate too, which takes minutes
    #[arg(long)]
    build: bool,
}

impl Arguments {
    /// The check of `verify`, which compiles nothing.
    pub(crate) fn check_only() -> Arguments {
        Arguments { check: true, build: false }
    }
}

/// Checks manifests and packed files.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    ensure!(arguments.check, "nothing is published by this chore; say --check");
    let metadata = crate::tidy::metadata::ask_cargo()?;
    let flaws = manifest::check(&metadata)?;
    for flaw in &flaws {
        println!("{} (Cargo.toml): {} ({})", flaw.package, flaw.what, flaw.why);
    }
    ensure!(flaws.is_empty(), "publish: {} flaws in manifests", flaws.len());
    let crates = manifest::published(&metadata)?;
    pack(&crates, arguments.build)?;
    let packed = target_directory().join("package");
    for package in &crates {
        check_packed(package, &packed)?;
    }
    let without_repository = crates.iter().filter(|package| !package.has_repository).count();
    if without_repository > 0 {
        println!(
            "note: {without_repository} crates name no repository; set workspace.package.repository when the \
             project has a public address"
        );
    }
    println!("publish: {} crates can be published with cargo publish --workspace", crates.len());
    Ok(())
}

/// Cargo resolves crates of the workspace that are not published yet among the packages of the same call.
fn pack(crates: &[PublishedCrate], is_built: bool) -> anyhow::Result<()> {
    let mut words = vec!["package", "--offline", "--allow-dirty", "--quiet"];
    if !is_built {
        words.push("--no-verify");
    }
    for package in crates {
        words.extend(["--package", &package.name]);
    }
    step::run("publish: pack", &mut cargo(&words))
}

fn check_packed(package: &PublishedCrate, directory: &Path) -> anyhow::Result<()> {
    let name = format!("{}-{}", package.name, package.version);
    let file = directory.join(format!("{name}.crate"));
    let bytes = std::fs::metadata(&file).with_context(|| format!("{} was not packed", file.display()))?.len();
    let listed = output(Command::new("tar").arg("--list").arg("--file").arg(&file))?;
    let flaws = listing_flaws(&name, &listed, bytes);
    if !flaws.is_empty() {
        bail!("{}: {}", file.display(), flaws.join(", "));
    }
    println!("{name}.crate: {} files, {} KiB", listed.lines().count(), bytes.div_ceil(1024));
    Ok(())
}

/// What makes crates.io or a compiler refuse a packed crate.
fn listing_flaws(name: &str, listed: &str, bytes: u64) -> Vec<String> {
    let prefix = format!("{name}/");
    let files: BTreeSet<&str> = listed.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
    let mut flaws: Vec<String> = REQUIRED_FILES
        .iter()
        .filter(|required| !files.contains(**required))
        .map(|required| format!("no {required}"))
        .collect();
    if !files.contains("src/lib.rs") && !files.contains("src/main.rs") {
        flaws.push("neither src/lib.rs nor src/main.rs".to_owned());
    }
    if bytes > BYTES_MAX {
        flaws.push(format!("{bytes} bytes, more than the limit of crates.io, {BYTES_MAX}"));
    }
    flaws
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_crate_has_its_files() {
        let whole = "x-0.1.0/Cargo.toml\nx-0.1.0/Cargo.toml.orig\nx-0.1.0/README.md\nx-0.1.0/LICENSE\n\
                     x-0.1.0/src/lib.rs\n";
        assert_eq!(listing_flaws("x-0.1.0", whole, 1), Vec::<String>::new());
        assert_eq!(listing_flaws("x-0.1.0", &whole.replace("README.md", "a.md"), 1), ["no README.md"]);
        assert_eq!(listing_flaws("x-0.1.0", &whole.replace("lib", "other"), 1).len(), 1);
        assert_eq!(listing_flaws("x-0.1.0", whole, BYTES_MAX + 1).len(), 1);
    }
}
