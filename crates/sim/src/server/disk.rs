//! The disk of a server with its faults: errors, no space, power that fails in the middle of some work. The
//! storage crate's model of a disk keeps the bytes.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use super::bit_rot::DiskImage;
use crate::plan::SnapshotFailure;
use zebu_storage::crash_disk::{CrashDisk, CrashDiskFile, CrashDiskLock};
use zebu_storage::disk::{Access, Disk, DiskFile, DiskSpace, LockRefused, ReadAt};

/// The faults of the next operations.
#[derive(Clone, Debug, Default)]
struct DiskFaults {
    /// So many changes succeed, then one fails.
    error_after: Option<u64>,
    /// So many reads succeed, then one fails.
    read_error_after: Option<u64>,
    /// So many changes succeed, then the power is off.
    power_off_after: Option<u64>,
    power: PowerState,
    full: bool,
    /// The bytes by which files may still grow, if they are limited.
    free: Option<u64>,
    /// So many changes of snapshot files succeed, then all fail until this is removed.
    snapshots: Option<(u64, SnapshotFailure)>,
}

/// Whether the machine has power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PowerState {
    #[default]
    On,
    Off,
}

/// The size of every disk in bytes, and its free bytes without a limit.
const DISK_BYTES: u64 = 64 << 20;

/// A disk in memory that can fail. Clones are the same disk.
#[derive(Clone, Debug)]
pub(crate) struct FaultyDisk {
    model: CrashDisk,
    faults: Rc<RefCell<DiskFaults>>,
}

/// A file of a faulty disk.
#[derive(Clone, Debug)]
pub(crate) struct FaultyFile {
    file: CrashDiskFile,
    kind: FileKind,
    faults: Rc<RefCell<DiskFaults>>,
}

/// Whether a file is a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Snapshot,
    Other,
}

impl FileKind {
    fn of(path: &Path) -> FileKind {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("snapshot.") { FileKind::Snapshot } else { FileKind::Other }
    }
}

/// Whether an operation needs space on the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FreeSpace {
    Takes,
    Keeps,
}

fn pass(faults: &RefCell<DiskFaults>, space: FreeSpace) -> io::Result<()> {
    let mut faults = faults.borrow_mut();
    if faults.power == PowerState::Off {
        return Err(io::Error::other("the power is off"));
    }
    if let Some(left) = &mut faults.power_off_after {
        if *left == 0 {
            faults.power = PowerState::Off;
            return Err(io::Error::other("the power is off"));
        }
        *left -= 1;
    }
    if let Some(left) = &mut faults.error_after {
        if *left == 0 {
            faults.error_after = None;
            return Err(io::Error::other("an error of the disk"));
        }
        *left -= 1;
    }
    if faults.full && space == FreeSpace::Takes {
        return Err(io::ErrorKind::StorageFull.into());
    }
    Ok(())
}

/// The same for a change of a file.
fn pass_file(faults: &RefCell<DiskFaults>, space: FreeSpace, kind: FileKind) -> io::Result<()> {
    pass(faults, space)?;
    if kind == FileKind::Other {
        return Ok(());
    }
    match &mut faults.borrow_mut().snapshots {
        None => Ok(()),
        Some((0, SnapshotFailure::Io)) => Err(io::Error::other("an error of the disk")),
        Some((0, SnapshotFailure::Full)) => Err(io::ErrorKind::StorageFull.into()),
        Some((left, _)) => {
            *left -= 1;
            Ok(())
        }
    }
}

fn pass_read(faults: &RefCell<DiskFaults>) -> io::Result<()> {
    let mut faults = faults.borrow_mut();
    match &mut faults.read_error_after {
        None => Ok(()),
        Some(0) => {
            faults.read_error_after = None;
            Err(io::Error::other("the disk cannot read this"))
        }
        Some(left) => {
            *left -= 1;
            Ok(())
        }
    }
}

impl FaultyDisk {
    pub(crate) fn new(model: CrashDisk) -> FaultyDisk {
        FaultyDisk { model, faults: Rc::default() }
    }

    /// The content of the disk, without its faults.
    pub(crate) fn model(&self) -> &CrashDisk {
        &self.model
    }

    pub(crate) fn fail_after(&self, operations: u64) {
        self.faults.borrow_mut().error_after = Some(operations);
    }

    pub(crate) fn fail_reads_after(&self, operations: u64) {
        self.faults.borrow_mut().read_error_after = Some(operations);
    }

    pub(crate) fn power_off_after(&self, operations: u64) {
        self.faults.borrow_mut().power_off_after = Some(operations);
    }

    /// Changes of snapshot files fail, after so many that succeed.
    pub(crate) fn fail_snapshots_after(&self, operations: u64, cause: SnapshotFailure) {
        self.faults.borrow_mut().snapshots = Some((operations, cause));
    }

    pub(crate) fn write_snapshots_again(&self) {
        self.faults.borrow_mut().snapshots = None;
    }

    /// Files may grow by so many bytes from now on; `None` removes the limit.
    pub(crate) fn limit_growth(&self, free: Option<u64>) {
        self.faults.borrow_mut().free = free;
    }

    pub(crate) fn set_full(&self, full: bool) {
        self.faults.borrow_mut().full = full;
    }

    /// Removes all pending faults, unless the power is off already.
    pub(crate) fn calm_down(&self) {
        let mut faults = self.faults.borrow_mut();
        faults.error_after = None;
        faults.read_error_after = None;
        faults.power_off_after = None;
        faults.full = false;
        faults.free = None;
        faults.snapshots = None;
    }

    /// All files with their bytes.
    pub(crate) fn image(&self) -> DiskImage {
        self.model.image()
    }

    /// Flips one bit of a file. The process does not notice before it reads the file.
    pub(crate) fn flip_bit(&self, path: &Path, at: usize, bit: u32) {
        self.model.flip_bit_at(path, at, bit).expect("the file is in the image");
    }

    pub(crate) fn power(&self) -> PowerState {
        self.faults.borrow().power
    }
}

impl ReadAt for FaultyFile {
    fn length(&self) -> io::Result<u64> {
        pass_read(&self.faults)?;
        self.file.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        pass_read(&self.faults)?;
        self.file.read_at(offset, buffer)
    }
}

impl DiskFile for FaultyFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        pass_file(&self.faults, FreeSpace::Takes, self.kind)?;
        let grows_by = (offset + bytes.len() as u64).saturating_sub(self.file.length()?);
        if let Some(free) = &mut self.faults.borrow_mut().free {
            *free = free.checked_sub(grows_by).ok_or(io::ErrorKind::StorageFull)?;
        }
        self.file.write_at(offset, bytes)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        pass(&self.faults, FreeSpace::Keeps)?;
        self.file.set_length(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        pass_file(&self.faults, FreeSpace::Keeps, self.kind)?;
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        pass_file(&self.faults, FreeSpace::Keeps, self.kind)?;
        self.file.sync_all()
    }
}

impl Disk for FaultyDisk {
    type File = FaultyFile;
    type Lock = CrashDiskLock;

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        pass_read(&self.faults)?;
        self.model.list(directory)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        pass_read(&self.faults)?;
        self.model.exists(path)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        pass(&self.faults, FreeSpace::Takes)?;
        self.model.create_directory(directory)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<FaultyFile> {
        pass_read(&self.faults)?;
        let file = self.model.open(path, access)?;
        Ok(FaultyFile { file, kind: FileKind::of(path), faults: self.faults.clone() })
    }

    fn create(&self, path: &Path) -> io::Result<FaultyFile> {
        let kind = FileKind::of(path);
        pass_file(&self.faults, FreeSpace::Takes, kind)?;
        Ok(FaultyFile { file: self.model.create(path)?, kind, faults: self.faults.clone() })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        pass(&self.faults, FreeSpace::Keeps)?;
        self.model.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        pass(&self.faults, FreeSpace::Keeps)?;
        let freed = self.model.open(path, Access::Read).and_then(|file| file.length()).unwrap_or(0);
        if let Some(free) = &mut self.faults.borrow_mut().free {
            *free += freed;
        }
        self.model.remove(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        pass(&self.faults, FreeSpace::Keeps)?;
        self.model.sync_directory(directory)
    }

    fn space(&self, _: &Path) -> io::Result<Option<DiskSpace>> {
        let free = self.faults.borrow().free.unwrap_or(DISK_BYTES);
        Ok(Some(DiskSpace { total: DISK_BYTES, free }))
    }

    fn lock(&self, path: &Path, holder: &str) -> Result<CrashDiskLock, LockRefused> {
        self.model.lock(path, holder)
    }
}
