//! The files that keep the members beside the configuration of a server, as the real edge writes and reads them: the
//! list in effect, the pointer to it, and the list that was proposed. Each is replaced as a whole and synced; a crash
//! between two of them leaves an older list. What cannot be written is left out.

use std::io;
use std::path::{Path, PathBuf};

use zebu_storage::disk::{Disk, read_file, replace_file};
use zebu_tree::Tree;
use zebu_zab::{Configuration, Dynamic};

use super::disk::MoodyDisk;
use crate::members::CONFIG;

const POINTER: &str = "zoo.cfg";
const NEXT: &str = "zoo.cfg.dynamic.next";

fn directory() -> PathBuf {
    PathBuf::from("/conf")
}

fn replace(disk: &MoodyDisk, name: &str, bytes: &[u8]) -> io::Result<()> {
    replace_file(disk, &directory(), name, &format!("{name}.tmp"), bytes)
}

fn read(disk: &MoodyDisk, path: &Path) -> io::Result<Option<String>> {
    if !disk.exists(path)? {
        return Ok(None);
    }
    let bytes = read_file(disk, path)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Something to be written.
#[derive(Debug)]
pub(crate) enum FileWork {
    Remember(Box<Configuration>),
    Activate(Box<Configuration>),
}

impl FileWork {
    /// Writes it. Returns the version that a restart will find in effect, if that has changed.
    pub(crate) fn perform(&self, disk: &MoodyDisk) -> io::Result<Option<i64>> {
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

    /// What is left to do behind that.
    pub(crate) fn tidy(&self, disk: &MoodyDisk) -> io::Result<()> {
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

/// The list that a start finds in effect: that of the files, or the one that the server was set up with.
pub(crate) fn in_effect(disk: &MoodyDisk, set_up: &Configuration) -> io::Result<Configuration> {
    disk.create_directory(&directory())?;
    let Some(list) = read(disk, &directory().join(POINTER))? else { return Ok(set_up.clone()) };
    let text = read(disk, &directory().join(&list))?.ok_or(io::ErrorKind::NotFound)?;
    let mut configuration = Configuration::parse(&text).map_err(io::Error::other)?;
    let version = list.rsplit('.').next().and_then(|version| i64::from_str_radix(version, 16).ok());
    configuration.version = version.unwrap_or(0);
    Ok(configuration)
}

/// What a member knows when it starts: the list in effect, and a newer one that its log holds or that it was told of.
pub(crate) fn known_at_start(disk: &MoodyDisk, committed: Configuration, tree: &Tree) -> Dynamic {
    let text = read(disk, &directory().join(NEXT)).ok().flatten();
    let next = text.and_then(|text| Configuration::parse(&text).ok());
    // What the log holds counts; the first version of all is in no log.
    let next = next.filter(|next| next.zxid().counter() == 0);
    let logged =
        tree.node(CONFIG).and_then(|node| Configuration::parse(std::str::from_utf8(node.data()?).ok()?).ok());
    let last_seen = next.into_iter().chain(logged).max_by_key(|seen| seen.version);
    let last_seen = last_seen.filter(|seen| seen.version > committed.version && seen.has_voters());
    Dynamic { committed, last_seen }
}

/// What is to be shown to clients of the members, unless the history has shown newer ones.
pub(crate) fn to_show(tree: &Tree, configuration: &Configuration) -> Option<zebu_proto::Buffer> {
    let newer = tree.node(CONFIG).is_some_and(|node| {
        node.stat().mzxid >= configuration.version && node.data().is_some_and(|data| !data.is_empty())
    });
    (!newer).then(|| Some(configuration.to_string().into_bytes().into()))
}
