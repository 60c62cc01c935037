//! The content of a queue node: plain bytes, or Curator's frame.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The first word of a frame.
const FRAME: u32 = 0x0001_0001;

/// Marks a part.
const PART: u8 = 1;

/// Marks the end.
const END: u8 = 2;

/// An item of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueItem {
    /// The node's name.
    pub name: String,
    /// The pushed data. It has one part, unless a producer of Curator has pushed several into one node.
    pub parts: Vec<Bytes>,
}

impl QueueItem {
    /// The first part; empty if there is none.
    pub fn data(&self) -> Bytes {
        self.parts.first().cloned().unwrap_or_default()
    }
}

/// Frames one part.
pub(super) fn frame(part: &Bytes) -> Option<Bytes> {
    let length = u32::try_from(part.len()).ok().filter(|length| i32::try_from(*length).is_ok())?;
    let mut out = BytesMut::with_capacity(part.len() + 10);
    out.put_u32(FRAME);
    out.put_u8(PART);
    out.put_u32(length);
    out.put_slice(part);
    out.put_u8(END);
    Some(out.freeze())
}

/// The parts of a frame; `None` if the frame is invalid.
pub(super) fn parts(mut data: Bytes) -> Option<Vec<Bytes>> {
    if data.remaining() < 4 || data.get_u32() != FRAME {
        return None;
    }
    let mut parts = Vec::new();
    loop {
        match data.try_get_u8().ok()? {
            END => return Some(parts),
            PART => {
                let length = usize::try_from(data.try_get_i32().ok()?).ok()?;
                if length > data.remaining() {
                    return None;
                }
                parts.push(data.split_to(length));
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_curators() {
        let framed = frame(&Bytes::from_static(b"ab")).expect("a frame");
        assert_eq!(&framed[..], [0, 1, 0, 1, 1, 0, 0, 0, 2, b'a', b'b', 2]);
        assert_eq!(parts(framed), Some(vec![Bytes::from_static(b"ab")]));
        let two = Bytes::from_static(&[0, 1, 0, 1, 1, 0, 0, 0, 1, 7, 1, 0, 0, 0, 0, 2]);
        assert_eq!(parts(two), Some(vec![Bytes::from_static(&[7]), Bytes::new()]));
    }

    #[test]
    fn what_is_no_frame_is_refused_and_never_panics() {
        let whole = frame(&Bytes::from_static(b"abc")).expect("a frame");
        for length in 0..whole.len() {
            assert_eq!(parts(whole.slice(..length)), None, "{length}");
        }
        for bad in [&[0, 1, 0, 2, 2][..], &[0, 1, 0, 1, 3], &[0, 1, 0, 1, 1, 255, 255, 255, 255, 0, 2]] {
            assert_eq!(parts(Bytes::copy_from_slice(bad)), None);
        }
    }
}
