//! feed: a client opens a feed of committed transactions, and the server pushes them in order. The client
//! grants credit in bytes; a feed without credit stands still.

use crate::client::request::RequestError;
use crate::error_code::ErrorCode;
use crate::jute::{Buffer, DecodeError, Jute, Reader};
use crate::record;

/// The bit of hello for pushes of feeds: a client understands them, a server has feeds.
pub const FEATURE_FEED: i32 = 2;

/// The first field of a [`FeedBatch`] as a push.
pub const PUSH_FEED: i32 = 1;

/// The first field of a [`FeedEnd`] as a push.
pub const PUSH_FEED_END: i32 = 3;

/// [`FeedOpen::after`]: the feed begins with the next transaction.
pub const FROM_NOW: i64 = -1;

/// Prefixes of one feed.
pub const PREFIXES_MAX: usize = 16;

const DATA: i32 = 1;
const SESSIONS: i32 = 2;
const ACL_CHANGES: i32 = 4;

/// The kinds of changes that a feed shows besides created, deleted and changed nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedOptions {
    /// Records have the data of nodes.
    pub data: bool,
    /// Sessions that begin and end are shown.
    pub sessions: bool,
    /// Changes of ACLs are shown, without the ACL.
    pub acl_changes: bool,
}

/// The request for a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedOpen {
    /// The feed begins behind this zxid, or now.
    pub after: i64,
    /// Nodes at or below one of these paths are shown; all nodes if there is none.
    pub prefixes: Vec<Box<str>>,
    /// The kinds of changes that are shown.
    pub options: FeedOptions,
    /// Bytes that the server may push.
    pub credit: i32,
}

record! {
    /// The reply to [`FeedOpen`].
    #[derive(Copy)]
    pub struct FeedOpened {
        /// The number of the feed on this connection.
        pub feed: i32,
        /// The last transaction that the server has applied.
        pub last: i64,
    }
}

record! {
    /// The request for more of a feed.
    #[derive(Copy)]
    pub struct FeedCredit {
        /// The number of the feed.
        pub feed: i32,
        /// Bytes that the server may push in addition; zero closes the feed.
        pub credit: i32,
    }
}

/// A request about feeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedRequest {
    /// Opens a feed.
    Open(Box<FeedOpen>),
    /// Grants credit, or closes a feed.
    Credit(FeedCredit),
}

macro_rules! wire_bytes {
    ($(#[$meta:meta])* pub enum $name:ident, $what:literal { $($(#[$kind_meta:meta])* $kind:ident = $byte:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name { $($(#[$kind_meta])* $kind = $byte,)* }

        impl Jute for $name {
            const SIZE_MIN: usize = 1;

            fn encode(&self, out: &mut Vec<u8>) {
                out.push(*self as u8);
            }

            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                match reader.take(1)? {
                    $([$byte] => Ok($name::$kind),)*
                    other => {
                        let value = other.first().copied().unwrap_or_default().into();
                        Err(DecodeError::Unknown { what: $what, value })
                    }
                }
            }
        }
    };
}

wire_bytes! {
    /// What happened.
    pub enum ChangeKind, "kind of change" {
        /// A node was created.
        Created = 1,
        /// A node was deleted.
        Deleted = 2,
        /// A node has new data.
        DataChanged = 3,
        /// A node has a new ACL.
        AclChanged = 4,
        /// The session of the record began; the path is empty.
        SessionOpened = 5,
        /// The session of the record ended; the path is empty.
        SessionEnded = 6,
    }
}

wire_bytes! {
    /// The kind of a created node. All other changes have `Plain`.
    pub enum CreatedOwner, "kind of node" {
        /// It stays.
        Plain = 0,
        /// It belongs to the session of the record.
        Ephemeral = 1,
        /// It is removed when its last child is deleted.
        Container = 2,
        /// It is removed when it was not modified for a while.
        Ttl = 3,
    }
}

record! {
    /// One change of a transaction.
    pub struct FeedChange {
        /// What happened.
        pub kind: ChangeKind,
        /// The path of the node.
        pub path: Box<str>,
        /// The data version or the ACL version after the change; -1 for a deleted node, 0 for a session.
        pub version: i32,
        /// The data of a created or changed node, if the feed shows data.
        pub data: Buffer,
        /// The kind of a created node.
        pub owner: CreatedOwner,
    }
}

record! {
    /// The changes of one transaction that a feed shows.
    pub struct FeedRecord {
        /// The transaction.
        pub zxid: i64,
        /// The clock of the leader, milliseconds since 1970.
        pub time_ms: i64,
        /// The session that wrote; zero for the server's own transactions.
        pub session: i64,
        /// Its changes, in order: all parts of a multi.
        pub changes: Vec<FeedChange>,
    }
}

record! {
    /// A part of a feed: everything behind `from` up to `to` that it shows. Without records it tells the
    /// progress.
    pub struct FeedBatch {
        /// The number of the feed.
        pub feed: i32,
        /// The end of the last batch, or the begin of the feed.
        pub from: i64,
        /// The feed continues behind this zxid, also on another server.
        pub to: i64,
        /// The transactions.
        pub records: Vec<FeedRecord>,
    }
}

record! {
    /// The feed has ended.
    #[derive(Copy)]
    pub struct FeedEnd {
        /// The number of the feed.
        pub feed: i32,
        /// An error code: [`ErrorCode::LogPurged`] if transactions are missing.
        pub reason: i32,
        /// The server may have the transactions behind this zxid.
        pub oldest: i64,
    }
}

/// The body of a push about a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedPush {
    /// A part of the feed.
    Batch(FeedBatch),
    /// The end of the feed.
    End(FeedEnd),
}

impl FeedOptions {
    fn bits(self) -> i32 {
        let bit = |is_set: bool, bit: i32| if is_set { bit } else { 0 };
        bit(self.data, DATA) | bit(self.sessions, SESSIONS) | bit(self.acl_changes, ACL_CHANGES)
    }
}

impl FeedOpen {
    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.after.encode(out);
        self.prefixes.encode(out);
        self.options.bits().encode(out);
        self.credit.encode(out);
    }

    /// Unknown options are refused: they may ask for more.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<FeedOpen, RequestError> {
        let after = reader.long()?;
        let count = reader.int()?;
        if !(0..=PREFIXES_MAX as i32).contains(&count) {
            return Err(RequestError::BadArguments);
        }
        let prefixes = (0..count).map(|_| Box::<str>::decode(reader)).collect::<Result<_, _>>()?;
        let (bits, credit) = (reader.int()?, reader.int()?);
        if after < FROM_NOW || credit < 1 || bits & !(DATA | SESSIONS | ACL_CHANGES) != 0 {
            return Err(RequestError::BadArguments);
        }
        let options = FeedOptions {
            data: bits & DATA != 0,
            sessions: bits & SESSIONS != 0,
            acl_changes: bits & ACL_CHANGES != 0,
        };
        Ok(FeedOpen { after, prefixes, options, credit })
    }
}

impl FeedRequest {
    pub(super) fn decode_credit(reader: &mut Reader<'_>) -> Result<FeedRequest, RequestError> {
        let request = FeedCredit::decode(reader)?;
        if request.credit < 0 {
            return Err(RequestError::BadArguments);
        }
        Ok(FeedRequest::Credit(request))
    }
}

impl FeedRecord {
    /// The bytes of the record in a push.
    pub fn encoded_length(&self) -> usize {
        let change =
            |change: &FeedChange| 14 + change.path.len() + change.data.as_ref().map_or(0, |it| it.len());
        28 + self.changes.iter().map(change).sum::<usize>()
    }
}

impl FeedPush {
    /// Appends the body of the push.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            FeedPush::Batch(batch) => {
                PUSH_FEED.encode(out);
                batch.encode(out);
            }
            FeedPush::End(end) => {
                PUSH_FEED_END.encode(out);
                end.encode(out);
            }
        }
    }

    /// Decodes the body of a push; `None` if it is about something else.
    ///
    /// # Errors
    /// The bytes are cut short, or have a kind of change that this release does not know.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Option<FeedPush>, DecodeError> {
        Ok(match reader.int()? {
            PUSH_FEED => Some(FeedPush::Batch(FeedBatch::decode(reader)?)),
            PUSH_FEED_END => Some(FeedPush::End(FeedEnd::decode(reader)?)),
            _ => None,
        })
    }
}

impl FeedEnd {
    /// The server cannot prove that it has all transactions.
    pub const fn purged(feed: i32, oldest: i64) -> FeedEnd {
        FeedEnd { feed, reason: ErrorCode::LogPurged.wire(), oldest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Request;

    const OPEN: i32 = 0x5A42_0005;
    const CREDIT: i32 = 0x5A42_0006;

    fn decode<'a>(op: i32, bytes: &'a [u8]) -> Result<Request<'a>, RequestError> {
        Request::decode(op, &mut Reader::new(bytes))
    }

    fn open(after: i64, prefixes: i32, options: i32, credit: i32) -> Vec<u8> {
        let mut bytes = Vec::new();
        after.encode(&mut bytes);
        prefixes.encode(&mut bytes);
        (0..prefixes).for_each(|_| Box::<str>::from("/a").encode(&mut bytes));
        options.encode(&mut bytes);
        credit.encode(&mut bytes);
        bytes
    }

    #[test]
    fn requests_have_this_layout() {
        let options = FeedOptions { data: true, sessions: false, acl_changes: true };
        let whole = FeedOpen { after: 7, prefixes: vec!["/a".into()], options, credit: 9 };
        let mut bytes = Vec::new();
        whole.encode(&mut bytes);
        let expected = [0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, b'/', b'a', 0, 0, 0, 5, 0, 0, 0, 9];
        assert_eq!(bytes, expected);
        assert_eq!(decode(OPEN, &bytes), Ok(Request::Feed(FeedRequest::Open(Box::new(whole)))));
        let credit = FeedCredit { feed: 3, credit: 0 };
        assert_eq!(decode(CREDIT, &[0, 0, 0, 3, 0, 0, 0, 0]), Ok(Request::Feed(FeedRequest::Credit(credit))));
    }

    #[test]
    fn impossible_requests_are_refused() {
        for bytes in
            [open(-2, 0, 0, 1), open(0, 17, 0, 1), open(0, 0, 8, 1), open(0, 0, 0, 0), open(0, -1, 0, 1)]
        {
            assert_eq!(decode(OPEN, &bytes), Err(RequestError::BadArguments), "{bytes:?}");
        }
        assert!(decode(OPEN, &open(-1, 16, 7, 1)).is_ok());
        assert_eq!(decode(CREDIT, &[0, 0, 0, 3, 255, 255, 255, 255]), Err(RequestError::BadArguments));
        let whole = open(0, 2, 7, 1);
        for length in 0..whole.len() {
            assert_eq!(decode(OPEN, &whole[..length]), Err(RequestError::Undecodable), "{length}");
        }
    }

    fn batch() -> FeedBatch {
        let node = FeedChange {
            kind: ChangeKind::Created,
            path: "/a".into(),
            version: 0,
            data: Some([7, 8].into()),
            owner: CreatedOwner::Ttl,
        };
        let session = FeedChange {
            kind: ChangeKind::SessionEnded,
            path: "".into(),
            version: 0,
            data: None,
            owner: CreatedOwner::Plain,
        };
        let record = FeedRecord { zxid: 5, time_ms: 6, session: 7, changes: vec![node, session] };
        FeedBatch { feed: 1, from: 2, to: 5, records: vec![record] }
    }

    #[test]
    fn pushes_round_trip_and_tell_their_length() {
        for push in [FeedPush::Batch(batch()), FeedPush::End(FeedEnd::purged(3, 4))] {
            let mut bytes = Vec::new();
            push.encode(&mut bytes);
            assert_eq!(FeedPush::decode(&mut Reader::new(&bytes)), Ok(Some(push)));
            for length in 0..bytes.len() {
                assert!(FeedPush::decode(&mut Reader::new(&bytes[..length])).is_err(), "{length}");
            }
        }
        let mut bytes = Vec::new();
        batch().records[0].encode(&mut bytes);
        assert_eq!(bytes.len(), batch().records[0].encoded_length());
    }

    #[test]
    fn other_pushes_and_unknown_changes_are_no_feed() {
        assert_eq!(FeedPush::decode(&mut Reader::new(&[0, 0, 0, 2, 0, 0, 0, 9])), Ok(None));
        let mut bytes = Vec::new();
        FeedPush::Batch(batch()).encode(&mut bytes);
        // Kind, feed, two zxids, the number of records; zxid, time and session of the first; its changes.
        let kind = 4 + 4 + 8 + 8 + 4 + 24 + 4;
        assert_eq!(bytes[kind], 1);
        for unknown in [0, 7, 255] {
            bytes[kind] = unknown;
            assert!(FeedPush::decode(&mut Reader::new(&bytes)).is_err(), "{unknown}");
        }
        // A count without content must not take memory.
        let mut hostile = bytes[..4 + 4 + 8 + 8].to_vec();
        hostile.extend([127, 255, 255, 255]);
        assert!(FeedPush::decode(&mut Reader::new(&hostile)).is_err());
    }
}
