//! The common content of snapshot files and of the leader's stream: sessions, ACLs, nodes parents first, and
//! the string `/`. Items are decoded from the available bytes; an incomplete item waits.

use zebu_proto::{Acl, DecodeError, Jute, Reader, SessionId, StatPersisted};

use super::decode::{SnapshotFlaw, SnapshotVisitor};

/// The longest accepted items. A file has a known length; a stream could be endless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentLimits {
    /// Bytes of a path, of a node's data, or of a string in an ACL.
    pub field_max: usize,
    /// Entries of one ACL.
    pub acl_entries_max: usize,
}

impl ContentLimits {
    /// For files.
    pub(super) const NONE: ContentLimits =
        ContentLimits { field_max: usize::MAX, acl_entries_max: usize::MAX };
}

impl Default for ContentLimits {
    /// Far above the default limit of `jute.maxbuffer`.
    fn default() -> ContentLimits {
        ContentLimits { field_max: 64 << 20, acl_entries_max: 1 << 16 }
    }
}

/// The next kind of item.
#[derive(Debug)]
enum SnapshotPart {
    SessionCount,
    Sessions { left: u64 },
    AclCount,
    Acls { left: u64 },
    AclEntries { acls_left: u64, id: i64, left: u64, acl: Vec<Acl> },
    Nodes,
    End,
}

/// Decodes the content.
#[derive(Debug)]
pub(super) struct SnapshotContent {
    part: SnapshotPart,
    /// The offset of the next item.
    at: u64,
    limits: ContentLimits,
    pub(super) sessions: u64,
    pub(super) acls: u64,
    pub(super) nodes: u64,
}

/// An item, or nothing yet.
type SnapshotItem<T> = Result<Option<T>, SnapshotFlaw>;

impl SnapshotContent {
    /// Begins at an offset, which is used in messages.
    pub(super) fn new(at: u64, limits: ContentLimits) -> SnapshotContent {
        SnapshotContent { part: SnapshotPart::SessionCount, at, limits, sessions: 0, acls: 0, nodes: 0 }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.part, SnapshotPart::End)
    }

    /// Decodes every complete item in `bytes`, and returns the number of bytes that they took.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        visitor: &mut (impl SnapshotVisitor + ?Sized),
    ) -> Result<usize, SnapshotFlaw> {
        let mut used = 0;
        while !self.is_done() {
            let mut input = Bytes { bytes: &bytes[used..], at: 0 };
            if self.item(&mut input, visitor)?.is_none() {
                break;
            }
            used += input.at;
            self.at += input.at as u64;
        }
        Ok(used)
    }

    fn item(
        &mut self,
        input: &mut Bytes<'_>,
        visitor: &mut (impl SnapshotVisitor + ?Sized),
    ) -> SnapshotItem<()> {
        match &mut self.part {
            SnapshotPart::SessionCount => {
                let Some(left) = count(input, self.at, "sessions")? else { return Ok(None) };
                self.sessions = left;
                self.part = after_session(left);
            }
            SnapshotPart::Sessions { left } => {
                let Some((id, timeout_ms)) = input.session() else { return Ok(None) };
                visitor.session(id, timeout_ms);
                self.part = after_session(*left - 1);
            }
            SnapshotPart::AclCount => {
                let Some(left) = count(input, self.at, "ACL map")? else { return Ok(None) };
                self.acls = left;
                self.part = after_acl(left);
            }
            SnapshotPart::Acls { left } => {
                let acls_left = *left - 1;
                let Some(id) = input.long() else { return Ok(None) };
                let Some(left) = count(input, self.at + 8, "ACL")? else { return Ok(None) };
                if left > self.limits.acl_entries_max as u64 {
                    let length = i32::try_from(left).unwrap_or(i32::MAX);
                    return Err(bad_length("ACL", self.at + 8, length));
                }
                self.part = SnapshotPart::AclEntries { acls_left, id, left, acl: Vec::new() };
            }
            SnapshotPart::AclEntries { acls_left, id, left: 0, acl } => {
                visitor.acl(*id, std::mem::take(acl));
                self.part = after_acl(*acls_left);
            }
            SnapshotPart::AclEntries { left, acl, .. } => {
                let Some(entry) = acl_entry(input, self.at, self.limits)? else { return Ok(None) };
                acl.push(entry);
                *left -= 1;
            }
            SnapshotPart::Nodes => return self.node(input, visitor),
            SnapshotPart::End => {}
        }
        Ok(Some(()))
    }

    fn node(
        &mut self,
        input: &mut Bytes<'_>,
        visitor: &mut (impl SnapshotVisitor + ?Sized),
    ) -> SnapshotItem<()> {
        let at = self.at;
        let Some(path) = buffer(input, at, "path", self.limits)? else { return Ok(None) };
        let Some(path) = path else {
            return Err(SnapshotFlaw::Field { what: "path", at, error: DecodeError::Null { at: 4 } });
        };
        if path == b"/" {
            self.part = SnapshotPart::End;
            return Ok(Some(()));
        }
        let Some(data) = buffer(input, at, "data", self.limits)? else { return Ok(None) };
        let Some(acl) = input.long() else { return Ok(None) };
        let record = input.take(StatPersisted::SIZE_MIN).and_then(|record| record.try_into().ok());
        let Some(stat) = record.map(StatPersisted::from_bytes) else { return Ok(None) };
        let text = zebu_proto::jute::decode_text(path);
        let node = visitor.node(&text, data, acl, &stat);
        node.map_err(|reason| SnapshotFlaw::Node { path: text.into_owned(), at, reason })?;
        self.nodes += 1;
        if self.nodes.is_multiple_of(4096) {
            visitor.progress(at);
        }
        Ok(Some(()))
    }
}

fn after_session(left: u64) -> SnapshotPart {
    if left == 0 { SnapshotPart::AclCount } else { SnapshotPart::Sessions { left } }
}

fn after_acl(left: u64) -> SnapshotPart {
    if left == 0 { SnapshotPart::Nodes } else { SnapshotPart::Acls { left } }
}

fn bad_length(what: &'static str, at: u64, length: i32) -> SnapshotFlaw {
    SnapshotFlaw::Field { what, at, error: DecodeError::BadLength { at: 0, length } }
}

/// A count that may not be negative, null included.
fn count(input: &mut Bytes<'_>, at: u64, what: &'static str) -> SnapshotItem<u64> {
    let Some(length) = input.int() else { return Ok(None) };
    u64::try_from(length).map(Some).map_err(|_| bad_length(what, at, length))
}

/// A buffer that may be null. Its length is checked before its bytes are available.
fn buffer<'a>(
    input: &mut Bytes<'a>,
    at: u64,
    what: &'static str,
    limits: ContentLimits,
) -> SnapshotItem<Option<&'a [u8]>> {
    let at = at + input.at as u64;
    let Some(length) = input.int() else { return Ok(None) };
    match usize::try_from(length) {
        Ok(length_max) if length_max > limits.field_max => Err(bad_length(what, at, length)),
        Ok(length) => Ok(input.take(length).map(Some)),
        Err(_) if length == -1 => Ok(Some(None)),
        Err(_) => Err(bad_length(what, at, length)),
    }
}

/// Permissions and two strings.
fn acl_entry(input: &mut Bytes<'_>, at: u64, limits: ContentLimits) -> SnapshotItem<Acl> {
    let start = input.at;
    if input.int().is_none() {
        return Ok(None);
    }
    for _ in 0..2 {
        if buffer(input, at, "ACL", limits)?.is_none() {
            return Ok(None);
        }
    }
    let record = &input.bytes[start..input.at];
    let entry = Acl::decode(&mut Reader::new(record));
    entry.map(Some).map_err(|error| SnapshotFlaw::Field { what: "ACL", at, error })
}

/// The available bytes.
struct Bytes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes[self.at..].get(..count)?;
        self.at += count;
        Some(taken)
    }

    fn int(&mut self) -> Option<i32> {
        self.take(4)?.try_into().ok().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> Option<i64> {
        self.take(8)?.try_into().ok().map(i64::from_be_bytes)
    }

    fn session(&mut self) -> Option<(SessionId, i32)> {
        Some((SessionId(self.long()?), self.int()?))
    }
}
