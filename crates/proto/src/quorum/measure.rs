//! Where a packet ends. Leader and learner send packets back to back without a length in front, so the end
//! is found by walking over the fields; nothing is allocated for a packet that is not there yet.

use crate::jute::{DecodeError, Reader};

/// Credentials that a packet may carry: far more than any client has.
const AUTH_MAX: i32 = 1024;

/// What stands at the front of a receive buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measured {
    /// A whole packet of this many bytes.
    Complete {
        /// Its length.
        length: usize,
    },
    /// More bytes are needed.
    Partial,
    /// The peer does not speak this protocol.
    Refused(DecodeError),
}

/// Looks for the end of the packet at the front of `bytes`. A field longer than `field_max` is refused
/// before it is waited for.
pub fn measure_packet(bytes: &[u8], field_max: usize) -> Measured {
    let mut walk = Walk { reader: Reader::new(bytes), field_max };
    match walk.packet() {
        Ok(()) => Measured::Complete { length: walk.reader.position() },
        Err(DecodeError::Short { .. }) => Measured::Partial,
        Err(error) => Measured::Refused(error),
    }
}

struct Walk<'a> {
    reader: Reader<'a>,
    field_max: usize,
}

impl Walk<'_> {
    fn packet(&mut self) -> Result<(), DecodeError> {
        self.reader.take(12)?;
        self.field()?;
        let at = self.reader.position();
        let count = self.reader.int()?;
        if !(-1..=AUTH_MAX).contains(&count) {
            return Err(DecodeError::BadLength { at, length: count });
        }
        for _ in 0..count.max(0) {
            self.field()?;
            self.field()?;
        }
        Ok(())
    }

    fn field(&mut self) -> Result<(), DecodeError> {
        let at = self.reader.position();
        let length = self.reader.int()?;
        match usize::try_from(length) {
            Ok(size) if size <= self.field_max => self.reader.take(size).map(|_| ()),
            Err(_) if length == -1 => Ok(()),
            Ok(_) | Err(_) => Err(DecodeError::BadLength { at, length }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Id;
    use crate::ids::SessionId;
    use crate::quorum::Packet;

    #[test]
    fn every_prefix_is_partial_and_the_whole_is_complete() {
        let packet = Packet::Request {
            session: SessionId(7),
            cxid: 1,
            op: 1,
            payload: b"abc".as_slice().into(),
            auth: Some([Id::new("ip", "1.2.3.4"), Id::new("digest", "a:b")].into()),
        };
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(measure_packet(&bytes[..length], 100), Measured::Partial, "{length}");
        }
        let complete = Measured::Complete { length: bytes.len() };
        bytes.extend_from_slice(b"the next one");
        assert_eq!(measure_packet(&bytes, 100), complete);
    }

    #[test]
    fn absurd_lengths_are_refused_at_once() {
        let mut bytes = vec![0; 12];
        bytes.extend_from_slice(&101i32.to_be_bytes());
        assert!(matches!(measure_packet(&bytes, 100), Measured::Refused(_)));
        bytes.truncate(12);
        bytes.extend_from_slice(&(-2i32).to_be_bytes());
        assert!(matches!(measure_packet(&bytes, 100), Measured::Refused(_)));
        bytes.truncate(12);
        bytes.extend_from_slice(&(-1i32).to_be_bytes());
        bytes.extend_from_slice(&i32::MAX.to_be_bytes());
        assert!(matches!(measure_packet(&bytes, 100), Measured::Refused(_)));
    }
}
