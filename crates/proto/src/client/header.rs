//! The headers in front of every request but the first, and of every reply but the first.

use crate::record;

record! {
    /// Eight bytes in front of a request.
    #[derive(Copy)]
    pub struct RequestHeader {
        /// Number of the request.
        pub xid: i32,
        /// Operation code.
        pub op: i32,
    }
}

record! {
    /// Sixteen bytes in front of a reply or an event. A body follows only when `err` is zero.
    #[derive(Copy)]
    pub struct ReplyHeader {
        /// Number of the request; -1 for an event.
        pub xid: i32,
        /// The last transaction that the server had applied.
        pub zxid: i64,
        /// Zero or an error code.
        pub err: i32,
    }
}

/// Bytes of an encoded [`ReplyHeader`].
pub const REPLY_HEADER_SIZE: usize = 16;
