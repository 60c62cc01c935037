//! The data of all nodes. Data of similar size shares chunks of memory, so that a node needs no allocation of
//! its own. Large data stays in the transaction's buffer and is only referred to. The store does not know
//! nodes.

use std::sync::Arc;

use zebu_proto::Buffer;

use crate::slots::{NO_SLOT, SlotEntry, Slots};

/// Up to this size pieces are rounded up to a multiple of [`FINE_STEP`], beyond it to one of [`COARSE_STEP`].
/// At most an eighth of a piece is wasted, unless it is tiny.
const FINE: usize = 256;
const FINE_STEP: usize = 8;
const COARSE_STEP: usize = 32;
/// Larger data is allocated on its own.
const LARGEST: usize = 2048;
const CLASSES: usize = FINE / FINE_STEP + (LARGEST - FINE) / COARSE_STEP;

/// The approximate size of a chunk in bytes. Also the limit of unused memory in a size class.
const CHUNK_BYTES: usize = 1 << 16;

/// The length of data that is null.
const NULL: u32 = u32::MAX;

/// The end of the list of free pieces in a chunk.
const NO_PIECE: u16 = u16::MAX;

/// The location of a node's data. 8 bytes; invalid once the data was removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataRef {
    /// The index of the piece in its size class, or among the large ones.
    piece: u32,
    length: u32,
}

impl DataRef {
    /// The value of a node without data. Takes no memory.
    pub(crate) const NULL: DataRef = DataRef { piece: NO_SLOT, length: NULL };

    /// The length in bytes; zero for null.
    pub(crate) fn length(self) -> usize {
        if self.length == NULL { 0 } else { self.length as usize }
    }

    fn home(self) -> DataPlace {
        match self.length() {
            0 => DataPlace::Nowhere,
            length @ 1..=FINE => DataPlace::Class((length - 1) / FINE_STEP),
            length if length <= LARGEST => {
                DataPlace::Class(FINE / FINE_STEP + (length - FINE - 1) / COARSE_STEP)
            }
            _ => DataPlace::Large,
        }
    }
}

/// Data that a node gets. Large data of a transaction is shared, data of a snapshot is copied at once.
#[derive(Clone, Copy)]
pub(crate) enum NewData<'a> {
    Shared(&'a Buffer),
    Borrowed(Option<&'a [u8]>),
}

impl<'a> NewData<'a> {
    /// The bytes. Null is not the empty data.
    pub(crate) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            NewData::Shared(data) => data.as_deref(),
            NewData::Borrowed(data) => data,
        }
    }

    pub(crate) fn length(self) -> usize {
        self.bytes().map_or(0, <[u8]>::len)
    }

    fn share(self) -> Arc<[u8]> {
        match self {
            NewData::Shared(Some(data)) => Arc::clone(data),
            NewData::Shared(None) => Arc::from([]),
            NewData::Borrowed(data) => Arc::from(data.unwrap_or_default()),
        }
    }
}

/// The kind of piece for data of some length.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DataPlace {
    /// Null, and data that is empty.
    Nowhere,
    Class(usize),
    Large,
}

/// The data of all nodes.
pub(crate) struct DataStore {
    classes: Vec<SizeClass>,
    large: Slots<LargeData>,
}

impl DataStore {
    pub(crate) fn new() -> DataStore {
        DataStore { classes: (0..CLASSES).map(SizeClass::new).collect(), large: Slots::new() }
    }

    pub(crate) fn insert(&mut self, new: NewData<'_>) -> DataRef {
        let Some(data) = new.bytes() else {
            return DataRef::NULL;
        };
        let length = u32::try_from(data.len()).ok().filter(|&length| length != NULL);
        let mut value = DataRef { piece: NO_SLOT, length: length.expect("frames are below 2 GiB") };
        match value.home() {
            DataPlace::Nowhere => {}
            DataPlace::Class(class) => {
                let (piece, place) = self.classes[class].take();
                place[..data.len()].copy_from_slice(data);
                value.piece = piece;
            }
            DataPlace::Large => value.piece = self.large.insert(LargeData::Data(new.share())),
        }
        value
    }

    /// Removes one value and inserts another, reusing its piece if it fits.
    pub(crate) fn replace(&mut self, value: DataRef, new: NewData<'_>) -> DataRef {
        if let (Some(data), DataPlace::Class(class)) = (new.bytes(), value.home()) {
            let after = DataRef { length: u32::try_from(data.len()).unwrap_or(NULL), ..value };
            if after.home() == value.home() {
                self.classes[class].piece_mut(value.piece)[..data.len()].copy_from_slice(data);
                return after;
            }
        }
        self.remove(value);
        self.insert(new)
    }

    pub(crate) fn remove(&mut self, value: DataRef) {
        match value.home() {
            DataPlace::Nowhere => {}
            DataPlace::Class(class) => self.classes[class].release(value.piece),
            DataPlace::Large => self.large.remove(value.piece),
        }
    }

    /// The data. Null is not the empty data.
    pub(crate) fn get(&self, value: DataRef) -> Option<&[u8]> {
        match value.home() {
            DataPlace::Nowhere if value.length == NULL => None,
            DataPlace::Nowhere => Some(&[]),
            DataPlace::Class(class) => Some(&self.classes[class].piece(value.piece)[..value.length()]),
            DataPlace::Large => match self.large.get(value.piece) {
                LargeData::Data(data) => Some(data),
                LargeData::Empty(_) => None,
            },
        }
    }
}

/// Data that is too large for a chunk.
enum LargeData {
    Data(Arc<[u8]>),
    /// An empty slot, with the next empty slot.
    Empty(u32),
}

impl SlotEntry for LargeData {
    fn vacate(&mut self, next_empty: u32) {
        *self = LargeData::Empty(next_empty);
    }

    fn next_empty(&self) -> u32 {
        match self {
            LargeData::Data(_) => NO_SLOT,
            LargeData::Empty(next_empty) => *next_empty,
        }
    }
}

/// All pieces of one size.
struct SizeClass {
    size: usize,
    /// The number of bits of a piece's index in its chunk.
    bits: u32,
    chunks: Vec<DataChunk>,
    /// Every chunk with free pieces; the last one is used next.
    open: Vec<u32>,
}

impl SizeClass {
    fn new(class: usize) -> SizeClass {
        let fine = FINE / FINE_STEP;
        let size =
            if class < fine { (class + 1) * FINE_STEP } else { FINE + (class - fine + 1) * COARSE_STEP };
        SizeClass { size, bits: (CHUNK_BYTES / size).ilog2(), chunks: Vec::new(), open: Vec::new() }
    }

    fn take(&mut self) -> (u32, &mut [u8]) {
        let at = match self.open.last() {
            Some(&at) => at,
            None => {
                let at = u32::try_from(self.chunks.len()).expect("four billion nodes do not fit in memory");
                self.chunks.push(DataChunk::new());
                self.open.push(at);
                at
            }
        };
        let chunk = &mut self.chunks[at as usize];
        let within = chunk.take(self.size, self.bits);
        if !chunk.has_room(self.size, self.bits) {
            self.open.pop();
        }
        let from = usize::from(within) * self.size;
        (at << self.bits | u32::from(within), &mut chunk.bytes[from..from + self.size])
    }

    fn release(&mut self, piece: u32) {
        let (at, within) = (piece >> self.bits, self.within(piece));
        let chunk = &mut self.chunks[at as usize];
        let was_open = chunk.has_room(self.size, self.bits);
        chunk.release(within, self.size);
        if !was_open {
            self.open.push(at);
        }
    }

    fn piece(&self, piece: u32) -> &[u8] {
        let from = usize::from(self.within(piece)) * self.size;
        &self.chunks[(piece >> self.bits) as usize].bytes[from..from + self.size]
    }

    fn piece_mut(&mut self, piece: u32) -> &mut [u8] {
        let from = usize::from(self.within(piece)) * self.size;
        &mut self.chunks[(piece >> self.bits) as usize].bytes[from..from + self.size]
    }

    fn within(&self, piece: u32) -> u16 {
        (piece & ((1 << self.bits) - 1)) as u16
    }
}

/// Pieces in one allocation, which is freed when the last of them is released: its memory is then available
/// to other sizes.
struct DataChunk {
    /// Grows to its full length piece by piece, within its initial capacity: pages that were never written
    /// take no memory.
    bytes: Vec<u8>,
    live: u16,
    /// The piece released last; it begins with the index of the one before.
    free: u16,
}

impl DataChunk {
    fn new() -> DataChunk {
        DataChunk { bytes: Vec::new(), live: 0, free: NO_PIECE }
    }

    fn has_room(&self, size: usize, bits: u32) -> bool {
        self.free != NO_PIECE || self.bytes.len() < size << bits
    }

    fn take(&mut self, size: usize, bits: u32) -> u16 {
        self.live += 1;
        if self.free != NO_PIECE {
            let within = self.free;
            let from = usize::from(within) * size;
            self.free = u16::from_le_bytes([self.bytes[from], self.bytes[from + 1]]);
            return within;
        }
        if self.bytes.is_empty() {
            self.bytes.reserve_exact(size << bits);
        }
        let within = self.bytes.len() / size;
        self.bytes.resize(self.bytes.len() + size, 0);
        u16::try_from(within).expect("a chunk has at most 8192 pieces")
    }

    fn release(&mut self, within: u16, size: usize) {
        self.live -= 1;
        if self.live == 0 {
            *self = DataChunk::new();
            return;
        }
        let from = usize::from(within) * size;
        self.bytes[from..from + 2].copy_from_slice(&self.free.to_le_bytes());
        self.free = within;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(length: usize, fill: u8) -> Buffer {
        Some(vec![fill; length].into())
    }

    fn held(values: &DataStore) -> usize {
        let chunks = values.classes.iter().flat_map(|class| &class.chunks);
        chunks.map(|chunk| chunk.bytes.capacity()).sum()
    }

    #[test]
    fn every_length_fits_its_class() {
        assert_eq!(size_of::<DataRef>(), 8);
        for length in 1..=LARGEST {
            let DataPlace::Class(class) = (DataRef { piece: 0, length: length as u32 }).home() else {
                panic!("{length} bytes are not in a class");
            };
            let size = SizeClass::new(class).size;
            let step = if length <= FINE { FINE_STEP } else { COARSE_STEP };
            assert!(size >= length && size - length < step, "{length} in {size}");
        }
        let (empty, large) =
            (DataRef { piece: 0, length: 0 }, DataRef { piece: 0, length: LARGEST as u32 + 1 });
        assert!(empty.home() == DataPlace::Nowhere && DataRef::NULL.home() == DataPlace::Nowhere);
        assert!(large.home() == DataPlace::Large);
    }

    #[test]
    fn every_kind_of_data_can_replace_every_other() {
        let kinds = || [0, 1, 8, 9, 100, 104, 256, 257, 2048, 2049, 70_000].map(|length| buffer(length, 1));
        for before in kinds().into_iter().chain([None]) {
            for after in kinds().into_iter().chain([None]) {
                let mut values = DataStore::new();
                let neighbours = [
                    values.insert(NewData::Shared(&before)),
                    values.insert(NewData::Shared(&before)),
                    values.insert(NewData::Shared(&after)),
                ];
                let value = values.replace(neighbours[1], NewData::Shared(&after));
                assert_eq!(values.get(value), after.as_deref());
                assert_eq!(values.get(neighbours[0]), before.as_deref());
                assert_eq!(values.get(neighbours[2]), after.as_deref());
                for value in [neighbours[0], value, neighbours[2]] {
                    values.remove(value);
                }
                assert_eq!((held(&values), values.large.live()), (0, 0));
            }
        }
    }

    #[test]
    fn a_size_that_is_not_used_any_more_gives_its_memory_back() {
        let mut values = DataStore::new();
        let many: Vec<DataRef> = (0..5000).map(|_| values.insert(NewData::Shared(&buffer(100, 1)))).collect();
        assert!(held(&values) >= 5000 * 104);
        let moved: Vec<DataRef> =
            many.into_iter().map(|value| values.replace(value, NewData::Shared(&buffer(20, 2)))).collect();
        assert!(held(&values) < 5000 * 24 + 2 * CHUNK_BYTES, "{} bytes are held", held(&values));
        for value in &moved {
            assert_eq!(values.get(*value), Some(&[2; 20][..]));
        }
    }

    #[test]
    fn pieces_that_were_released_are_taken_first() {
        let mut values = DataStore::new();
        let all: Vec<DataRef> = (0..20_000).map(|_| values.insert(NewData::Shared(&buffer(30, 1)))).collect();
        let before = held(&values);
        let mut released = 0;
        for value in all.iter().step_by(3) {
            values.remove(*value);
            released += 1;
        }
        let again: Vec<DataRef> =
            (0..released).map(|_| values.insert(NewData::Shared(&buffer(31, 2)))).collect();
        assert_eq!(held(&values), before);
        for value in again {
            assert_eq!(values.get(value), Some(&[2; 31][..]));
        }
        for (at, value) in all.iter().enumerate().filter(|(at, _)| at % 3 != 0) {
            assert_eq!(values.get(*value), Some(&[1; 30][..]), "{at}");
        }
    }
}
