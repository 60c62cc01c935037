//! Framing: every message on the client port is four bytes of length and that many bytes.

/// Bytes in front of every frame.
pub const LENGTH_SIZE: usize = 4;

/// The front of a receive buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framed {
    /// A complete frame: the payload is at `4..4 + length`.
    Complete {
        /// Bytes of payload.
        length: usize,
    },
    /// More bytes are needed.
    Partial,
    /// The length is negative or above the limit: the peer uses another protocol.
    Refused {
        /// The value of the length field.
        length: i32,
    },
}

/// Parses the front of `buffer` without consuming it.
pub fn peek(buffer: &[u8], length_max: usize) -> Framed {
    let Some((head, rest)) = buffer.split_first_chunk::<LENGTH_SIZE>() else {
        return Framed::Partial;
    };
    let wire = i32::from_be_bytes(*head);
    match usize::try_from(wire) {
        Ok(length) if length <= length_max => {
            if rest.len() >= length {
                Framed::Complete { length }
            } else {
                Framed::Partial
            }
        }
        _ => Framed::Refused { length: wire },
    }
}

/// Appends a frame: `body` writes the payload, then the length is filled in.
pub fn write_frame(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = begin_frame(out);
    body(out);
    finish_frame(out, start);
}

/// Reserves the length field; pass the result to [`finish_frame`].
pub fn begin_frame(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_SIZE]);
    start
}

/// Fills in the length of the frame that began at `start`.
pub fn finish_frame(out: &mut [u8], start: usize) {
    let length = out.len() - start - LENGTH_SIZE;
    let length = i32::try_from(length).expect("a frame is below 2 GiB");
    out[start..start + LENGTH_SIZE].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_judged_by_their_length() {
        assert_eq!(peek(&[0, 0, 0], 10), Framed::Partial);
        assert_eq!(peek(&[0, 0, 0, 2, 1], 10), Framed::Partial);
        assert_eq!(peek(&[0, 0, 0, 2, 1, 2, 3], 10), Framed::Complete { length: 2 });
        assert_eq!(peek(&[0, 0, 0, 0], 10), Framed::Complete { length: 0 });
        assert_eq!(peek(&[0, 0, 0, 11], 10), Framed::Refused { length: 11 });
        assert_eq!(peek(&[255, 255, 255, 255], 10), Framed::Refused { length: -1 });
    }
}
