//! The snapshot that a leader sends after a SNAP packet: the content and a signature; no header, no checksum,
//! no frame. Packets follow directly, so the decoder reports the end of the stream.

use zebu_proto::jute::encode_count;
use zebu_proto::{Acl, SessionId};

use super::content::{ContentLimits, SnapshotContent};
use super::decode::{SnapshotFlaw, SnapshotVisitor};
use super::encode::{append_acl, append_session};
use super::{END, SnapshotSummary};

/// The end of every stream, as a string with its length.
const SIGNATURE: [u8; 14] = *b"\0\0\0\x0aBenWasHere";

/// Why a stream is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum StreamFlaw {
    /// The content is invalid.
    #[error(transparent)]
    Content(#[from] SnapshotFlaw),
    /// The nodes are not followed by the signature: the stream is out of step.
    #[error("the state does not end with its signature")]
    Signature,
}

/// The result of decoding a piece of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamProgress {
    /// The stream continues.
    More,
    /// The stream has ended; the last bytes of the piece are no part of it.
    End {
        /// The number of those bytes.
        left: usize,
    },
}

/// Decodes a stream from pieces of any size. It keeps one incomplete item at most.
#[derive(Debug)]
pub struct StreamDecoder {
    content: SnapshotContent,
    /// The beginning of an item, or of the signature.
    rest: Vec<u8>,
    size: u64,
    end: StreamEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamEnd {
    Ahead,
    Reached,
}

impl StreamDecoder {
    /// Begins directly after the SNAP packet.
    pub fn new(limits: ContentLimits) -> StreamDecoder {
        StreamDecoder {
            content: SnapshotContent::new(0, limits),
            rest: Vec::new(),
            size: 0,
            end: StreamEnd::Ahead,
        }
    }

    /// Decodes the next bytes and passes complete items to the visitor. After an error the visitor contains
    /// garbage and the connection must be closed. Only the end of the stream proves that the snapshot is
    /// complete.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        visitor: &mut (impl SnapshotVisitor + ?Sized),
    ) -> Result<StreamProgress, StreamFlaw> {
        if self.end == StreamEnd::Reached {
            return Ok(StreamProgress::End { left: chunk.len() });
        }
        if self.rest.is_empty() {
            let used = self.content.take(chunk, visitor)?;
            self.size += used as u64;
            self.rest.extend_from_slice(&chunk[used..]);
        } else {
            self.rest.extend_from_slice(chunk);
            let used = self.content.take(&self.rest, visitor)?;
            self.size += used as u64;
            // No bytes are moved while a long item is collected.
            self.rest.drain(..used);
        }
        if !self.content.is_done() {
            return Ok(StreamProgress::More);
        }
        if let Some(behind) = self.rest.strip_prefix(&SIGNATURE) {
            let left = behind.len();
            self.size += SIGNATURE.len() as u64;
            self.end = StreamEnd::Reached;
            self.rest = Vec::new();
            return Ok(StreamProgress::End { left });
        }
        if SIGNATURE.starts_with(&self.rest) { Ok(StreamProgress::More) } else { Err(StreamFlaw::Signature) }
    }

    /// The summary of the content so far.
    pub fn summary(&self) -> SnapshotSummary {
        let SnapshotContent { sessions, acls, nodes, .. } = self.content;
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

    /// Bytes of an incomplete item.
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
