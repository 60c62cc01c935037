//! The real disk, through the standard library. Every error is returned to the caller.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::disk::{Access, Disk, DiskFile, DiskSpace, LockRefused, ReadAt};

/// How often the lock is tried before it counts as held.
const LOCK_ATTEMPTS: u32 = 5;
/// The pause between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The disk of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileDisk;

/// A lock on a file of this machine. The system releases it when the process ends for any reason.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

impl ReadAt for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match FileExt::read_at(self, buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

impl DiskFile for File {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }
}

impl Disk for FileDisk {
    type File = File;
    type Lock = FileLock;

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<File> {
        OpenOptions::new().read(true).write(access == Access::ReadWrite).open(path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    fn space(&self, directory: &Path) -> io::Result<Option<DiskSpace>> {
        let found = rustix::fs::statvfs(directory)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Some(DiskSpace { total: bytes(found.f_blocks), free: bytes(found.f_bavail) }))
    }

    fn lock(&self, path: &Path, holder: &str) -> Result<FileLock, LockRefused> {
        // Not emptied on open: the file may still name the holder.
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(LockRefused::Io)?;
        match try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The text is optional; the refusal does not depend on it.
                let _ = (&file).take(256).read_to_string(&mut holder);
                return Err(LockRefused::Held { holder: holder.trim().to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(LockRefused::Io(error)),
        }
        name_holder(&file, holder).map_err(LockRefused::Io)?;
        Ok(FileLock { _file: file })
    }
}

/// Takes the lock. A command that inspects the holder takes it for a moment, so one refusal is not enough.
fn try_lock(file: &File) -> Result<(), TryLockError> {
    for _ in 1..LOCK_ATTEMPTS {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            taken => return taken,
        }
    }
    file.try_lock()
}

fn name_holder(file: &File, holder: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all_at(holder.as_bytes(), 0)
}
