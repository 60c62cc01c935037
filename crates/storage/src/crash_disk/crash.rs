//! The states after a power failure: the durable state plus any part of the unsynced changes. Writes are
//! split at sector boundaries into pieces. Each piece, each change of a length and each change of a name is
//! kept or lost on its own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{CrashDisk, CrashDiskState, Inode, NameChange, Names, PowerSupply, UnsyncedChange};
use crate::format::scan::SECTOR_SIZE;

/// Which pieces of the unsynced changes survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// None.
    LoseAll,
    /// All: the process died, the machine did not.
    KeepAll,
    /// The first so many, in the order in which they were written.
    KeepFirst(usize),
    /// Only one.
    KeepOnly(usize),
    /// All but one.
    LoseOnly(usize),
    /// A random half, from this seed.
    Random(u64),
}

struct CrashChooser {
    crash: Crash,
    next: usize,
    random: u64,
}

impl CrashChooser {
    fn keep(&mut self) -> bool {
        let index = self.next;
        self.next += 1;
        match self.crash {
            Crash::LoseAll => false,
            Crash::KeepAll => true,
            Crash::KeepFirst(count) => index < count,
            Crash::KeepOnly(kept) => index == kept,
            Crash::LoseOnly(lost) => index != lost,
            Crash::Random(_) => {
                // xorshift64: the same seed gives the same failure.
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                self.random & 0x100 != 0
            }
        }
    }
}

/// A change that survives or not as a whole.
enum WritePiece {
    File(usize, UnsyncedChange),
    Name(PathBuf, NameChange),
}

impl CrashDisk {
    /// How many pieces are not durable.
    pub fn unsynced_pieces(&self) -> usize {
        pieces(&self.state()).len()
    }

    /// The disk after a power failure now. This disk is not changed.
    pub fn after(&self, crash: Crash) -> CrashDisk {
        let state = self.state();
        let seed = if let Crash::Random(seed) = crash { seed } else { 0 };
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut chooser = CrashChooser { crash, next: 0, random };
        let mut contents = state.named_contents();
        let mut names: BTreeMap<PathBuf, BTreeMap<String, usize>> =
            state.directories.iter().map(|(path, it)| (path.clone(), it.durable.clone())).collect();
        let mut lost: BTreeMap<(usize, usize), Vec<UnsyncedChange>> = BTreeMap::new();
        for piece in pieces(&state) {
            let keep = chooser.keep();
            match piece {
                WritePiece::File(inode, change @ UnsyncedChange::Write { offset, .. }) => {
                    let earlier = lost.entry((inode, offset / SECTOR_SIZE as usize)).or_default();
                    earlier.push(change);
                    if keep {
                        // A sector goes to the disk as it is in memory, earlier writes included.
                        for change in earlier.drain(..) {
                            apply(&mut contents[inode], &change);
                        }
                    }
                }
                WritePiece::File(..) | WritePiece::Name(..) if !keep => {}
                WritePiece::File(inode, change) => apply(&mut contents[inode], &change),
                WritePiece::Name(directory, change) => {
                    if let NameChange::Move { source, from, .. } = &change
                        && let Some(names) = names.get_mut(source)
                    {
                        names.remove(from);
                    }
                    if let Some(names) = names.get_mut(&directory) {
                        apply_name(names, &change);
                    }
                }
            }
        }
        let inodes = contents
            .into_iter()
            .map(|bytes| Inode { live: bytes.clone(), durable: bytes, pending: Vec::new() })
            .collect();
        let directories = names
            .into_iter()
            .map(|(path, names)| (path, Names { live: names.clone(), durable: names, pending: Vec::new() }))
            .collect();
        let locks = BTreeMap::new();
        CrashDisk::from_state(CrashDiskState {
            inodes,
            directories,
            locks,
            capacities: state.capacities.clone(),
            power: PowerSupply::On,
            operations: 0,
            unreadable_after: None,
            sequence: 0,
            trail: None,
        })
    }
}

impl CrashDiskState {
    /// The durable bytes of every file that has or may get a name. The others are dropped.
    fn named_contents(&self) -> Vec<Vec<u8>> {
        let mut named = vec![false; self.inodes.len()];
        for names in self.directories.values() {
            let pending = names.pending.iter().filter_map(|(_, change)| match change {
                NameChange::Link { inode, .. }
                | NameChange::Rename { inode, .. }
                | NameChange::Move { inode, .. } => Some(inode),
                NameChange::Unlink { .. } => None,
            });
            for &inode in names.durable.values().chain(pending) {
                named[inode] = true;
            }
        }
        let contents = self.inodes.iter().zip(named);
        contents.map(|(it, named)| if named { it.durable.clone() } else { Vec::new() }).collect()
    }
}

fn pieces(state: &CrashDiskState) -> Vec<WritePiece> {
    let mut ordered = Vec::new();
    for (inode, file) in state.inodes.iter().enumerate() {
        for (sequence, change) in &file.pending {
            match change {
                UnsyncedChange::Length(_) => {
                    ordered.push((*sequence, WritePiece::File(inode, change.clone())))
                }
                UnsyncedChange::Write { offset, bytes } => {
                    ordered
                        .extend(sectors(*offset, bytes).map(|it| (*sequence, WritePiece::File(inode, it))));
                }
            }
        }
    }
    for (path, names) in &state.directories {
        for (sequence, change) in &names.pending {
            ordered.push((*sequence, WritePiece::Name(path.clone(), change.clone())));
        }
    }
    ordered.sort_by_key(|(sequence, _)| *sequence);
    ordered.into_iter().map(|(_, piece)| piece).collect()
}

fn sectors(offset: usize, bytes: &[u8]) -> impl Iterator<Item = UnsyncedChange> {
    let size = SECTOR_SIZE as usize;
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let start = offset + at;
        let count = rest.len().min(size - start % size);
        at += count;
        Some(UnsyncedChange::Write { offset: start, bytes: rest[..count].to_vec() })
    })
}

pub(super) fn apply(content: &mut Vec<u8>, change: &UnsyncedChange) {
    match change {
        UnsyncedChange::Length(length) => content.resize(*length, 0),
        UnsyncedChange::Write { offset, bytes } => {
            let end = offset + bytes.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[*offset..end].copy_from_slice(bytes);
        }
    }
}

pub(super) fn apply_name(names: &mut BTreeMap<String, usize>, change: &NameChange) {
    match change {
        NameChange::Link { name, inode } => {
            names.insert(name.clone(), *inode);
        }
        NameChange::Unlink { name } => {
            names.remove(name);
        }
        NameChange::Rename { from, to, inode } => {
            names.remove(from);
            names.insert(to.clone(), *inode);
        }
        // The caller handles the other side.
        NameChange::Move { to, inode, .. } => {
            names.insert(to.clone(), *inode);
        }
    }
}
