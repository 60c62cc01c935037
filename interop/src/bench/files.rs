//! The files of a stopped server: copied for another start, measured for the report.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Logs and snapshots that a purge leaves, of each.
const KEPT: usize = 3;

/// Copies `from` to `to` and syncs the copy. Otherwise the first sync of a server that starts on it would
/// include the time of the copy.
pub(crate) fn replace(to: &Path, from: &Path) -> Result<()> {
    fs::remove_dir_all(to).with_context(|| format!("empty {}", to.display()))?;
    copy(from, to).with_context(|| format!("copy {} to {}", from.display(), to.display()))
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
            fs::File::open(&target)?.sync_all()?;
        }
    }
    Ok(())
}

/// Names of the snapshots in a data directory.
pub(crate) fn snapshots(data: &Path) -> Result<Vec<String>> {
    Ok(named(data, "snapshot.")?.into_values().collect())
}

/// Files under their final names, which have a zxid behind the dot and nothing else, by that.
fn named(data: &Path, prefix: &str) -> Result<BTreeMap<i64, String>> {
    let directory = data.join("version-2");
    let mut names = BTreeMap::new();
    for entry in fs::read_dir(&directory).with_context(|| format!("read {}", directory.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let zxid = name.strip_prefix(prefix).and_then(|zxid| i64::from_str_radix(zxid, 16).ok());
        names.extend(zxid.map(|zxid| (zxid, name)));
    }
    Ok(names)
}

/// Removes all logs and snapshots of a server that runs, but the newest of each.
pub(crate) fn purge(data: &Path) -> Result<()> {
    for prefix in ["log.", "snapshot."] {
        let names = named(data, prefix)?;
        for name in names.values().rev().skip(KEPT) {
            let path = data.join("version-2").join(name);
            fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_replaces_what_was_there_and_snapshots_are_counted() {
        let from = tempfile::tempdir().unwrap();
        let to = tempfile::tempdir().unwrap();
        fs::create_dir(from.path().join("version-2")).unwrap();
        for name in ["snapshot.0", "snapshot.1f", "snapshot.2.tmp", "log.1"] {
            fs::write(from.path().join("version-2").join(name), name).unwrap();
        }
        fs::write(to.path().join("old"), "").unwrap();
        replace(to.path(), from.path()).unwrap();
        assert!(!to.path().join("old").exists());
        let mut found = snapshots(to.path()).unwrap();
        found.sort();
        assert_eq!(found, ["snapshot.0", "snapshot.1f"]);
        assert_eq!(fs::read_to_string(to.path().join("version-2/log.1")).unwrap(), "log.1");
    }

    #[test]
    fn a_purge_leaves_the_newest() {
        let data = tempfile::tempdir().unwrap();
        let directory = data.path().join("version-2");
        fs::create_dir(&directory).unwrap();
        for name in
            ["log.1", "log.9", "log.a", "log.1f", "log.100", "snapshot.0", "snapshot.5.tmp", "acceptedEpoch"]
        {
            fs::write(directory.join(name), name).unwrap();
        }
        purge(data.path()).unwrap();
        let mut left: Vec<_> = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["acceptedEpoch", "log.100", "log.1f", "log.a", "snapshot.0", "snapshot.5.tmp"]);
    }
}
