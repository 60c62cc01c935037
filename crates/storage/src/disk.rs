//! The interface of a disk that storage needs: named files with positioned reads and writes, and two kinds of
//! sync. One syncs a file's bytes, the other a directory's names.
//!
//! A write is durable after the file's sync; a new, renamed or removed name is durable after the directory's
//! sync. The crash model implements the same trait.

use std::io;
use std::path::Path;

pub use crate::format::scan::ReadAt;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only.
    Read,
    /// Reads and writes; the file must exist.
    ReadWrite,
}

/// An open file.
pub trait DiskFile: ReadAt {
    /// Writes all of `bytes` at `offset`, growing the file if needed.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts or grows the file; grown bytes read as zero.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Makes the bytes and the length durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes the bytes and all metadata of the file durable.
    fn sync_all(&self) -> io::Result<()>;
}

/// Why a lock was not taken.
#[derive(Debug)]
pub enum LockRefused {
    /// Another process holds it.
    Held {
        /// The holder, as far as the lock file says.
        holder: String,
    },
    /// The disk failed.
    Io(io::Error),
}

/// The space of the file system that holds a directory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// All of it.
    pub total: u64,
    /// The part that this process may still fill.
    pub free: u64,
}

/// A disk with directories.
pub trait Disk: Clone {
    /// An open file.
    type File: DiskFile;
    /// An exclusive lock, released when dropped.
    type Lock;

    /// Names in a directory, sorted. Names that are not UTF-8 are no files of a server and are left out.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Whether the name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Creates a directory and its parents; an existing one is fine.
    fn create_directory(&self, directory: &Path) -> io::Result<()>;

    /// Opens an existing file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Self::File>;

    /// Creates an empty file for writing; an existing one is emptied.
    fn create(&self, path: &Path) -> io::Result<Self::File>;

    /// Renames a file atomically, replacing an existing one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes all names of a directory durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// The space of the file system that holds a directory; `None` if it has no limit.
    fn space(&self, _directory: &Path) -> io::Result<Option<DiskSpace>> {
        Ok(None)
    }

    /// Takes the exclusive lock of the file at `path`, and writes `holder` into it.
    fn lock(&self, path: &Path, holder: &str) -> Result<Self::Lock, LockRefused>;
}

/// Replaces a small file so that a crash leaves either the old or the new content: temporary name, sync,
/// rename, directory sync.
pub fn replace_file<D: Disk>(
    disk: &D,
    directory: &Path,
    name: &str,
    temporary: &str,
    bytes: &[u8],
) -> io::Result<()> {
    let from = directory.join(temporary);
    let file = disk.create(&from)?;
    file.write_at(0, bytes)?;
    file.sync_all()?;
    disk.rename(&from, &directory.join(name))?;
    disk.sync_directory(directory)
}

/// Reads a whole file; small files only.
pub fn read_file<D: Disk>(disk: &D, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Access::Read)?;
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match file.read_at(bytes.len() as u64, &mut piece)? {
            0 => return Ok(bytes),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

/// A file as a stream of writes, front to back.
#[derive(Debug)]
pub struct FileSink<F> {
    file: F,
    offset: u64,
    unsynced: usize,
}

/// A long stream is synced in steps: one sync of all of it at the end would delay the log's syncs.
const SINK_SYNC_STEP: usize = 8 << 20;

impl<F: DiskFile> FileSink<F> {
    /// Starts at the front of `file`.
    pub fn new(file: F) -> FileSink<F> {
        FileSink { file, offset: 0, unsynced: 0 }
    }

    /// The file. Bytes since the last step are not synced.
    pub fn into_file(self) -> F {
        self.file
    }
}

impl<F: DiskFile> io::Write for FileSink<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(self.offset, bytes)?;
        self.offset += bytes.len() as u64;
        self.unsynced += bytes.len();
        if self.unsynced >= SINK_SYNC_STEP {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file as a stream of reads, front to back.
#[derive(Debug)]
pub struct FileSource<F> {
    file: F,
    offset: u64,
    failure: Option<io::Error>,
}

impl<F: ReadAt> FileSource<F> {
    /// Starts at the front of `file`.
    pub fn new(file: F) -> FileSource<F> {
        FileSource { file, offset: 0, failure: None }
    }

    /// The error of the disk, if it had one: a decoder cannot tell it from damage.
    pub fn into_failure(self) -> Option<io::Error> {
        self.failure
    }

    /// Bytes that were read so far.
    pub fn position(&self) -> u64 {
        self.offset
    }
}

impl<F: ReadAt> io::Read for FileSource<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.file.read_at(self.offset, buffer) {
            Ok(count) => {
                self.offset += count as u64;
                Ok(count)
            }
            Err(error) => {
                let kind = error.kind();
                self.failure = Some(error);
                Err(kind.into())
            }
        }
    }
}
