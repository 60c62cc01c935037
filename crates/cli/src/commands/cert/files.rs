//! Files of certificates: names, permissions, and no overwriting.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::authority::CertError;

/// The path of a new PEM file. Names with other characters need `--file`.
pub(super) fn pem_path(directory: &Path, name: &str) -> Result<PathBuf, CertError> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    let is_reserved = name.eq_ignore_ascii_case("ca") || name.starts_with('.');
    if name.is_empty() || is_reserved || !name.chars().all(is_plain) {
        return Err(CertError::FileName { name: name.escape_debug().to_string() });
    }
    Ok(directory.join(format!("{name}.pem")))
}

/// Fails early if the file is there.
pub(super) fn refuse_existing(path: &Path) -> Result<(), CertError> {
    match path.symlink_metadata() {
        Ok(_) => Err(CertError::Exists { path: path.to_owned() }),
        Err(_) => Ok(()),
    }
}

/// Writes a new file that only its owner can read.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<(), CertError> {
    write_new(path, text, 0o600)
}

/// Writes a new file that all users can read.
pub(super) fn write_public(path: &Path, text: &str) -> Result<(), CertError> {
    write_new(path, text, 0o644)
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), CertError> {
    let failed = |source: std::io::Error| match source.kind() {
        ErrorKind::AlreadyExists => CertError::Exists { path: path.to_owned() },
        _ => CertError::File { path: path.to_owned(), source },
    };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)
            .map_err(|source| CertError::File { path: directory.to_owned(), source })?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}
