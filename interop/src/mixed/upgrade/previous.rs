//! The binary of the previous release: a given file, or a revision of this repository that is built once and
//! kept in `target/interop/previous`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::apache;

/// A binary or a revision, as an argument names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::mixed) enum Previous {
    Binary(PathBuf),
    Revision(String),
}

impl Previous {
    /// `ZEBU_PREVIOUS` wins over the argument. A text that names a file is a binary.
    pub(in crate::mixed) fn choose(argument: &str) -> Previous {
        let chosen = std::env::var("ZEBU_PREVIOUS").unwrap_or_else(|_| argument.to_owned());
        match Path::new(&chosen).is_file() {
            true => Previous::Binary(chosen.into()),
            false => Previous::Revision(chosen),
        }
    }

    /// The path of the binary, which is built if it is not there yet.
    pub(in crate::mixed) fn binary(&self) -> Result<PathBuf> {
        match self {
            Previous::Binary(path) => Ok(path.canonicalize()?),
            Previous::Revision(revision) => build(revision),
        }
    }
}

fn build(revision: &str) -> Result<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let name = format!("{revision}^{{commit}}");
    let commit = output(Command::new("git").args(["rev-parse", "--verify", &name]).current_dir(&top))
        .with_context(|| {
            format!("revision {revision} is not in this repository; ZEBU_PREVIOUS names a binary")
        })?;
    let home = apache::cache()?.join("previous").join(&commit);
    let binary = home.join("zebu");
    if binary.is_file() {
        return Ok(binary);
    }
    let source = home.join("source");
    fs::create_dir_all(&source)?;
    let packed = home.join("source.tar");
    output(Command::new("git").args(["archive", "--output"]).arg(&packed).arg(&commit).current_dir(&top))?;
    output(Command::new("tar").arg("--extract").arg("--file").arg(&packed).arg("--directory").arg(&source))?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--release", "--locked", "--package", "zebu", "--target-dir"])
        .arg(home.join("target"));
    // No suite here measures speed.
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    output(cargo.current_dir(&source))?;
    // The rename is last, so that a build that was stopped leaves no binary.
    let built = home.join("zebu.new");
    fs::copy(home.join("target/release/zebu"), &built)?;
    fs::rename(&built, &binary)?;
    for directory in ["source", "target"] {
        fs::remove_dir_all(home.join(directory))?;
    }
    fs::remove_file(packed)?;
    Ok(binary)
}

fn output(command: &mut Command) -> Result<String> {
    let ended = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let errors = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "{command:?} failed: {}", errors.trim());
    Ok(String::from_utf8_lossy(&ended.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_binary_and_another_text_is_a_revision() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        assert_eq!(Previous::choose(path), Previous::Binary(path.into()));
        assert_eq!(Previous::choose("272ec41e"), Previous::Revision("272ec41e".to_owned()));
    }

    #[test]
    fn an_unknown_revision_is_an_error() {
        let error = Previous::Revision("no-such-revision".to_owned()).binary().unwrap_err().to_string();
        assert!(error.contains("ZEBU_PREVIOUS"), "{error}");
    }
}
