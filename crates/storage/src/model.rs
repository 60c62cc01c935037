//! A disk in memory that can lose power: it keeps what is live apart from what is durable, for bytes and for
//! names, and makes any of the states that a power failure may leave. For tests and the simulator.
//!
//! It assumes what disks keep: a sector is written whole or not at all, a rename happens or does not, and
//! what was synced stays. Between two syncs everything may be lost or reordered. Creating a directory is
//! durable at once.

mod crash;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use crash::Crash;

use crate::disk::{Access, Disk, DiskFile, LockRefused, ReadAt};

/// A change of a file's bytes that is not durable yet.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

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
struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// With their place in the order of all changes.
    pending: Vec<(u64, Change)>,
}

#[derive(Clone, Debug, Default)]
struct Names {
    live: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    pending: Vec<(u64, NameChange)>,
}

/// What the next operations meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    /// So many operations succeed, then all fail.
    OffAfter(u64),
    /// So many operations succeed, then one fails with this error.
    FailAfter(u64, io::ErrorKind),
}

#[derive(Clone, Debug)]
struct State {
    inodes: Vec<Inode>,
    directories: BTreeMap<PathBuf, Names>,
    locks: BTreeMap<PathBuf, String>,
    power: Power,
    operations: u64,
    /// So many reads succeed, then one fails.
    unreadable_after: Option<u64>,
    sequence: u64,
    /// The state after every change, while it is recorded.
    trail: Option<Vec<State>>,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct ModelDisk {
    state: Arc<Mutex<State>>,
}

/// A file of a [`ModelDisk`].
#[derive(Clone, Debug)]
pub struct ModelFile {
    disk: ModelDisk,
    inode: usize,
}

/// A lock of a [`ModelDisk`].
#[derive(Debug)]
pub struct ModelLock {
    disk: ModelDisk,
    path: PathBuf,
}

impl Drop for ModelLock {
    fn drop(&mut self) {
        self.disk.state().locks.remove(&self.path);
    }
}

impl Default for ModelDisk {
    fn default() -> ModelDisk {
        ModelDisk::new()
    }
}

impl ModelDisk {
    /// An empty disk.
    pub fn new() -> ModelDisk {
        ModelDisk::from_state(State {
            inodes: Vec::new(),
            directories: BTreeMap::new(),
            locks: BTreeMap::new(),
            power: Power::On,
            operations: 0,
            unreadable_after: None,
            sequence: 0,
            trail: None,
        })
    }

    fn from_state(state: State) -> ModelDisk {
        ModelDisk { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A test that panics elsewhere must not hide behind a poisoned lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes since the disk was made, syncs included.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Lets `count` more changes succeed; all that follow fail without effect.
    pub fn power_off_after(&self, count: u64) {
        self.state().power = Power::OffAfter(count);
    }

    /// Lets `count` more changes succeed; the next one fails without effect, later ones succeed again. A
    /// sync that fails loses the bytes that it was for, as systems do: they are read until the power fails,
    /// but no later sync makes them durable.
    pub fn fail_after(&self, count: u64, kind: io::ErrorKind) {
        self.state().power = Power::FailAfter(count, kind);
    }

    /// Lets `count` more reads succeed, of bytes, lengths or names; the next one fails, later ones succeed again.
    pub fn fail_read_after(&self, count: u64) {
        self.state().unreadable_after = Some(count);
    }

    /// Whether an announced failure of a read is still to come.
    pub fn has_unreadable(&self) -> bool {
        self.state().unreadable_after.is_some()
    }

    fn read(&self) -> io::Result<MutexGuard<'_, State>> {
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
    pub fn take_record(&self) -> Vec<ModelDisk> {
        let trail = self.state().trail.take().unwrap_or_default();
        trail.into_iter().map(ModelDisk::from_state).collect()
    }

    /// Puts a file there, durable at once. Its directory is created.
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

    /// Takes back an announced failure: all later changes succeed.
    pub fn power_on(&self) {
        self.state().power = Power::On;
    }

    /// Flips one bit of a durable file whose path is `eligible`; `choice` decides which file and which bit.
    /// Says where, as file and offset; `None` if no such file has bytes.
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
        // Mixed, so that neighbouring numbers meet different places.
        let mixed = choice.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = usize::try_from((mixed >> 32) % u64::try_from(files.len()).ok()?.max(1)).ok()?;
        let (path, inode) = files.into_iter().nth(index)?;
        let inode = &mut state.inodes[inode];
        let bit = mixed.rotate_left(24) % (inode.durable.len() as u64 * 8);
        let (at, mask) = (usize::try_from(bit / 8).ok()?, 1 << (bit % 8));
        inode.durable[at] ^= mask;
        if let Some(byte) = inode.live.get_mut(at) {
            *byte ^= mask;
        }
        Some((path, bit / 8))
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

    fn change<T>(&self, change: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.change_or(|_| (), change)
    }

    /// Changes the disk; an injected error has only the effect of `fail`.
    fn change_or<T>(
        &self,
        fail: impl FnOnce(&mut State),
        change: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state();
        match &mut state.power {
            Power::On => {}
            Power::OffAfter(0) => return Err(io::Error::other("the power is off")),
            Power::FailAfter(0, kind) => {
                let error = io::Error::from(*kind);
                state.power = Power::On;
                fail(&mut state);
                return Err(error);
            }
            Power::OffAfter(left) | Power::FailAfter(left, _) => *left -= 1,
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

impl State {
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

impl ReadAt for ModelFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.read()?.inodes[self.inode].live.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.read()?.inodes[self.inode].live[..].read_at(offset, buffer)
    }
}

impl DiskFile for ModelFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.change(|state| {
            let offset = usize::try_from(offset).map_err(io::Error::other)?;
            let end = offset + bytes.len();
            let (length_at, write_at) = (state.next_sequence(), state.next_sequence());
            let inode = &mut state.inodes[self.inode];
            if end > inode.live.len() {
                inode.live.resize(end, 0);
                // A new length may reach the disk without the bytes.
                inode.pending.push((length_at, Change::Length(end)));
            }
            inode.live[offset..end].copy_from_slice(bytes);
            inode.pending.push((write_at, Change::Write { offset, bytes: bytes.to_vec() }));
            Ok(())
        })
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.disk.change(|state| {
            let length = usize::try_from(length).map_err(io::Error::other)?;
            let sequence = state.next_sequence();
            let inode = &mut state.inodes[self.inode];
            inode.live.resize(length, 0);
            inode.pending.push((sequence, Change::Length(length)));
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        let lose = |state: &mut State| state.inodes[self.inode].pending.clear();
        self.disk.change_or(lose, |state| {
            let inode = &mut state.inodes[self.inode];
            // Only what has changed: a log is synced thousands of times.
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

impl Disk for ModelDisk {
    type File = ModelFile;
    type Lock = ModelLock;

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

    fn open(&self, path: &Path, _access: Access) -> io::Result<ModelFile> {
        let inode = self.read()?.find(path)?;
        Ok(ModelFile { disk: self.clone(), inode })
    }

    fn create(&self, path: &Path) -> io::Result<ModelFile> {
        let inode = self.change(|state| {
            let sequence = state.next_sequence();
            if let Ok(inode) = state.find(path) {
                state.inodes[inode].live.clear();
                state.inodes[inode].pending.push((sequence, Change::Length(0)));
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
        Ok(ModelFile { disk: self.clone(), inode })
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

    fn lock(&self, path: &Path, holder: &str) -> Result<ModelLock, LockRefused> {
        let mut state = self.state();
        if let Some(holder) = state.locks.get(path) {
            return Err(LockRefused::Held { holder: holder.clone() });
        }
        state.locks.insert(path.to_owned(), holder.to_owned());
        Ok(ModelLock { disk: self.clone(), path: path.to_owned() })
    }
}
