//! Reads the files of stores and passwords, and notices their change. Never waits for a pipe or a device.

use std::fs::{Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Reads a regular file of up to `limit` bytes.
pub(crate) fn read_regular_file(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    check_regular(&std::fs::metadata(path)?)?;
    // A pipe may take the place of the file in between; opening it must not wait.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    check_regular(&file.metadata()?)?;
    let mut bytes = Vec::new();
    let bytes_max = u64::try_from(limit).unwrap_or(u64::MAX);
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes")));
    }
    Ok(bytes)
}

fn check_regular(metadata: &Metadata) -> io::Result<()> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Whether every user of the machine may read the file. A file that cannot be examined counts as private.
pub(crate) fn is_world_readable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o004 != 0)
}

/// The identity and age of a file's content. It follows links, as a read does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// The stamp of a file, or `None` if there is none.
    pub(crate) fn of(path: &Path) -> Option<FileStamp> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(FileStamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store");
        std::fs::write(&file, b"content").unwrap();
        assert_eq!(read_regular_file(&file, 7).unwrap(), b"content");
        assert_eq!(read_regular_file(&file, 6).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(read_regular_file(folder.path(), 7).is_err());
        assert!(read_regular_file(&folder.path().join("absent"), 7).is_err());
        assert!(read_regular_file(Path::new("/dev/zero"), 7).is_err());
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert!(read_regular_file(&pipe, 7).is_err());
    }

    #[test]
    fn a_link_that_points_elsewhere_changes_the_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a"), b"1").unwrap();
        std::fs::write(path("b"), b"1").unwrap();
        symlink(path("a"), path("link")).unwrap();
        let before = FileStamp::of(&path("link"));
        assert_eq!(before, FileStamp::of(&path("a")));
        symlink(path("b"), path("link2")).unwrap();
        std::fs::rename(path("link2"), path("link")).unwrap();
        assert_ne!(FileStamp::of(&path("link")), before);
        assert_eq!(FileStamp::of(&path("absent")), None);
    }

    #[test]
    fn permissions_of_other_users() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pem");
        std::fs::write(&file, b"key").unwrap();
        for (mode, expected) in [(0o600, false), (0o640, false), (0o644, true)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_world_readable(&file), expected);
        }
    }
}
