//! The state as a leader sends it behind a SNAP packet: the content of a snapshot and a signature; no
//! header, no checksum, no frame. Packets follow directly, so the decoder tells where the stream has ended.

use zebu_proto::jute::encode_count;
use zebu_proto::{Acl, SessionId};

use super::content::{Content, ContentLimits};
use super::decode::{SnapshotFlaw, SnapshotVisitor};
use super::encode::{append_acl, append_session};
use super::{END, SnapshotSummary};

/// What every such stream ends with, as a string with its length.
const SIGNATURE: [u8; 14] = *b"\0\0\0\x0aBenWasHere";

/// Why a stream is no state.
#[derive(Debug, thiserror::Error)]
pub enum StreamFlaw {
    /// Something in it cannot be.
    #[error(transparent)]
    Content(#[from] SnapshotFlaw),
    /// The nodes are not followed by the signature: both sides have lost each other.
    #[error("the state does not end with its signature")]
    Signature,
}

/// What became of a piece of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// The stream goes on.
    More,
    /// The stream has ended; so many bytes at the end of the piece are no part of it.
    End {
        /// How many.
        left: usize,
    },
}

/// Reads a stream from pieces of any size. It keeps one unfinished item at most.
#[derive(Debug)]
pub struct StreamDecoder {
    content: Content,
    /// The beginning of an item, or of the signature.
    rest: Vec<u8>,
    size: u64,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Ahead,
    Reached,
}

impl StreamDecoder {
    /// Begins directly behind the SNAP packet.
    pub fn new(limits: ContentLimits) -> StreamDecoder {
        StreamDecoder { content: Content::new(0, limits), rest: Vec::new(), size: 0, end: End::Ahead }
    }

    /// Takes the next bytes and hands out what is whole. After an error the visitor holds garbage and the
    /// connection is of no use any more. Until the end is reached nothing proves that the state is whole.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        visitor: &mut (impl SnapshotVisitor + ?Sized),
    ) -> Result<Fed, StreamFlaw> {
        if self.end == End::Reached {
            return Ok(Fed::End { left: chunk.len() });
        }
        if self.rest.is_empty() {
            let used = self.content.take(chunk, visitor)?;
            self.size += used as u64;
            self.rest.extend_from_slice(&chunk[used..]);
        } else {
            self.rest.extend_from_slice(chunk);
            let used = self.content.take(&self.rest, visitor)?;
            self.size += used as u64;
            // Nothing is moved while a long item is gathered.
            self.rest.drain(..used);
        }
        if !self.content.is_done() {
            return Ok(Fed::More);
        }
        if let Some(behind) = self.rest.strip_prefix(&SIGNATURE) {
            let left = behind.len();
            self.size += SIGNATURE.len() as u64;
            self.end = End::Reached;
            self.rest = Vec::new();
            return Ok(Fed::End { left });
        }
        if SIGNATURE.starts_with(&self.rest) { Ok(Fed::More) } else { Err(StreamFlaw::Signature) }
    }

    /// What the stream held so far.
    pub fn summary(&self) -> SnapshotSummary {
        let Content { sessions, acls, nodes, .. } = self.content;
        SnapshotSummary {
            sessions,
            acls,
            nodes,
            seals: Vec::new(),
            digest: None,
            last_zxid: None,
            size: self.size,
        }
    }

    /// Bytes that wait for the rest of their item.
    pub fn waiting(&self) -> usize {
        self.rest.len()
    }
}

/// Appends the beginning of a stream: sessions and ACLs. Nodes follow, parents first, with
/// [`append_node`](super::append_node).
pub fn begin_stream<'a>(
    sessions: impl ExactSizeIterator<Item = (SessionId, i32)>,
    acls: impl ExactSizeIterator<Item = (i64, &'a [Acl])>,
    out: &mut Vec<u8>,
) {
    encode_count(sessions.len(), out);
    for (id, timeout_ms) in sessions {
        append_session(id, timeout_ms, out);
    }
    encode_count(acls.len(), out);
    for (id, acl) in acls {
        append_acl(id, acl, out);
    }
}

/// Appends the end of a stream.
pub fn end_stream(out: &mut Vec<u8>) {
    out.extend_from_slice(&END);
    out.extend_from_slice(&SIGNATURE);
}
