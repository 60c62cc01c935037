//! The config files beside the configuration of a server, as the real server writes and reads them. These
//! are: the config in effect, the pointer to it, and the proposed config. Each is replaced as a whole and
//! synced; a crash between two of them leaves an older config. A file that cannot be written is skipped.

use std::io;
use std::path::{Path, PathBuf};

use zebu_runtime::last_seen_config;
use zebu_storage::disk::{Disk, read_file, replace_file};
use zebu_tree::Tree;
use zebu_zab::{Configuration, DynamicConfig};

use super::disk::FaultyDisk;

const POINTER: &str = "zoo.cfg";
const NEXT: &str = "zoo.cfg.dynamic.next";

fn directory() -> PathBuf {
    PathBuf::from("/conf")
}

fn replace(disk: &FaultyDisk, name: &str, bytes: &[u8]) -> io::Result<()> {
    replace_file(disk, &directory(), name, &format!("{name}.tmp"), bytes)
}

fn read(disk: &FaultyDisk, path: &Path) -> io::Result<Option<String>> {
    if !disk.exists(path)? {
        return Ok(None);
    }
    let bytes = read_file(disk, path)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// A file to be written.
#[derive(Debug)]
pub(crate) enum FileWork {
    Remember(Box<Configuration>),
    Activate(Box<Configuration>),
}

impl FileWork {
    /// Writes it. Returns the version that a restart will find in effect, if that has changed.
    pub(crate) fn perform(&self, disk: &FaultyDisk) -> io::Result<Option<i64>> {
        match self {
            FileWork::Remember(configuration) => {
                let mut lines = configuration.sorted_lines();
                lines.push(format!("version={:x}", configuration.version));
                lines.sort();
                replace(disk, NEXT, lines.join("\n").as_bytes())?;
                Ok(None)
            }
            FileWork::Activate(configuration) => {
                let list = format!("zoo.cfg.dynamic.{:x}", configuration.version);
                replace(disk, &list, configuration.sorted_lines().join("\n").as_bytes())?;
                replace(disk, POINTER, list.as_bytes())?;
                Ok(Some(configuration.version))
            }
        }
    }

    /// Removes obsolete files after the write.
    pub(crate) fn tidy(&self, disk: &FaultyDisk) -> io::Result<()> {
        let FileWork::Activate(configuration) = self else { return Ok(()) };
        let next = directory().join(NEXT);
        let text = read(disk, &next)?;
        let next_version = text.and_then(|text| Configuration::parse(&text).ok()).map(|it| it.version);
        if next_version.is_some_and(|version| version <= configuration.version) {
            disk.remove(&next)?;
        }
        Ok(())
    }
}

/// The config in effect at a start: that of the files, or the initial one.
pub(crate) fn in_effect(disk: &FaultyDisk, set_up: &Configuration) -> io::Result<Configuration> {
    disk.create_directory(&directory())?;
    let Some(list) = read(disk, &directory().join(POINTER))? else { return Ok(set_up.clone()) };
    let text = read(disk, &directory().join(&list))?.ok_or(io::ErrorKind::NotFound)?;
    let mut configuration = Configuration::parse(&text).map_err(io::Error::other)?;
    let version = list.rsplit('.').next().and_then(|version| i64::from_str_radix(version, 16).ok());
    configuration.version = version.unwrap_or(0);
    Ok(configuration)
}

/// The configs that a server knows when it starts: the one in effect, and a newer one from its log or its
/// files.
pub(crate) fn known_at_start(disk: &FaultyDisk, committed: Configuration, tree: &Tree) -> DynamicConfig {
    let text = read(disk, &directory().join(NEXT)).ok().flatten();
    let next = text.and_then(|text| Configuration::parse(&text).ok());
    let last_seen = last_seen_config(next, tree, &committed);
    DynamicConfig { committed, last_seen }
}
