//! deltree: deletes a part of a subtree in one transaction, leaves first. The client repeats it while nodes
//! are left.

use crate::client::request::RequestError;
use crate::jute::{Jute, Reader};
use crate::record;

const KEEP_ROOT: i32 = 1;
const LEAVE_EPHEMERALS: i32 = 2;

/// The request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteTreeRequest {
    /// The first node of the subtree.
    pub root: Box<str>,
    /// Most nodes that are deleted. The length of a transaction limits them too.
    pub max: i32,
    /// Whether the root stays.
    pub keep_root: bool,
    /// Whether ephemeral nodes stay, and with them the nodes above them.
    pub leave_ephemerals: bool,
}

record! {
    /// The reply.
    #[derive(Copy)]
    pub struct DeleteTreeReply {
        /// Nodes that were deleted.
        pub deleted: i64,
        /// Whether the request must be repeated.
        pub more: bool,
    }
}

impl DeleteTreeRequest {
    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.root.encode(out);
        self.max.encode(out);
        let keep_root = if self.keep_root { KEEP_ROOT } else { 0 };
        let leave_ephemerals = if self.leave_ephemerals { LEAVE_EPHEMERALS } else { 0 };
        (keep_root | leave_ephemerals).encode(out);
    }

    /// Unknown options are refused: they may ask for more.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<DeleteTreeRequest, RequestError> {
        let root = Box::<str>::decode(reader)?;
        let (max, options) = (reader.int()?, reader.int()?);
        if max < 1 || options & !(KEEP_ROOT | LEAVE_EPHEMERALS) != 0 {
            return Err(RequestError::BadArguments);
        }
        let (keep_root, leave_ephemerals) = (options & KEEP_ROOT != 0, options & LEAVE_EPHEMERALS != 0);
        Ok(DeleteTreeRequest { root, max, keep_root, leave_ephemerals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Request, WriteRequest};

    const OP: i32 = 0x5A42_0004;

    fn decode<'a>(bytes: &'a [u8]) -> Result<Request<'a>, RequestError> {
        Request::decode(OP, &mut Reader::new(bytes))
    }

    fn vector(max: u8, options: u8) -> Vec<u8> {
        vec![0, 0, 0, 2, b'/', b'a', 0, 0, 0, max, 0, 0, 0, options]
    }

    #[test]
    fn options_are_bits() {
        for options in 0..4 {
            let request = DeleteTreeRequest {
                root: "/a".into(),
                max: 3,
                keep_root: options & 1 != 0,
                leave_ephemerals: options & 2 != 0,
            };
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            assert_eq!(bytes, vector(3, options));
            assert_eq!(decode(&bytes), Ok(Request::Write(WriteRequest::DeleteTree(request))));
        }
    }

    #[test]
    fn impossible_requests_are_refused() {
        for (max, options) in [(0, 0), (3, 4), (3, 128)] {
            assert_eq!(decode(&vector(max, options)), Err(RequestError::BadArguments), "{max} {options}");
        }
        for length in 0..vector(3, 0).len() {
            assert_eq!(decode(&vector(3, 0)[..length]), Err(RequestError::Undecodable), "{length}");
        }
    }

    #[test]
    fn a_reply_has_nine_bytes() {
        let mut bytes = Vec::new();
        DeleteTreeReply { deleted: 5, more: true }.encode(&mut bytes);
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 5, 1]);
    }
}
