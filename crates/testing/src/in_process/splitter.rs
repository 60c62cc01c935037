//! Cuts a stream of bytes into frames. It knows lengths, not meaning; what is not a frame passes as it is.

use zebu_proto::frame::LENGTH_SIZE;

/// Bytes of frames that are not whole yet.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    waiting: Vec<u8>,
}

impl Splitter {
    /// Takes bytes; calls `each` with every whole frame, its length in front.
    pub(super) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        self.waiting.extend_from_slice(bytes);
        let mut start = 0;
        while let Some(size) = whole(&self.waiting[start..]) {
            each(&self.waiting[start..start + size]);
            start += size;
        }
        self.waiting.drain(..start);
    }
}

/// The size of the first frame, if it is there.
fn whole(bytes: &[u8]) -> Option<usize> {
    let length = i32::from_be_bytes(*bytes.first_chunk::<LENGTH_SIZE>()?);
    match usize::try_from(length) {
        Ok(length) => Some(LENGTH_SIZE + length).filter(|size| *size <= bytes.len()),
        // Not this protocol: let everything pass.
        Err(_) => Some(bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_in_any_pieces() {
        let stream = [0, 0, 0, 2, 7, 8, 0, 0, 0, 0, 0, 0, 0, 1, 9];
        for size in 1..=stream.len() {
            let mut splitter = Splitter::default();
            let mut frames = Vec::new();
            stream.chunks(size).for_each(|piece| splitter.push(piece, |frame| frames.push(frame.to_vec())));
            assert_eq!(frames, [vec![0, 0, 0, 2, 7, 8], vec![0, 0, 0, 0], vec![0, 0, 0, 1, 9]]);
        }
    }

    #[test]
    fn a_negative_length_is_not_held_back() {
        let mut frames = Vec::new();
        Splitter::default().push(&[255, 0, 0, 0, 1, 2], |frame| frames.push(frame.to_vec()));
        assert_eq!(frames, [vec![255, 0, 0, 0, 1, 2]]);
    }
}
