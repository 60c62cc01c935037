//! The archive of a release, byte for byte the same from the same files: names in order, one time, one owner,
//! rights that do not depend on the umask, and no time in gzip's header.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::output;

/// Sets the rights of every file and directory. Directories below `writable` are for a group too.
pub(super) fn normalize_rights(directory: &Path) -> anyhow::Result<()> {
    let mut directories = vec![(directory.to_path_buf(), false)];
    while let Some((directory, is_writable)) = directories.pop() {
        fs::set_permissions(&directory, mode(if is_writable { 0o775 } else { 0o755 }))?;
        for entry in
            fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                let below_writable = is_writable || path.file_name().is_some_and(|name| name == "writable");
                directories.push((path, below_writable));
            } else {
                let is_program = directory.file_name().is_some_and(|name| name == "bin");
                fs::set_permissions(&path, mode(if is_program { 0o755 } else { 0o644 }))?;
            }
        }
    }
    Ok(())
}

fn mode(bits: u32) -> fs::Permissions {
    fs::Permissions::from_mode(bits)
}

/// Packs a directory as `DIRECTORY.tar.gz` beside it.
pub(super) fn pack(directory: &Path, source_date: &str) -> anyhow::Result<PathBuf> {
    let parent = directory.parent().context("the directory has no parent")?;
    let name = directory.file_name().context("the directory has no name")?;
    let mut tar_file = directory.as_os_str().to_owned();
    tar_file.push(".tar");
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{source_date}")).arg("--file").arg(&tar_file);
    // The order of names depends on the locale.
    tar.arg("--directory").arg(parent).arg(name).env("LC_ALL", "C");
    output(&mut tar)?;
    output(Command::new("gzip").args(["--best", "--no-name", "--force"]).arg(&tar_file))?;
    let mut packed = tar_file;
    packed.push(".gz");
    Ok(packed.into())
}

/// Fails if two files that must be equal are not.
pub(super) fn ensure_equal(one: &Path, other: &Path) -> anyhow::Result<()> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let (one_bytes, other_bytes) = (read(one)?, read(other)?);
    let differing = one_bytes.iter().zip(&other_bytes).position(|(one, other)| one != other);
    ensure!(
        one_bytes == other_bytes,
        "{} and {} have {} and {} bytes and differ from byte {}: the files of a release cannot be repeated",
        one.display(),
        other.display(),
        one_bytes.len(),
        other_bytes.len(),
        differing.unwrap_or(one_bytes.len().min(other_bytes.len()))
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same files, made in another order and with other rights.
    fn release(parent: &Path, is_reversed: bool) -> PathBuf {
        let directory = parent.join("zebu-0.1.0-test");
        let mut files = ["bin/zebu", "README.md", "container/writable/data/.kept", "man/zebu.1"];
        if is_reversed {
            files.reverse();
        }
        for (index, file) in files.iter().enumerate() {
            let path = directory.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, file).unwrap();
            fs::set_permissions(&path, mode(if is_reversed { 0o600 } else { 0o664 })).unwrap();
            let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(index as u64);
            fs::File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
        }
        normalize_rights(&directory).unwrap();
        directory
    }

    #[test]
    fn the_same_files_give_the_same_archive() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = pack(&release(one.path(), false), "1700000000").unwrap();
        let second = pack(&release(other.path(), true), "1700000000").unwrap();
        ensure_equal(&first, &second).unwrap();
        let listed = output(Command::new("tar").arg("-tvzf").arg(&first).env("TZ", "UTC")).unwrap();
        assert!(
            listed.lines().all(|line| line.contains("0/0") && line.contains("2023-11-14 22:13")),
            "{listed}"
        );
        assert!(listed.contains("drwxrwxr-x") && listed.contains("-rwxr-xr-x"), "{listed}");
    }

    #[test]
    fn other_files_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (directory.path().join("a"), directory.path().join("b"));
        fs::write(&one, "same, then x").unwrap();
        fs::write(&other, "same, then y").unwrap();
        let error = ensure_equal(&one, &other).unwrap_err().to_string();
        assert!(error.contains("from byte 11"), "{error}");
    }
}
