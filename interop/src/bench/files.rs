//! The files of a stopped server: copied for another start, measured for the report.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Makes `to` a copy of `from` that has reached the disk: otherwise the first sync of whoever starts on it
/// would pay for the copying.
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
    let directory = data.join("version-2");
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).with_context(|| format!("read {}", directory.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // A snapshot under its final name has a zxid behind the dot, and nothing else.
        if name.strip_prefix("snapshot.").is_some_and(|zxid| i64::from_str_radix(zxid, 16).is_ok()) {
            names.push(name);
        }
    }
    Ok(names)
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
}
