//! Choices that the bytes of an input make for a target.

/// Takes small numbers from the front of an input. An input that is used up says zero.
pub(crate) struct Bits<'a> {
    rest: &'a [u8],
}

impl<'a> Bits<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Bits<'a> {
        Bits { rest }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((first, rest)) => {
                self.rest = rest;
                *first
            }
            None => 0,
        }
    }

    pub(crate) fn below(&mut self, limit: u8) -> u8 {
        self.byte() % limit.max(1)
    }

    pub(crate) fn short(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// At most so many bytes.
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        front
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}
