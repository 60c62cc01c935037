//! Small changes to real inputs, the same for the same seed.

/// Makes variations of inputs.
#[derive(Debug)]
pub struct Mutator {
    state: u64,
}

/// Numbers that lengths, counts and versions like to go wrong with.
const INTERESTING: [i64; 12] =
    [0, 1, -1, -2, 0x7f, 0xff, 0xffff, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN, 0x1_0000_0000];

impl Mutator {
    /// The same seed makes the same variations.
    pub fn new(seed: u64) -> Mutator {
        Mutator { state: seed }
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit.max(1) as u64) as usize
    }

    /// An input that resembles those of the corpus.
    pub fn vary(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = match corpus.len() {
            0 => Vec::new(),
            count => corpus[self.below(count)].clone(),
        };
        for _ in 0..1 + self.below(4) {
            self.change(&mut bytes, corpus);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(bytes.len().max(1));
        match self.below(8) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at.min(bytes.len()), self.below(256) as u8),
            2 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            3 if !bytes.is_empty() => {
                bytes.remove(at);
            }
            4 => {
                let number = INTERESTING[self.below(INTERESTING.len())].to_be_bytes();
                let width = [1, 2, 4, 8][self.below(4)];
                for (index, byte) in number[8 - width..].iter().enumerate() {
                    if let Some(slot) = bytes.get_mut(at + index) {
                        *slot = *byte;
                    }
                }
            }
            5 if !corpus.is_empty() => {
                let other = &corpus[self.below(corpus.len())];
                let from = self.below(other.len().max(1)).min(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            6 if !corpus.is_empty() => bytes.extend_from_slice(&corpus[self.below(corpus.len())]),
            _ => {
                let length = self.below(16);
                bytes.extend((0..length).map(|_| self.below(256) as u8).collect::<Vec<_>>());
            }
        }
        bytes.truncate(1 << 16);
    }
}
