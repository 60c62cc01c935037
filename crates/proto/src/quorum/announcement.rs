//! The tail with which a Zebu server tells another that it is one. It follows the fields of FOLLOWERINFO,
//! OBSERVERINFO and LEADERINFO. Apache ZooKeeper reads these packets only up to the fields that it knows.

use crate::jute::{Jute, Reader};

/// The first four bytes of the tail: "ZEBU".
const MAGIC: i32 = 0x5A45_4255;

/// The length of the tail.
const TAIL_SIZE: usize = 12;

/// Features that a server has for its peers, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u32);

impl Capabilities {
    /// A leader reads the room on the disks of its followers from their ping replies.
    pub const DISK_ROOM: Capabilities = Capabilities(16);

    /// A leader knows the private writes of clients that learners forward.
    pub const PRIVATE_WRITES: Capabilities = Capabilities(1);

    /// A leader answers a sync only when a quorum has confirmed its leadership after the sync arrived.
    pub const STRICT_SYNC: Capabilities = Capabilities(32);

    /// All bits of both.
    pub const fn and(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 | other.0)
    }

    /// Whether all bits of `wanted` are set.
    pub const fn has(self, wanted: Capabilities) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

/// The version and the capabilities of a Zebu server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAnnouncement {
    /// The version of the exchange between Zebu servers.
    pub version: u32,
    /// The features of the server.
    pub capabilities: Capabilities,
}

impl PeerAnnouncement {
    /// The announcement of this release.
    pub const CURRENT: PeerAnnouncement = PeerAnnouncement {
        version: 1,
        capabilities: Capabilities::STRICT_SYNC
            .and(Capabilities::DISK_ROOM)
            .and(Capabilities::PRIVATE_WRITES),
    };

    /// Appends the tail.
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        MAGIC.encode(out);
        out.extend_from_slice(&self.version.to_be_bytes());
        out.extend_from_slice(&self.capabilities.0.to_be_bytes());
    }

    /// Decodes the rest of a packet. Other bytes than a tail are ignored, as other servers do.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<PeerAnnouncement> {
        if reader.remaining() < TAIL_SIZE || reader.int().ok()? != MAGIC {
            return None;
        }
        let mut unsigned = || reader.int().ok().map(i32::cast_unsigned);
        Some(PeerAnnouncement { version: unsigned()?, capabilities: Capabilities(unsigned()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Option<PeerAnnouncement> {
        PeerAnnouncement::decode(&mut Reader::new(bytes))
    }

    #[test]
    fn a_tail_has_twelve_bytes() {
        let mut bytes = Vec::new();
        let announcement = PeerAnnouncement { version: 1, capabilities: Capabilities(0x8000_0021) };
        announcement.encode(&mut bytes);
        assert_eq!(bytes, [b'Z', b'E', b'B', b'U', 0, 0, 0, 1, 0x80, 0, 0, 0x21]);
        assert_eq!(decoded(&bytes), Some(announcement));
        bytes.push(7);
        assert_eq!(decoded(&bytes), Some(announcement), "a later version may have more");
    }

    #[test]
    fn other_bytes_are_no_tail() {
        assert_eq!(decoded(&[]), None);
        assert_eq!(decoded(b"ZEBU\0\0\0\x01\0\0\0"), None, "cut short");
        assert_eq!(decoded(b"ZEBV\0\0\0\x01\0\0\0\0"), None);
    }

    #[test]
    fn capabilities_are_bits() {
        assert!(Capabilities(0xff).has(Capabilities::STRICT_SYNC));
        assert!(!Capabilities(31).has(Capabilities::STRICT_SYNC));
        assert!(!Capabilities(1).has(Capabilities(3)));
        assert_eq!(PeerAnnouncement::CURRENT.capabilities, Capabilities(49));
    }
}
