//! Decodes a snapshot from a stream and passes its items to a visitor. The visitor must not use them before
//! the end is reached: only the seal proves that the items are the written ones.

use std::io::{self, Read};

use simd_adler32::Adler32;
use zebu_proto::txn::DIGEST_VERSION;
use zebu_proto::{Acl, DecodeError, SessionId, StatPersisted, Zxid};

use super::content::{ContentLimits, SnapshotContent};
use super::{END, HEADER, LAST_ZXID_SECTION_SIZE, MAGIC_SIZE, SEAL_SIZE, SnapshotDigest, SnapshotSummary};

/// Bytes that are read at a time.
const CHUNK_SIZE: usize = 128 * 1024;

/// The upper bound of all sections together; a longer remainder is no snapshot.
const SECTIONS_SIZE_MAX: usize = 4096;

/// Receives the content of a snapshot in the order of the file.
pub trait SnapshotVisitor {
    /// The two numbers of the header after the magic. No reader depends on them.
    fn header(&mut self, _version: i32, _database: i64) {}

    /// A session.
    fn session(&mut self, id: SessionId, timeout_ms: i32);

    /// An ACL that nodes refer to by its number.
    fn acl(&mut self, id: i64, acl: Vec<Acl>);

    /// A node, parents first; the root has the empty path. An error says why the node is refused.
    fn node(&mut self, path: &str, data: Option<&[u8]>, acl: i64, stat: &StatPersisted)
    -> Result<(), String>;

    /// Called now and then with the number of uncompressed bytes that were read.
    fn progress(&mut self, _bytes: u64) {}
}

/// Why a snapshot is not usable.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotFlaw {
    /// Reading or decompressing failed.
    #[error("{error} at offset {at} of the unpacked content")]
    Read {
        /// Uncompressed bytes before it.
        at: u64,
        /// The error.
        error: io::Error,
    },
    /// The magic is missing.
    #[error("the snapshot magic ZKSN is missing at offset 0 of the unpacked content")]
    Magic,
    /// It ends too early.
    #[error("it is cut short at offset {at} of the unpacked content")]
    CutShort {
        /// Uncompressed bytes that were read.
        at: u64,
    },
    /// A field is invalid.
    #[error("{error} in the {what} at offset {at} of the unpacked content")]
    Field {
        /// The part of the snapshot.
        what: &'static str,
        /// The offset of the record.
        at: u64,
        /// The decode error.
        error: DecodeError,
    },
    /// A checksum does not match.
    #[error("checksum {index} is {found:#x}, not {computed:#x}, at offset {at} of the unpacked content")]
    Seal {
        /// The index of the checksum, counted from one.
        index: usize,
        /// Its offset.
        at: u64,
        /// The checksum in the file.
        found: u64,
        /// The checksum of the content.
        computed: u32,
    },
    /// The bytes after the nodes have none of the known layouts.
    #[error("{rest} bytes follow the nodes at offset {at} of the unpacked content, which is no known layout")]
    Sections {
        /// The offset of the first section.
        at: u64,
        /// The number of bytes.
        rest: usize,
    },
    /// The visitor refused a node.
    #[error("node {path:?} at offset {at} of the unpacked content: {reason}")]
    Node {
        /// Its path.
        path: String,
        /// Its offset.
        at: u64,
        /// The reason.
        reason: String,
    },
}

/// Decodes a complete snapshot. After an error the visitor contains garbage and must be emptied.
pub fn decode(
    source: impl Read,
    visitor: &mut (impl SnapshotVisitor + ?Sized),
) -> Result<SnapshotSummary, SnapshotFlaw> {
    decode_within(source, ContentLimits::NONE, visitor)
}

/// Like [`decode`], for bytes of a stranger: no item may be longer than the limits.
pub fn decode_within(
    source: impl Read,
    limits: ContentLimits,
    visitor: &mut (impl SnapshotVisitor + ?Sized),
) -> Result<SnapshotSummary, SnapshotFlaw> {
    let mut input = SnapshotInput::new(source);
    if input.take(MAGIC_SIZE)? != &HEADER[..MAGIC_SIZE] {
        return Err(SnapshotFlaw::Magic);
    }
    let version = input.int()?;
    let database = input.long()?;
    visitor.header(version, database);
    let content = decode_content(&mut input, limits, visitor)?;
    let mut seals = Vec::with_capacity(3);
    check_seal(&mut input, &mut seals)?;
    let (digest, last_zxid) = decode_sections(&mut input, &mut seals)?;
    let SnapshotContent { sessions, acls, nodes, .. } = content;
    Ok(SnapshotSummary { sessions, acls, nodes, seals, digest, last_zxid, size: input.position() })
}

fn decode_content(
    input: &mut SnapshotInput<impl Read>,
    limits: ContentLimits,
    visitor: &mut (impl SnapshotVisitor + ?Sized),
) -> Result<SnapshotContent, SnapshotFlaw> {
    let mut content = SnapshotContent::new(input.position(), limits);
    loop {
        let used = content.take(input.window(), visitor)?;
        input.at += used;
        if content.is_done() {
            return Ok(content);
        }
        input.more()?;
    }
}

/// The sections have no tags; their sizes tell them apart.
fn decode_sections(
    input: &mut SnapshotInput<impl Read>,
    seals: &mut Vec<u32>,
) -> Result<(Option<SnapshotDigest>, Option<Zxid>), SnapshotFlaw> {
    let at = input.position();
    // An error after a complete file, such as a cut gzip trailer, says nothing about the content.
    let rest = input.rest(SECTIONS_SIZE_MAX);
    let unknown = SnapshotFlaw::Sections { at, rest };
    if rest == 0 {
        return Ok((None, None));
    }
    let mut digest = None;
    if rest != LAST_ZXID_SECTION_SIZE {
        if rest < 12 + SEAL_SIZE {
            return Err(unknown);
        }
        digest = Some(decode_digest(input)?);
        check_seal(input, seals)?;
    }
    let used = usize::try_from(input.position() - at).unwrap_or(usize::MAX);
    let last_zxid = match rest.saturating_sub(used) {
        0 => None,
        LAST_ZXID_SECTION_SIZE => {
            let zxid = Zxid(input.long()?);
            check_seal(input, seals)?;
            Some(zxid)
        }
        _ => return Err(unknown),
    };
    Ok((digest, last_zxid))
}

fn decode_digest(input: &mut SnapshotInput<impl Read>) -> Result<SnapshotDigest, SnapshotFlaw> {
    let zxid = Zxid(input.long()?);
    let version = input.int()?;
    let digest = if version < DIGEST_VERSION {
        // Older digests are text in another scheme; nothing compares them any more.
        input.buffer("digest", &mut Vec::new())?;
        0
    } else {
        input.long()?
    };
    Ok(SnapshotDigest { zxid, version, digest })
}

fn check_seal(input: &mut SnapshotInput<impl Read>, seals: &mut Vec<u32>) -> Result<(), SnapshotFlaw> {
    let at = input.position();
    let computed = input.checksum();
    let found = input.long()? as u64;
    if found != u64::from(computed) {
        return Err(SnapshotFlaw::Seal { index: seals.len() + 1, at, found, computed });
    }
    if input.take(END.len())? != END {
        return Err(SnapshotFlaw::Sections { at, rest: SEAL_SIZE });
    }
    seals.push(computed);
    Ok(())
}

/// A stream with a window, which sums the consumed bytes.
struct SnapshotInput<R> {
    source: R,
    window: Vec<u8>,
    at: usize,
    summed: usize,
    window_start: u64,
    checksum: Adler32,
    failed: Option<io::Error>,
}

impl<R: Read> SnapshotInput<R> {
    fn new(source: R) -> SnapshotInput<R> {
        let checksum = Adler32::new();
        SnapshotInput {
            source,
            window: Vec::new(),
            at: 0,
            summed: 0,
            window_start: 0,
            checksum,
            failed: None,
        }
    }

    fn position(&self) -> u64 {
        self.window_start + self.at as u64
    }

    /// Adler-32 of all consumed bytes.
    fn checksum(&mut self) -> u32 {
        self.checksum.write(&self.window[self.summed..self.at]);
        self.summed = self.at;
        self.checksum.finish()
    }

    fn available(&self) -> usize {
        self.window.len() - self.at
    }

    /// Reads one more chunk; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.checksum();
        self.window.drain(..self.at);
        self.window_start += self.at as u64;
        self.at = 0;
        self.summed = 0;
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let kept = self.window.len();
        match self.source.by_ref().take(CHUNK_SIZE as u64).read_to_end(&mut self.window) {
            // The bytes before the error count; the error is returned when more are needed.
            Err(error) if self.window.len() > kept => self.failed = Some(error),
            result => _ = result?,
        }
        Ok(self.window.len() > kept)
    }

    /// The bytes that were read and not consumed.
    fn window(&self) -> &[u8] {
        &self.window[self.at..]
    }

    /// Reads one more chunk; there must be one.
    fn more(&mut self) -> Result<(), SnapshotFlaw> {
        let at = self.position() + self.available() as u64;
        match self.fill() {
            Ok(true) => Ok(()),
            Ok(false) => Err(SnapshotFlaw::CutShort { at }),
            Err(error) => Err(SnapshotFlaw::Read { at, error }),
        }
    }

    /// Consumes `count` bytes; reserves no more than the available ones.
    fn take(&mut self, count: usize) -> Result<&[u8], SnapshotFlaw> {
        while self.available() < count {
            self.more()?;
        }
        let start = self.at;
        self.at += count;
        Ok(&self.window[start..self.at])
    }

    /// How many bytes are left, counted up to a limit; unreadable bytes do not count.
    fn rest(&mut self, limit: usize) -> usize {
        while self.available() <= limit && matches!(self.fill(), Ok(true)) {}
        self.available()
    }

    fn int(&mut self) -> Result<i32, SnapshotFlaw> {
        let bytes = self.take(4)?;
        Ok(i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn long(&mut self) -> Result<i64, SnapshotFlaw> {
        let high = self.int()?;
        let low = self.int()?;
        Ok((i64::from(high) << 32) | i64::from(low as u32))
    }

    /// Copies a buffer out; false when it is null.
    fn buffer(&mut self, what: &'static str, out: &mut Vec<u8>) -> Result<bool, SnapshotFlaw> {
        let at = self.position();
        let length = self.int()?;
        out.clear();
        match usize::try_from(length) {
            Ok(length) => {
                out.extend_from_slice(self.take(length)?);
                Ok(true)
            }
            Err(_) if length == -1 => Ok(false),
            Err(_) => {
                let error = DecodeError::BadLength { at: 0, length };
                Err(SnapshotFlaw::Field { what, at, error })
            }
        }
    }
}
