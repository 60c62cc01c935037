//! The length of a packet. Leader and learner send packets back to back without a length prefix, so the end
//! is found by skipping the fields. Nothing is allocated for an incomplete packet.

use crate::ids::Zxid;
use crate::jute::{DecodeError, Reader};

/// Credentials that a packet may carry: far more than any client has.
const AUTH_MAX: i32 = 1024;

/// The front of a receive buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketLength {
    /// A complete packet of this many bytes.
    Complete {
        /// Its length.
        length: usize,
    },
    /// More bytes are needed.
    Partial,
    /// The packet is longer than the limit, or claims to be.
    TooLong {
        /// Its zxid: that of a transaction if it carries one.
        zxid: Zxid,
        /// Its length, as far as it is known.
        length: usize,
    },
    /// The peer uses another protocol.
    Refused(DecodeError),
}

/// Finds the end of the packet at the front of `bytes`. A packet longer than `bytes_max` is refused before it
/// is complete.
pub fn packet_length(bytes: &[u8], bytes_max: usize) -> PacketLength {
    let mut walk = LengthWalk { reader: Reader::new(bytes), bytes_max };
    match walk.packet() {
        Ok(()) => PacketLength::Complete { length: walk.reader.position() },
        Err(LengthStop::Decode(DecodeError::Short { .. })) => PacketLength::Partial,
        Err(LengthStop::Decode(error)) => PacketLength::Refused(error),
        Err(LengthStop::TooLong { length }) => {
            let zxid = Reader::new(&bytes[ZXID_AT..]).long().map_or(Zxid::ZERO, Zxid);
            PacketLength::TooLong { zxid, length }
        }
    }
}

/// The offset of the zxid, after the type.
const ZXID_AT: usize = 4;

/// Why the end is not reached.
enum LengthStop {
    Decode(DecodeError),
    TooLong { length: usize },
}

impl From<DecodeError> for LengthStop {
    fn from(error: DecodeError) -> LengthStop {
        LengthStop::Decode(error)
    }
}

struct LengthWalk<'a> {
    reader: Reader<'a>,
    bytes_max: usize,
}

impl LengthWalk<'_> {
    fn packet(&mut self) -> Result<(), LengthStop> {
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

    fn field(&mut self) -> Result<(), LengthStop> {
        let at = self.reader.position();
        let length = self.reader.int()?;
        match usize::try_from(length) {
            Ok(size) => {
                let end = self.reader.position().saturating_add(size);
                if end > self.bytes_max {
                    return Err(LengthStop::TooLong { length: end });
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
            assert_eq!(packet_length(&bytes[..length], 100), PacketLength::Partial, "{length}");
        }
        let complete = PacketLength::Complete { length: bytes.len() };
        bytes.extend_from_slice(b"the next one");
        assert_eq!(packet_length(&bytes, 100), complete);
    }

    #[test]
    fn absurd_lengths_are_refused_at_once() {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&7i64.to_be_bytes());
        bytes.extend_from_slice(&85i32.to_be_bytes());
        assert_eq!(packet_length(&bytes, 100), PacketLength::TooLong { zxid: Zxid(7), length: 101 });
        assert_eq!(packet_length(&bytes, 101), PacketLength::Partial);
        bytes.truncate(12);
        bytes.extend_from_slice(&(-2i32).to_be_bytes());
        assert!(matches!(packet_length(&bytes, 100), PacketLength::Refused(_)));
        bytes.truncate(12);
        bytes.extend_from_slice(&(-1i32).to_be_bytes());
        bytes.extend_from_slice(&i32::MAX.to_be_bytes());
        assert!(matches!(packet_length(&bytes, 100), PacketLength::Refused(_)));
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
        assert!(matches!(packet_length(&bytes, bytes.len()), PacketLength::Complete { .. }));
        assert!(matches!(packet_length(&bytes, bytes.len() - 1), PacketLength::TooLong { .. }));
    }
}
