//! The reserve: a file of zeros beside the transaction log. It is removed when the disk is full, so that a
//! log record or a snapshot can be finished, and made again when there is room.

use std::path::PathBuf;

use crate::disk::{Access, Disk, DiskFile, ReadAt};
use crate::failure::{During, IoFailure};

/// The name of the file in the directory of the logs. ZooKeeper ignores it.
pub const RESERVE_NAME: &str = "zebu.reserve";

/// Zeros are written in pieces of this size.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// The reserve of a server.
#[derive(Debug)]
pub struct ReserveFile<D: Disk> {
    disk: D,
    directory: PathBuf,
    /// The bytes that it occupies.
    length: u64,
}

impl<D: Disk> ReserveFile<D> {
    /// Finds the reserve that an earlier process has left.
    pub fn open(disk: D, directory: PathBuf) -> Result<ReserveFile<D>, IoFailure> {
        let mut reserve = ReserveFile { disk, directory, length: 0 };
        reserve.refresh()?;
        Ok(reserve)
    }

    /// Reads the length again: an operator may remove the file at any time.
    pub fn refresh(&mut self) -> Result<(), IoFailure> {
        let path = self.path();
        self.length = 0;
        if self.disk.exists(&path).during("look for", &path)? {
            let file = self.disk.open(&path, Access::Read).during("open", &path)?;
            self.length = file.length().during("read", &path)?;
        }
        Ok(())
    }

    /// The bytes that it occupies.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Writes zeros up to this length, and syncs them. A reserve that cannot grow is removed: it must not
    /// take the last bytes of the log.
    pub fn grow(&mut self, to: u64) -> Result<(), IoFailure> {
        let grown = self.write_zeros(to);
        if grown.is_err() {
            self.release()?;
        }
        grown
    }

    /// Removes the reserve.
    pub fn release(&mut self) -> Result<(), IoFailure> {
        let path = self.path();
        if self.disk.exists(&path).during("look for", &path)? {
            self.disk.remove(&path).during("remove", &path)?;
            self.disk.sync_directory(&self.directory).during("sync", &self.directory)?;
        }
        self.length = 0;
        Ok(())
    }

    fn write_zeros(&mut self, to: u64) -> Result<(), IoFailure> {
        let path = self.path();
        let is_new = self.length == 0;
        let file = if is_new {
            self.disk.create(&path).during("create", &path)?
        } else {
            self.disk.open(&path, Access::ReadWrite).during("open", &path)?
        };
        let mut at = self.length;
        while at < to {
            let count = (to - at).min(ZEROS.len() as u64);
            file.write_at(at, &ZEROS[..count as usize]).during("extend", &path)?;
            at += count;
        }
        file.sync_all().during("sync", &path)?;
        if is_new {
            self.disk.sync_directory(&self.directory).during("sync", &self.directory)?;
        }
        self.length = at;
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.directory.join(RESERVE_NAME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash_disk::CrashDisk;

    fn on(disk: &CrashDisk) -> ReserveFile<CrashDisk> {
        ReserveFile::open(disk.clone(), PathBuf::from("logs")).unwrap()
    }

    #[test]
    fn it_grows_in_steps_and_is_found_again() {
        let disk = CrashDisk::new();
        disk.create_directory(&PathBuf::from("logs")).unwrap();
        let mut reserve = on(&disk);
        reserve.grow(100).unwrap();
        reserve.grow(200_000).unwrap();
        assert_eq!((reserve.length(), on(&disk).length()), (200_000, 200_000));
        reserve.release().unwrap();
        assert_eq!((reserve.length(), on(&disk).length()), (0, 0));
        reserve.release().unwrap();
        reserve.grow(5).unwrap();
        assert_eq!(on(&disk).length(), 5);
    }

    #[test]
    fn a_reserve_that_cannot_grow_goes() {
        let disk = CrashDisk::new();
        disk.create_directory(&PathBuf::from("logs")).unwrap();
        let mut reserve = on(&disk);
        reserve.grow(100).unwrap();
        disk.fail_after(0, std::io::ErrorKind::StorageFull);
        assert!(reserve.grow(200).is_err());
        assert_eq!((reserve.length(), on(&disk).length()), (0, 0));
    }
}
