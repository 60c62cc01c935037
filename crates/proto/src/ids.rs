//! Identifiers as types: a zxid cannot be mistaken for a session id. All are fixed-width on the wire.

use std::fmt;

/// Position of a transaction in the history: epoch in the high 32 bits, counter in the low 32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Zxid(pub i64);

impl Zxid {
    /// The zxid before any transaction.
    pub const ZERO: Zxid = Zxid(0);

    /// Builds a zxid from its two halves.
    pub const fn new(epoch: u32, counter: u32) -> Zxid {
        Zxid(((epoch as i64) << 32) | counter as i64)
    }

    /// The leader epoch in which the transaction was proposed.
    pub const fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The position inside the epoch.
    pub const fn counter(self) -> u32 {
        self.0 as u32
    }

    /// The zxid that follows inside the same epoch; `None` when the counter is used up.
    pub const fn next(self) -> Option<Zxid> {
        if self.counter() == u32::MAX { None } else { Some(Zxid(self.0 + 1)) }
    }
}

impl fmt::Display for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A client session. The top byte names the server that created it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionId(pub i64);

impl SessionId {
    /// "No session yet" in a connect request; the owner of server-internal transactions.
    pub const NONE: SessionId = SessionId(0);
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The number that a client assigns to its request, to match the reply.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Xid(pub i32);

impl Xid {
    /// Header of a watch event.
    pub const NOTIFICATION: Xid = Xid(-1);
    /// Header of a ping and of its reply, whatever the client sent.
    pub const PING: Xid = Xid(-2);
    /// The xid of auth packets.
    pub const AUTH: Xid = Xid(-4);
    /// The xid of setWatches of some clients.
    pub const SET_WATCHES: Xid = Xid(-8);
    /// Header of a push of Zebu. Only a client that has said hello gets one.
    pub const PUSH: Xid = Xid(-0x5A42);
}

/// A server of an ensemble: the number in its `myid` file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerId(pub i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zxid_halves() {
        let zxid = Zxid::new(2, 0xffff_fffe);
        assert_eq!((zxid.epoch(), zxid.counter()), (2, 0xffff_fffe));
        let last = zxid.next().unwrap();
        assert_eq!(last, Zxid::new(2, 0xffff_ffff));
        assert_eq!(last.next(), None);
        assert_eq!(format!("{last}"), "0x2ffffffff");
    }
}
