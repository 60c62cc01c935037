//! The meaning of a node's `ephemeralOwner`: a session, the container mark or a time to live.

use zebu_proto::SessionId;

use crate::options::TtlNodes;

/// The owner of every container.
pub const CONTAINER_OWNER: i64 = i64::MIN;
/// Top byte of an extended type.
const EXTENDED_MASK: i64 = 0xff00_0000_0000_0000_u64 as i64;
/// Which extended type; zero is a time to live.
const FEATURE_MASK: i64 = 0x00ff_ff00_0000_0000;
/// The value of an extended type.
const VALUE_MASK: i64 = 0x0000_00ff_ffff_ffff;
/// The longest time to live.
pub const TTL_MAX_MS: i64 = VALUE_MASK;

/// The lifetime of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Until it is deleted.
    Persistent,
    /// Until its session ends.
    Session(SessionId),
    /// Until some time after its last child was deleted.
    Container,
    /// Until it was not modified for this many milliseconds; zero never expires.
    Ttl(i64),
    /// An extended type that this release does not know.
    Unknown,
}

impl Lifetime {
    /// Reads a stored owner.
    pub fn of_owner(owner: i64, ttl_nodes: TtlNodes) -> Lifetime {
        if owner == 0 {
            return Lifetime::Persistent;
        }
        if owner == CONTAINER_OWNER {
            return Lifetime::Container;
        }
        let session = Lifetime::Session(SessionId(owner));
        match ttl_nodes {
            TtlNodes::Disabled => session,
            TtlNodes::Emulate353 if owner < 0 => Lifetime::Ttl(owner & VALUE_MASK),
            TtlNodes::Enabled | TtlNodes::Emulate353 => {
                if owner & EXTENDED_MASK != EXTENDED_MASK {
                    session
                } else if owner & FEATURE_MASK == 0 {
                    Lifetime::Ttl(owner & VALUE_MASK)
                } else {
                    Lifetime::Unknown
                }
            }
        }
    }

    /// The session of an ordinary ephemeral.
    pub fn session(self) -> Option<SessionId> {
        match self {
            Lifetime::Session(session) => Some(session),
            Lifetime::Persistent | Lifetime::Container | Lifetime::Ttl(_) | Lifetime::Unknown => None,
        }
    }

    /// The owner in the stat that clients see.
    pub(crate) fn shown_owner(self) -> i64 {
        self.session().map_or(0, |session| session.0)
    }
}

/// The stored owner of a TTL node. Bits beyond the value are dropped: the caller has checked the range, and a
/// transaction of another server must not stop this one.
pub(crate) fn ttl_owner(ttl_ms: i64) -> i64 {
    EXTENDED_MASK | (ttl_ms & VALUE_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_by_setting() {
        let ttl = ttl_owner(5000);
        assert_eq!(ttl, 0xff00_0000_0000_1388_u64 as i64);
        for (owner, disabled, enabled, emulated) in [
            (0, Lifetime::Persistent, Lifetime::Persistent, Lifetime::Persistent),
            (i64::MIN, Lifetime::Container, Lifetime::Container, Lifetime::Container),
            (
                7,
                Lifetime::Session(SessionId(7)),
                Lifetime::Session(SessionId(7)),
                Lifetime::Session(SessionId(7)),
            ),
            (ttl, Lifetime::Session(SessionId(ttl)), Lifetime::Ttl(5000), Lifetime::Ttl(5000)),
            (
                i64::MIN + 9,
                Lifetime::Session(SessionId(i64::MIN + 9)),
                Lifetime::Session(SessionId(i64::MIN + 9)),
                Lifetime::Ttl(9),
            ),
            (-1, Lifetime::Session(SessionId(-1)), Lifetime::Unknown, Lifetime::Ttl(TTL_MAX_MS)),
        ] {
            assert_eq!(Lifetime::of_owner(owner, TtlNodes::Disabled), disabled, "{owner:#x}");
            assert_eq!(Lifetime::of_owner(owner, TtlNodes::Enabled), enabled, "{owner:#x}");
            assert_eq!(Lifetime::of_owner(owner, TtlNodes::Emulate353), emulated, "{owner:#x}");
        }
        assert_eq!(Lifetime::Ttl(5).shown_owner(), 0);
        assert_eq!(Lifetime::Session(SessionId(5)).shown_owner(), 5);
    }
}
