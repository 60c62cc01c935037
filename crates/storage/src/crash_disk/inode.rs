//! The bytes of one file: live, durable, and the changes in between.

/// A change of a file's bytes that is not durable yet.
#[derive(Clone, Debug)]
pub(super) enum UnsyncedChange {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) live: Vec<u8>,
    pub(super) durable: Vec<u8>,
    /// Changes with their position in the order of all changes.
    pub(super) pending: Vec<(u64, UnsyncedChange)>,
}

impl Inode {
    /// Changes a bit in both states, as a damaged medium does.
    pub(super) fn flip_bit(&mut self, at: usize, mask: u8) {
        for bytes in [&mut self.durable, &mut self.live] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= mask;
            }
        }
    }
}
