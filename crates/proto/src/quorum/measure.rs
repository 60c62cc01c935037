//! Where a packet ends. Leader and learner send packets back to back without a length in front, so the end
//! is found by walking over the fields; nothing is allocated for a packet that is not there yet.

use crate::ids::Zxid;
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
    /// The packet is longer than the limit, or says so.
    TooLong {
        /// Its zxid: that of a transaction if it carries one.
        zxid: Zxid,
        /// Its length, as far as it is known.
        length: usize,
    },
    /// The peer does not speak this protocol.
    Refused(DecodeError),
}

/// Looks for the end of the packet at the front of `bytes`. A packet longer than `bytes_max` is refused before it is
/// waited for.
pub fn measure_packet(bytes: &[u8], bytes_max: usize) -> Measured {
    let mut walk = Walk { reader: Reader::new(bytes), bytes_max };
    match walk.packet() {
        Ok(()) => Measured::Complete { length: walk.reader.position() },
        Err(Stop::Decode(DecodeError::Short { .. })) => Measured::Partial,
        Err(Stop::Decode(error)) => Measured::Refused(error),
        Err(Stop::TooLong { length }) => {
            let zxid = Reader::new(&bytes[ZXID_AT..]).long().map_or(Zxid::ZERO, Zxid);
            Measured::TooLong { zxid, length }
        }
    }
}

/// Where the zxid stands, behind the type.
const ZXID_AT: usize = 4;

/// Why the walk does not reach the end.
enum Stop {
    Decode(DecodeError),
    TooLong { length: usize },
}

impl From<DecodeError> for Stop {
    fn from(error: DecodeError) -> Stop {
        Stop::Decode(error)
    }
}

struct Walk<'a> {
    reader: Reader<'a>,
    bytes_max: usize,
}

impl Walk<'_> {
    fn packet(&mut self) -> Result<(), Stop> {
        self.reader.take(12)?;
        self.field()?;
        let at = self.reader.position();
        let count = self.reader.int()?;
        if !(-1..=AUTH_MAX).contains(&count) {
            return Err(DecodeError::BadLength { at, length: count }.into());
        }
        for _ in 0..count.max(0) {
            self.field()?;
            self.field()?;
        }
        Ok(())
    }

    fn field(&mut self) -> Result<(), Stop> {
        let at = self.reader.position();
        let length = self.reader.int()?;
        match usize::try_from(length) {
            Ok(size) => {
                let end = self.reader.position().saturating_add(size);
                if end > self.bytes_max {
                    return Err(Stop::TooLong { length: end });
                }
                Ok(self.reader.take(size).map(|_| ())?)
            }
            Err(_) if length == -1 => Ok(()),
            Err(_) => Err(DecodeError::BadLength { at, length }.into()),
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
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&7i64.to_be_bytes());
        bytes.extend_from_slice(&85i32.to_be_bytes());
        assert_eq!(measure_packet(&bytes, 100), Measured::TooLong { zxid: Zxid(7), length: 101 });
        assert_eq!(measure_packet(&bytes, 101), Measured::Partial);
        bytes.truncate(12);
        bytes.extend_from_slice(&(-2i32).to_be_bytes());
        assert!(matches!(measure_packet(&bytes, 100), Measured::Refused(_)));
        bytes.truncate(12);
        bytes.extend_from_slice(&(-1i32).to_be_bytes());
        bytes.extend_from_slice(&i32::MAX.to_be_bytes());
        assert!(matches!(measure_packet(&bytes, 100), Measured::Refused(_)));
    }

    /// Many credentials, each of them short enough.
    #[test]
    fn the_limit_is_that_of_the_whole_packet() {
        let packet = Packet::Request {
            session: SessionId(7),
            cxid: 1,
            op: 1,
            payload: b"abc".as_slice().into(),
            auth: Some((0..20).map(|_| Id::new("digest", "a:b")).collect()),
        };
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        assert!(matches!(measure_packet(&bytes, bytes.len()), Measured::Complete { .. }));
        assert!(matches!(measure_packet(&bytes, bytes.len() - 1), Measured::TooLong { .. }));
    }
}
