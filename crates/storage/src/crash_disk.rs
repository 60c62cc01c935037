//! A disk in memory that can lose power. It keeps live and durable state apart, for bytes and for names, and
//! builds every state that a power failure may leave. For tests and the simulator.
//!
//! It assumes the guarantees of disks: a sector is written as a whole or not at all, a rename is atomic, and
//! synced data stays. Unsynced changes may be lost or reordered. Creating a directory is durable at once.

mod crash;
mod inode;
mod space;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use crash::Crash;

use crate::disk::{Access, Disk, DiskFile, DiskSpace, LockRefused, ReadAt};
use inode::{Inode, UnsyncedChange};

/// A change of a directory's names that is not durable yet.
#[derive(Clone, Debug)]
enum NameChange {
    Link {
        name: String,
        inode: usize,
    },
    Unlink {
        name: String,
    },
    Rename {
        from: String,
        to: String,
        inode: usize,
    },
    /// From another directory: journaling file systems do both in one step.
    Move {
        source: PathBuf,
        from: String,
        to: String,
        inode: usize,
    },
}

#[derive(Clone, Debug, Default)]
struct Names {
    live: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    pending: Vec<(u64, NameChange)>,
}

/// The failure of the next operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PowerSupply {
    On,
    /// So many operations succeed, then all fail.
    OffAfter(u64),
    /// So many operations succeed, then one fails with this error.
    FailAfter(u64, io::ErrorKind),
}

#[derive(Clone, Debug)]
struct CrashDiskState {
    inodes: Vec<Inode>,
    directories: BTreeMap<PathBuf, Names>,
    locks: BTreeMap<PathBuf, String>,
    /// The file systems that have a limit, and their bytes.
    capacities: BTreeMap<PathBuf, u64>,
    power: PowerSupply,
    operations: u64,
    /// So many reads succeed, then one fails.
    unreadable_after: Option<u64>,
    sequence: u64,
    /// The state after every change, while it is recorded.
    trail: Option<Vec<CrashDiskState>>,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct CrashDisk {
    state: Arc<Mutex<CrashDiskState>>,
}

/// A file of a [`CrashDisk`].
#[derive(Clone, Debug)]
pub struct CrashDiskFile {
    disk: CrashDisk,
    inode: usize,
}

/// A lock of a [`CrashDisk`].
#[derive(Debug)]
pub struct CrashDiskLock {
    disk: CrashDisk,
    path: PathBuf,
}

impl Drop for CrashDiskLock {
    fn drop(&mut self) {
        self.disk.state().locks.remove(&self.path);
    }
}

impl Default for CrashDisk {
    fn default() -> CrashDisk {
        CrashDisk::new()
    }
}

impl CrashDisk {
    /// An empty disk.
    pub fn new() -> CrashDisk {
        CrashDisk::from_state(CrashDiskState {
            inodes: Vec::new(),
            directories: BTreeMap::new(),
            locks: BTreeMap::new(),
            capacities: BTreeMap::new(),
            power: PowerSupply::On,
            operations: 0,
            unreadable_after: None,
            sequence: 0,
            trail: None,
        })
    }

    fn from_state(state: CrashDiskState) -> CrashDisk {
        CrashDisk { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, CrashDiskState> {
        // A test that panics elsewhere must not hide behind a poisoned lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes since the disk was made, syncs included.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Lets `count` more changes succeed; all that follow fail without effect.
    pub fn power_off_after(&self, count: u64) {
        self.state().power = PowerSupply::OffAfter(count);
    }

    /// Lets `count` more changes succeed; the next one fails without effect, later ones succeed again. A
    /// failed sync loses its bytes, as in real systems. They are readable until the power fails, but no later
    /// sync makes them durable.
    pub fn fail_after(&self, count: u64, kind: io::ErrorKind) {
        self.state().power = PowerSupply::FailAfter(count, kind);
    }

    /// Lets `count` more reads succeed, of bytes, lengths or names; the next one fails, later ones succeed
    /// again.
    pub fn fail_read_after(&self, count: u64) {
        self.state().unreadable_after = Some(count);
    }

    /// Whether an announced failure of a read is still to come.
    pub fn has_unreadable(&self) -> bool {
        self.state().unreadable_after.is_some()
    }

    fn read(&self) -> io::Result<MutexGuard<'_, CrashDiskState>> {
        let mut state = self.state();
        match &mut state.unreadable_after {
            None => Ok(state),
            Some(0) => {
                state.unreadable_after = None;
                Err(io::Error::other("the disk cannot read this"))
            }
            Some(left) => {
                *left -= 1;
                Ok(state)
            }
        }
    }

    /// Keeps the state after every change from now on.
    pub fn record(&self) {
        self.state().trail = Some(Vec::new());
    }

    /// The disk as it was after each of the recorded changes, oldest first; recording ends.
    pub fn take_record(&self) -> Vec<CrashDisk> {
        let trail = self.state().trail.take().unwrap_or_default();
        trail.into_iter().map(CrashDisk::from_state).collect()
    }

    /// Writes a file that is durable at once. Its directory is created.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state();
        let inode = state.inodes.len();
        let bytes = bytes.to_vec();
        state.inodes.push(Inode { durable: bytes.clone(), live: bytes, pending: Vec::new() });
        let (directory, name) = split(path).expect("a path with a name");
        let names = state.directories.entry(directory).or_default();
        names.live.insert(name.clone(), inode);
        names.durable.insert(name, inode);
    }

    /// Cancels an announced failure: all later changes succeed.
    pub fn power_on(&self) {
        self.state().power = PowerSupply::On;
    }

    /// Flips one bit of a durable file whose path is `eligible`; `choice` selects the file and the bit.
    /// Returns the file and the offset; `None` if no such file has bytes.
    pub fn flip_bit(&self, choice: u64, eligible: impl Fn(&Path) -> bool) -> Option<(PathBuf, u64)> {
        let mut state = self.state();
        let mut files = Vec::new();
        for (directory, names) in &state.directories {
            for (name, &inode) in &names.durable {
                let path = directory.join(name);
                if !state.inodes[inode].durable.is_empty() && eligible(&path) {
                    files.push((path, inode));
                }
            }
        }
        // Mixed, so that neighbouring numbers give different positions.
        let mixed = choice.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = usize::try_from((mixed >> 32) % u64::try_from(files.len()).ok()?.max(1)).ok()?;
        let (path, inode) = files.into_iter().nth(index)?;
        let inode = &mut state.inodes[inode];
        let bit = mixed.rotate_left(24) % (inode.durable.len() as u64 * 8);
        inode.flip_bit(usize::try_from(bit / 8).ok()?, 1 << (bit % 8));
        Some((path, bit / 8))
    }

    /// Flips one bit of a file, also under a process that has the file open.
    pub fn flip_bit_at(&self, path: &Path, at: usize, bit: u32) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.find(path)?;
        state.inodes[inode].flip_bit(at, 1 << (bit % 8));
        Ok(())
    }

    /// All files with their live bytes.
    pub fn image(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        let mut image = BTreeMap::new();
        for (directory, names) in &state.directories {
            for (name, &inode) in &names.live {
                image.insert(directory.join(name), state.inodes[inode].live.clone());
            }
        }
        image
    }

    fn change<T>(&self, change: impl FnOnce(&mut CrashDiskState) -> io::Result<T>) -> io::Result<T> {
        self.change_or(|_| (), change)
    }

    /// Changes the disk; an injected error has only the effect of `fail`.
    fn change_or<T>(
        &self,
        fail: impl FnOnce(&mut CrashDiskState),
        change: impl FnOnce(&mut CrashDiskState) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state();
        match &mut state.power {
            PowerSupply::On => {}
            PowerSupply::OffAfter(0) => return Err(io::Error::other("the power is off")),
            PowerSupply::FailAfter(0, kind) => {
                let error = io::Error::from(*kind);
                state.power = PowerSupply::On;
                fail(&mut state);
                return Err(error);
            }
            PowerSupply::OffAfter(left) | PowerSupply::FailAfter(left, _) => *left -= 1,
        }
        state.operations += 1;
        let result = change(&mut state);
        if let Some(mut trail) = state.trail.take() {
            trail.push(state.clone());
            state.trail = Some(trail);
        }
        result
    }
}

impl CrashDiskState {
    fn names(&mut self, directory: &Path) -> io::Result<&mut Names> {
        self.directories.get_mut(directory).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn find(&mut self, path: &Path) -> io::Result<usize> {
        let (directory, name) = split(path)?;
        self.names(&directory)?.live.get(&name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Makes a directory's names durable, and with them both sides of every move from or to it.
    fn sync_names(&mut self, directory: &Path) {
        let mut others = Vec::new();
        for (path, names) in &mut self.directories {
            let is_concerned = |change: &NameChange| {
                path == directory || matches!(change, NameChange::Move { source, .. } if source == directory)
            };
            let (now, later) = names.pending.drain(..).partition(|(_, change)| is_concerned(change));
            names.pending = later;
            for (_, change) in now {
                if let NameChange::Move { source, from, .. } = &change {
                    others.push((source.clone(), from.clone()));
                }
                crash::apply_name(&mut names.durable, &change);
            }
        }
        for (source, from) in others {
            if let Some(names) = self.directories.get_mut(&source) {
                names.durable.remove(&from);
            }
        }
        if let Some(names) = self.directories.get_mut(directory) {
            names.durable = names.live.clone();
        }
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

fn split(path: &Path) -> io::Result<(PathBuf, String)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok((path.parent().unwrap_or(Path::new("")).to_owned(), name.to_owned()))
}

impl ReadAt for CrashDiskFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.read()?.inodes[self.inode].live.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.read()?.inodes[self.inode].live[..].read_at(offset, buffer)
    }
}

impl DiskFile for CrashDiskFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.change(|state| {
            let offset = usize::try_from(offset).map_err(io::Error::other)?;
            let end = offset + bytes.len();
            let (length_at, write_at) = (state.next_sequence(), state.next_sequence());
            let inode = &mut state.inodes[self.inode];
            if end > inode.live.len() {
                inode.live.resize(end, 0);
                // A new length may reach the disk without the bytes.
                inode.pending.push((length_at, UnsyncedChange::Length(end)));
            }
            inode.live[offset..end].copy_from_slice(bytes);
            inode.pending.push((write_at, UnsyncedChange::Write { offset, bytes: bytes.to_vec() }));
            Ok(())
        })
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.disk.change(|state| {
            let length = usize::try_from(length).map_err(io::Error::other)?;
            let sequence = state.next_sequence();
            let inode = &mut state.inodes[self.inode];
            inode.live.resize(length, 0);
            inode.pending.push((sequence, UnsyncedChange::Length(length)));
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        let lose = |state: &mut CrashDiskState| state.inodes[self.inode].pending.clear();
        self.disk.change_or(lose, |state| {
            let inode = &mut state.inodes[self.inode];
            // Only the changes: a log is synced thousands of times.
            for (_, change) in inode.pending.drain(..) {
                crash::apply(&mut inode.durable, &change);
            }
            Ok(())
        })
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }
}

impl Disk for CrashDisk {
    type File = CrashDiskFile;
    type Lock = CrashDiskLock;

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut state = self.read()?;
        let mut names: BTreeSet<String> = state.names(directory)?.live.keys().cloned().collect();
        let below = state.directories.keys().filter(|it| it.parent() == Some(directory));
        names.extend(below.filter_map(|it| it.file_name()?.to_str().map(str::to_owned)));
        Ok(names.into_iter().collect())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.read()?;
        Ok(state.directories.contains_key(path) || state.find(path).is_ok())
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.change(|state| {
            let parents: BTreeSet<_> = directory.ancestors().map(Path::to_owned).collect();
            for directory in parents {
                state.directories.entry(directory).or_default();
            }
            Ok(())
        })
    }

    fn open(&self, path: &Path, _access: Access) -> io::Result<CrashDiskFile> {
        let inode = self.read()?.find(path)?;
        Ok(CrashDiskFile { disk: self.clone(), inode })
    }

    fn create(&self, path: &Path) -> io::Result<CrashDiskFile> {
        let inode = self.change(|state| {
            let sequence = state.next_sequence();
            if let Ok(inode) = state.find(path) {
                state.inodes[inode].live.clear();
                state.inodes[inode].pending.push((sequence, UnsyncedChange::Length(0)));
                return Ok(inode);
            }
            let inode = state.inodes.len();
            let (directory, name) = split(path)?;
            let names = state.names(&directory)?;
            names.live.insert(name.clone(), inode);
            names.pending.push((sequence, NameChange::Link { name, inode }));
            state.inodes.push(Inode::default());
            Ok(inode)
        })?;
        Ok(CrashDiskFile { disk: self.clone(), inode })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|state| {
            let inode = state.find(from)?;
            let sequence = state.next_sequence();
            let ((directory, from), (target, to)) = (split(from)?, split(to)?);
            state.names(&target)?.live.insert(to.clone(), inode);
            let names = state.names(&directory)?;
            if directory == target {
                if from != to {
                    names.live.remove(&from);
                }
                names.pending.push((sequence, NameChange::Rename { from, to, inode }));
            } else {
                names.live.remove(&from);
                let change = NameChange::Move { source: directory, from, to, inode };
                state.names(&target)?.pending.push((sequence, change));
            }
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|state| {
            state.find(path)?;
            let sequence = state.next_sequence();
            let (directory, name) = split(path)?;
            let names = state.names(&directory)?;
            names.live.remove(&name);
            names.pending.push((sequence, NameChange::Unlink { name }));
            Ok(())
        })
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.change(|state| {
            state.names(directory)?;
            state.sync_names(directory);
            Ok(())
        })
    }

    fn space(&self, directory: &Path) -> io::Result<Option<DiskSpace>> {
        self.space_of(directory)
    }

    fn lock(&self, path: &Path, holder: &str) -> Result<CrashDiskLock, LockRefused> {
        let mut state = self.state();
        if let Some(holder) = state.locks.get(path) {
            return Err(LockRefused::Held { holder: holder.clone() });
        }
        state.locks.insert(path.to_owned(), holder.to_owned());
        Ok(CrashDiskLock { disk: self.clone(), path: path.to_owned() })
    }
}
