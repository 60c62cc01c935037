//! scan: the nodes of a subtree in pages. A node comes before the nodes below it, and siblings come in the
//! order of their names.

use crate::client::page::{DATA, STATS, encode_parts};
use crate::client::request::RequestError;
use crate::jute::{Buffer, DecodeError, Jute, Reader, Text};
use crate::stat::Stat;

/// The request for one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRequest {
    /// The first node of the subtree.
    pub root: Box<str>,
    /// The page begins behind this path; the empty path is before the root.
    pub after: Box<str>,
    /// Bytes after which the page ends. One node may exceed them.
    pub bytes: i32,
    /// Levels below the root; -1 is all of them.
    pub depth: i32,
    /// Whether the reply has stats.
    pub stats: bool,
    /// Whether the reply has data.
    pub data: bool,
}

/// A node of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedNode {
    /// Its path.
    pub path: Box<str>,
    /// Its stat, if it was requested.
    pub stat: Option<Stat>,
    /// Its data, if it was requested.
    pub data: Option<Buffer>,
}

/// The reply. A page may have no node although others follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanReply {
    /// The nodes that the client may read. Nodes that it may not read are left out with their subtrees.
    pub nodes: Vec<ScannedNode>,
    /// Whether nodes follow.
    pub more: bool,
    /// The path behind which the next page begins; null on the last page.
    pub next: Text,
}

impl ScanRequest {
    /// The first page of a whole subtree, with paths only.
    pub fn new(root: &str, bytes: i32) -> ScanRequest {
        ScanRequest { root: root.into(), after: "".into(), bytes, depth: -1, stats: false, data: false }
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.root.encode(out);
        self.after.encode(out);
        self.bytes.encode(out);
        self.depth.encode(out);
        encode_parts(self.stats, self.data).encode(out);
    }

    /// Unknown options are refused: they may ask for more.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<ScanRequest, RequestError> {
        let (root, after) = (Box::<str>::decode(reader)?, Box::<str>::decode(reader)?);
        let (bytes, depth, options) = (reader.int()?, reader.int()?, reader.int()?);
        if bytes < 1 || depth < -1 || options & !(STATS | DATA) != 0 {
            return Err(RequestError::BadArguments);
        }
        let (stats, data) = (options & STATS != 0, options & DATA != 0);
        Ok(ScanRequest { root, after, bytes, depth, stats, data })
    }
}

impl ScannedNode {
    /// Appends the node.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.path.encode(out);
        if let Some(stat) = &self.stat {
            stat.encode(out);
        }
        if let Some(data) = &self.data {
            data.encode(out);
        }
    }
}

impl ScanReply {
    /// Decodes the reply to a request for these parts.
    ///
    /// # Errors
    /// The bytes are cut short or no reply.
    pub fn decode(reader: &mut Reader<'_>, stats: bool, data: bool) -> Result<ScanReply, DecodeError> {
        let mut nodes = Vec::new();
        for _ in 0..reader.int()?.max(0) {
            let path = Box::<str>::decode(reader)?;
            let stat = if stats { Some(Stat::decode(reader)?) } else { None };
            let data = if data { Some(Buffer::decode(reader)?) } else { None };
            nodes.push(ScannedNode { path, stat, data });
        }
        Ok(ScanReply { nodes, more: reader.boolean()?, next: Text::decode(reader)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ReadRequest, Request};

    const OP: i32 = 0x5A42_0003;

    fn decode<'a>(bytes: &'a [u8]) -> Result<Request<'a>, RequestError> {
        Request::decode(OP, &mut Reader::new(bytes))
    }

    fn vector(bytes: u8, depth: [u8; 4], options: u8) -> Vec<u8> {
        let mut vector = vec![0, 0, 0, 1, b'/', 0, 0, 0, 2, b'/', b'a', 0, 0, 0, bytes];
        vector.extend(depth);
        vector.extend([0, 0, 0, options]);
        vector
    }

    #[test]
    fn a_request_has_this_layout() {
        let whole = ScanRequest { after: "/a".into(), data: true, ..ScanRequest::new("/", 9) };
        let mut bytes = Vec::new();
        whole.encode(&mut bytes);
        assert_eq!(bytes, vector(9, [255; 4], 2));
        assert_eq!(decode(&bytes), Ok(Request::Read(ReadRequest::Scan(Box::new(whole)))));
    }

    #[test]
    fn impossible_requests_are_refused() {
        for bytes in [vector(0, [0; 4], 0), vector(9, [255, 255, 255, 254], 0), vector(9, [0; 4], 4)] {
            assert_eq!(decode(&bytes), Err(RequestError::BadArguments));
        }
        let whole = vector(9, [0; 4], 3);
        for length in 0..whole.len() {
            assert_eq!(decode(&whole[..length]), Err(RequestError::Undecodable), "{length}");
        }
    }

    #[test]
    fn nodes_have_the_requested_parts() {
        for (stats, data) in [(false, false), (true, false), (false, true), (true, true)] {
            let node = ScannedNode {
                path: "/a".into(),
                stat: stats.then(Stat::default),
                data: data.then(|| Some([7].into())),
            };
            let reply = ScanReply { nodes: vec![node.clone(), node], more: true, next: Some("/a".into()) };
            let mut bytes = vec![0, 0, 0, 2];
            reply.nodes.iter().for_each(|node| node.encode(&mut bytes));
            true.encode(&mut bytes);
            reply.next.encode(&mut bytes);
            assert_eq!(ScanReply::decode(&mut Reader::new(&bytes), stats, data), Ok(reply));
            for length in 0..bytes.len() {
                assert!(ScanReply::decode(&mut Reader::new(&bytes[..length]), stats, data).is_err());
            }
        }
    }
}
