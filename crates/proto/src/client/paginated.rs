//! getChildrenPaginated: names of children in pages, oldest first. The operation and its layout are those of
//! LinkedIn's fork of ZooKeeper.

use crate::client::read::Watch;
use crate::client::request::RequestError;
use crate::jute::{Jute, Reader};
use crate::record;
use crate::stat::Stat;

/// The request for one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaginatedRequest {
    /// The parent.
    pub path: Box<str>,
    /// Most names of the page. `i32::MAX` asks for all of them in any order, if they fit.
    pub max: i32,
    /// Where the page begins.
    pub from: NextPage,
    /// Set with the last page.
    pub watch: Watch,
}

record! {
    /// Where a page begins: at the children that this transaction or a later one created.
    #[derive(Copy)]
    pub struct NextPage {
        /// The transaction; -1 after the last page.
        pub min_czxid: i64,
        /// Children of this very transaction that are skipped; -1 after the last page.
        pub offset: i32,
    }
}

impl NextPage {
    /// The first page.
    pub const FIRST: NextPage = NextPage { min_czxid: 0, offset: 0 };
    /// There is no further page.
    pub const NONE: NextPage = NextPage { min_czxid: -1, offset: -1 };
}

record! {
    /// The reply.
    pub struct PaginatedReply {
        /// The names.
        pub children: Vec<Box<str>>,
        /// The stat of the parent.
        pub stat: Stat,
        /// Where the next page begins.
        pub next: NextPage,
    }
}

impl PaginatedRequest {
    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.path.encode(out);
        self.max.encode(out);
        self.from.encode(out);
        (self.watch == Watch::Set).encode(out);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<PaginatedRequest, RequestError> {
        let path = Box::<str>::decode(reader)?;
        let max = reader.int()?;
        let from = NextPage::decode(reader)?;
        let watch = Watch::from(reader.boolean()?);
        if max < 1 {
            return Err(RequestError::BadArguments);
        }
        Ok(PaginatedRequest { path, max, from, watch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ReadRequest, Request};

    const OP: i32 = 71;

    fn decode<'a>(bytes: &'a [u8]) -> Result<Request<'a>, RequestError> {
        Request::decode(OP, &mut Reader::new(bytes))
    }

    /// The body as LinkedIn's Java client writes it, byte by byte.
    fn vector(max: i32) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 2, b'/', b'a'];
        bytes.extend(max.to_be_bytes());
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 3, 1]);
        bytes
    }

    #[test]
    fn a_request_has_the_layout_of_the_fork() {
        let request = PaginatedRequest {
            path: "/a".into(),
            max: 5,
            from: NextPage { min_czxid: 0x1_0000_0009, offset: 3 },
            watch: Watch::Set,
        };
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        assert_eq!(bytes, vector(5));
        assert_eq!(
            decode(&vector(5)),
            Ok(Request::Read(ReadRequest::GetChildrenPaginated(Box::new(request))))
        );
    }

    #[test]
    fn pages_without_names_and_short_bodies_are_refused() {
        assert_eq!(decode(&vector(0)), Err(RequestError::BadArguments));
        assert_eq!(decode(&vector(i32::MIN)), Err(RequestError::BadArguments));
        for length in 0..vector(5).len() {
            assert_eq!(decode(&vector(5)[..length]), Err(RequestError::Undecodable), "{length}");
        }
    }

    #[test]
    fn a_reply_ends_with_the_next_page() {
        let reply =
            PaginatedReply { children: vec!["b".into()], stat: Stat::default(), next: NextPage::NONE };
        let mut bytes = Vec::new();
        reply.encode(&mut bytes);
        assert_eq!(bytes[..9], [0, 0, 0, 1, 0, 0, 0, 1, b'b']);
        assert_eq!(bytes[9 + 68..], [255; 12]);
        assert_eq!(PaginatedReply::decode(&mut Reader::new(&bytes)), Ok(reply));
    }
}
