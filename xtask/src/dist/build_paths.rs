//! The directories of the machine that builds a release: the compilers replace them, and the binary is
//! searched for them. A path in a binary names a user and makes two builds differ.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::step::{project_root, target_directory};

/// A directory and the name that stands for it.
type Replacement = (PathBuf, &'static str);

/// The compilers use the last replacement that fits, so the longer paths stand behind the shorter ones.
pub(super) fn replacements() -> Vec<Replacement> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| home.as_ref().map(|home| home.join(".cargo")));
    let rustup_home = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let rustup_home = rustup_home.or_else(|| home.as_ref().map(|home| home.join(".rustup")));
    let mut found: Vec<Replacement> = vec![(project_root(), "/zebu"), (target_directory(), "/zebu/target")];
    found.extend(cargo_home.map(|path| (path, "/cargo")));
    found.extend(rustup_home.map(|path| (path, "/rustup")));
    found.sort_by_key(|(path, _)| path.as_os_str().len());
    found
}

/// Adds the options to a build: for rustc, and for the C compilers of build scripts.
pub(super) fn apply(command: &mut Command, replacements: &[Replacement]) {
    // An encoded variable takes precedence over the plain one, whose options must not be lost.
    const SEPARATOR: &str = "\u{1f}";
    let mut rust = match std::env::var("CARGO_ENCODED_RUSTFLAGS") {
        Ok(encoded) => encoded.split(SEPARATOR).map(str::to_owned).collect(),
        Err(_) => words("RUSTFLAGS"),
    };
    let mut c = words("CFLAGS");
    for (path, name) in replacements {
        rust.push(format!("--remap-path-prefix={}={name}", path.display()));
        c.push(format!("-ffile-prefix-map={}={name}", path.display()));
    }
    rust.retain(|word| !word.is_empty());
    command.env("CARGO_ENCODED_RUSTFLAGS", rust.join(SEPARATOR)).env("CFLAGS", c.join(" "));
}

fn words(variable: &str) -> Vec<String> {
    std::env::var(variable).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// The directories that a binary names.
pub(super) fn named_in(binary: &Path, replacements: &[Replacement]) -> anyhow::Result<Vec<PathBuf>> {
    let bytes = std::fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
    let named = |path: &&Replacement| {
        let mut wanted: OsString = path.0.clone().into_os_string();
        wanted.push("/");
        contains(&bytes, wanted.as_encoded_bytes())
    };
    Ok(replacements.iter().filter(named).map(|(path, _)| path.clone()).collect())
}

/// Fails if a binary names a directory of this machine.
pub(super) fn ensure_absent(binary: &Path, replacements: &[Replacement]) -> anyhow::Result<()> {
    let named = named_in(binary, replacements)?;
    ensure!(named.is_empty(), "{} names directories of this machine: {named:?}", binary.display());
    Ok(())
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|part| part == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_paths_stand_last() {
        let lengths: Vec<usize> = replacements().iter().map(|(path, _)| path.as_os_str().len()).collect();
        assert!(lengths.is_sorted(), "{lengths:?}");
    }

    #[test]
    fn both_compilers_replace() {
        let mut command = Command::new("cargo");
        apply(&mut command, &[(PathBuf::from("/build/x"), "/zebu")]);
        let value = |name: &str| {
            let found = command.get_envs().find(|(key, _)| *key == name).and_then(|(_, value)| value);
            found.unwrap_or_default().to_string_lossy().into_owned()
        };
        assert!(value("CARGO_ENCODED_RUSTFLAGS").ends_with("--remap-path-prefix=/build/x=/zebu"));
        assert!(value("CFLAGS").ends_with("-ffile-prefix-map=/build/x=/zebu"));
    }

    #[test]
    fn paths_in_a_binary_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let binary = directory.path().join("zebu");
        let paths = [(PathBuf::from("/build/x"), "/zebu")];
        std::fs::write(&binary, b"\0/zebu/a.rs\0/build/xyz\0").unwrap();
        ensure_absent(&binary, &paths).unwrap();
        std::fs::write(&binary, b"\0/build/x/a.rs\0").unwrap();
        assert!(ensure_absent(&binary, &paths).is_err());
    }
}
