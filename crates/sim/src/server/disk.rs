//! The disk of a server with its moods: errors, no space, power that fails in the middle of some work. The
//! bytes are kept by the storage crate's model of a disk.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use zebu_storage::disk::{Access, Disk, DiskFile, LockRefused, ReadAt};
use zebu_storage::model::{ModelDisk, ModelFile, ModelLock};

/// What the next operations meet.
#[derive(Clone, Debug, Default)]
struct Mood {
    /// So many changes succeed, then one fails.
    error_after: Option<u64>,
    /// So many reads succeed, then one fails.
    read_error_after: Option<u64>,
    /// So many changes succeed, then the power is off.
    power_off_after: Option<u64>,
    power: Power,
    full: bool,
}

/// Whether the machine has power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Power {
    #[default]
    On,
    Off,
}

/// A disk in memory that can fail. Clones are the same disk.
#[derive(Clone, Debug)]
pub(crate) struct MoodyDisk {
    model: ModelDisk,
    mood: Rc<RefCell<Mood>>,
}

/// A file of it.
#[derive(Clone, Debug)]
pub(crate) struct MoodyFile {
    file: ModelFile,
    mood: Rc<RefCell<Mood>>,
}

/// What an operation does to the space that is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    Takes,
    Keeps,
}

fn pass(mood: &RefCell<Mood>, space: Space) -> io::Result<()> {
    let mut mood = mood.borrow_mut();
    if mood.power == Power::Off {
        return Err(io::Error::other("the power is off"));
    }
    if let Some(left) = &mut mood.power_off_after {
        if *left == 0 {
            mood.power = Power::Off;
            return Err(io::Error::other("the power is off"));
        }
        *left -= 1;
    }
    if let Some(left) = &mut mood.error_after {
        if *left == 0 {
            mood.error_after = None;
            return Err(io::Error::other("an error of the disk"));
        }
        *left -= 1;
    }
    if mood.full && space == Space::Takes {
        return Err(io::ErrorKind::StorageFull.into());
    }
    Ok(())
}

fn pass_read(mood: &RefCell<Mood>) -> io::Result<()> {
    let mut mood = mood.borrow_mut();
    match &mut mood.read_error_after {
        None => Ok(()),
        Some(0) => {
            mood.read_error_after = None;
            Err(io::Error::other("the disk cannot read this"))
        }
        Some(left) => {
            *left -= 1;
            Ok(())
        }
    }
}

impl MoodyDisk {
    pub(crate) fn new(model: ModelDisk) -> MoodyDisk {
        MoodyDisk { model, mood: Rc::default() }
    }

    /// What is on it, without its moods.
    pub(crate) fn model(&self) -> &ModelDisk {
        &self.model
    }

    pub(crate) fn fail_after(&self, operations: u64) {
        self.mood.borrow_mut().error_after = Some(operations);
    }

    pub(crate) fn fail_reads_after(&self, operations: u64) {
        self.mood.borrow_mut().read_error_after = Some(operations);
    }

    pub(crate) fn power_off_after(&self, operations: u64) {
        self.mood.borrow_mut().power_off_after = Some(operations);
    }

    pub(crate) fn set_full(&self, full: bool) {
        self.mood.borrow_mut().full = full;
    }

    /// Nothing is going to fail any more, unless the power is off already.
    pub(crate) fn calm_down(&self) {
        let mut mood = self.mood.borrow_mut();
        mood.error_after = None;
        mood.read_error_after = None;
        mood.power_off_after = None;
        mood.full = false;
    }

    pub(crate) fn power(&self) -> Power {
        self.mood.borrow().power
    }
}

impl ReadAt for MoodyFile {
    fn length(&self) -> io::Result<u64> {
        pass_read(&self.mood)?;
        self.file.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        pass_read(&self.mood)?;
        self.file.read_at(offset, buffer)
    }
}

impl DiskFile for MoodyFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        pass(&self.mood, Space::Takes)?;
        self.file.write_at(offset, bytes)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        pass(&self.mood, Space::Keeps)?;
        self.file.set_length(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        pass(&self.mood, Space::Keeps)?;
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        pass(&self.mood, Space::Keeps)?;
        self.file.sync_all()
    }
}

impl Disk for MoodyDisk {
    type File = MoodyFile;
    type Lock = ModelLock;

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        pass_read(&self.mood)?;
        self.model.list(directory)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        pass_read(&self.mood)?;
        self.model.exists(path)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        pass(&self.mood, Space::Takes)?;
        self.model.create_directory(directory)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<MoodyFile> {
        pass_read(&self.mood)?;
        Ok(MoodyFile { file: self.model.open(path, access)?, mood: self.mood.clone() })
    }

    fn create(&self, path: &Path) -> io::Result<MoodyFile> {
        pass(&self.mood, Space::Takes)?;
        Ok(MoodyFile { file: self.model.create(path)?, mood: self.mood.clone() })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        pass(&self.mood, Space::Keeps)?;
        self.model.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        pass(&self.mood, Space::Keeps)?;
        self.model.remove(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        pass(&self.mood, Space::Keeps)?;
        self.model.sync_directory(directory)
    }

    fn lock(&self, path: &Path, holder: &str) -> Result<ModelLock, LockRefused> {
        self.model.lock(path, holder)
    }
}
