//! page: children of a node in pages, by name. Stats and data of the children come with them on demand.

use crate::client::read::Watch;
use crate::client::request::RequestError;
use crate::jute::{Buffer, Jute, Reader, Text};
use crate::record;
use crate::stat::Stat;

pub(super) const STATS: i32 = 1;
pub(super) const DATA: i32 = 2;
const PERSISTENT: i32 = 4;
const EPHEMERAL: i32 = 8;
const WATCH: i32 = 16;

/// Which children a list contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChildKind {
    /// All.
    #[default]
    All,
    /// Those that do not belong to a session.
    Persistent,
    /// Those that belong to a session.
    Ephemeral,
}

/// The request for one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// The parent.
    pub path: Box<str>,
    /// The page begins behind this name; the empty name is before all others.
    pub after: Box<str>,
    /// Most children of the page.
    pub max: i32,
    /// Whether the reply has the stats of the children.
    pub stats: bool,
    /// Whether the reply has the data of the children.
    pub data: bool,
    /// Which children are listed.
    pub kind: ChildKind,
    /// Set with the last page.
    pub watch: Watch,
}

record! {
    /// The reply. It shows one state, that of the zxid in the header. A page may have fewer children than
    /// requested, and even none, although others follow.
    pub struct PageReply {
        /// The stat of the parent.
        pub stat: Stat,
        /// Names, in the order of their bytes.
        pub children: Vec<Box<str>>,
        /// One stat per name, or none if stats were not requested. A czxid of -1 marks a child that the
        /// client may not read.
        pub stats: Vec<Stat>,
        /// The data of each name, or none if data was not requested.
        pub data: Vec<Buffer>,
        /// Whether children follow.
        pub more: bool,
        /// The name behind which the next page begins; null on the last page.
        pub next: Text,
    }
}

impl PageRequest {
    /// The first page, with names only.
    pub fn new(path: &str, max: i32) -> PageRequest {
        PageRequest {
            path: path.into(),
            after: "".into(),
            max,
            stats: false,
            data: false,
            kind: ChildKind::All,
            watch: Watch::None,
        }
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.path.encode(out);
        self.after.encode(out);
        self.max.encode(out);
        let kind = match self.kind {
            ChildKind::All => 0,
            ChildKind::Persistent => PERSISTENT,
            ChildKind::Ephemeral => EPHEMERAL,
        };
        let watch = if self.watch == Watch::Set { WATCH } else { 0 };
        (encode_parts(self.stats, self.data) | kind | watch).encode(out);
    }

    /// Unknown options are refused: they may ask for more.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<PageRequest, RequestError> {
        let (path, after) = (Box::<str>::decode(reader)?, Box::<str>::decode(reader)?);
        let (max, options) = (reader.int()?, reader.int()?);
        let kind = match options & (PERSISTENT | EPHEMERAL) {
            0 => ChildKind::All,
            PERSISTENT => ChildKind::Persistent,
            EPHEMERAL => ChildKind::Ephemeral,
            _ => return Err(RequestError::BadArguments),
        };
        if max < 1 || options & !(STATS | DATA | PERSISTENT | EPHEMERAL | WATCH) != 0 {
            return Err(RequestError::BadArguments);
        }
        let (stats, data) = (options & STATS != 0, options & DATA != 0);
        let watch = Watch::from(options & WATCH != 0);
        Ok(PageRequest { path, after, max, stats, data, kind, watch })
    }
}

/// The option bits for stats and data.
pub(super) fn encode_parts(stats: bool, data: bool) -> i32 {
    (if stats { STATS } else { 0 }) | (if data { DATA } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ReadRequest, Request};

    const OP: i32 = 0x5A42_0002;

    fn decode<'a>(bytes: &'a [u8]) -> Result<Request<'a>, RequestError> {
        Request::decode(OP, &mut Reader::new(bytes))
    }

    fn vector(max: u8, options: u8) -> Vec<u8> {
        vec![0, 0, 0, 2, b'/', b'a', 0, 0, 0, 1, b'b', 0, 0, 0, max, 0, 0, 0, options]
    }

    #[test]
    fn options_are_bits() {
        let plain = PageRequest { after: "b".into(), ..PageRequest::new("/a", 7) };
        for (options, request) in [
            (0, plain.clone()),
            (1, PageRequest { stats: true, ..plain.clone() }),
            (2, PageRequest { data: true, ..plain.clone() }),
            (4, PageRequest { kind: ChildKind::Persistent, ..plain.clone() }),
            (8, PageRequest { kind: ChildKind::Ephemeral, ..plain.clone() }),
            (16, PageRequest { watch: Watch::Set, ..plain.clone() }),
        ] {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            assert_eq!(bytes, vector(7, options));
            assert_eq!(decode(&bytes), Ok(Request::Read(ReadRequest::Page(Box::new(request)))));
        }
    }

    #[test]
    fn impossible_requests_are_refused() {
        for (max, options) in [(0, 0), (7, 12), (7, 32), (7, 64)] {
            assert_eq!(decode(&vector(max, options)), Err(RequestError::BadArguments), "{max} {options}");
        }
        for length in 0..vector(7, 1).len() {
            assert_eq!(decode(&vector(7, 1)[..length]), Err(RequestError::Undecodable), "{length}");
        }
    }

    #[test]
    fn a_reply_names_the_place_of_the_next_page() {
        let reply = PageReply {
            stat: Stat::default(),
            children: vec!["b".into()],
            stats: Vec::new(),
            data: vec![None],
            more: true,
            next: Some("b".into()),
        };
        let mut bytes = Vec::new();
        reply.encode(&mut bytes);
        let tail = [
            [0, 0, 0, 1].as_slice(),
            &[0, 0, 0, 1, b'b'],
            &[0, 0, 0, 0],
            &[0, 0, 0, 1, 255, 255, 255, 255],
            &[1],
            &[0, 0, 0, 1, b'b'],
        ];
        assert_eq!(bytes[68..], tail.concat());
        assert_eq!(PageReply::decode(&mut Reader::new(&bytes)), Ok(reply));
    }
}
