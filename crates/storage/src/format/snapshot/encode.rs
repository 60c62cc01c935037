//! Writes a snapshot as a stream. The order of the calls is the order of the file.

use std::io::{self, Write};

use simd_adler32::Adler32;
use zebu_proto::jute::{encode_buffer, encode_bytes, encode_count};
use zebu_proto::txn::DIGEST_VERSION;
use zebu_proto::{Acl, Jute, SessionId, StatPersisted, Zxid};

use super::{END, HEADER, Sections};

/// Bytes that are buffered before they are summed and written.
const BUFFER_SIZE: usize = 64 * 1024;

/// Writes one snapshot to `W`.
pub struct Encoder<W> {
    inner: W,
    buffer: Vec<u8>,
    checksum: Adler32,
}

impl<W: Write> Encoder<W> {
    /// Starts the file: header, sessions, ACLs.
    pub fn begin<'a>(
        inner: W,
        sessions: impl ExactSizeIterator<Item = (SessionId, i32)>,
        acls: impl ExactSizeIterator<Item = (i64, &'a [Acl])>,
    ) -> io::Result<Encoder<W>> {
        let buffer = Vec::with_capacity(BUFFER_SIZE + 4096);
        let mut encoder = Encoder { inner, buffer, checksum: Adler32::new() };
        encoder.buffer.extend_from_slice(&HEADER);
        encode_count(sessions.len(), &mut encoder.buffer);
        for (session, timeout_ms) in sessions {
            append_session(session, timeout_ms, &mut encoder.buffer);
            encoder.drain(BUFFER_SIZE)?;
        }
        encode_count(acls.len(), &mut encoder.buffer);
        for (id, acl) in acls {
            append_acl(id, acl, &mut encoder.buffer);
            encoder.drain(BUFFER_SIZE)?;
        }
        Ok(encoder)
    }

    /// Writes a node. Its parent must have been written before; the root has the empty path.
    pub fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> io::Result<()> {
        append_node(path, data, acl, stat, &mut self.buffer);
        self.drain(BUFFER_SIZE)
    }

    /// Ends the nodes, writes the sections and gives the inner writer back.
    pub fn finish(mut self, sections: Sections) -> io::Result<W> {
        self.buffer.extend_from_slice(&END);
        self.seal()?;
        match sections {
            Sections::None => {}
            Sections::Digest { zxid, digest } => self.digest(zxid, digest)?,
            Sections::DigestAndLastZxid { zxid, digest, last_zxid } => {
                self.digest(zxid, digest)?;
                last_zxid.0.encode(&mut self.buffer);
                self.seal()?;
            }
        }
        self.drain(0)?;
        Ok(self.inner)
    }

    fn digest(&mut self, zxid: Zxid, digest: i64) -> io::Result<()> {
        zxid.0.encode(&mut self.buffer);
        DIGEST_VERSION.encode(&mut self.buffer);
        digest.encode(&mut self.buffer);
        self.seal()
    }

    /// The checksum of everything so far, earlier seals included.
    fn seal(&mut self) -> io::Result<()> {
        self.drain(0)?;
        self.buffer.extend_from_slice(&u64::from(self.checksum.finish()).to_be_bytes());
        self.buffer.extend_from_slice(&END);
        Ok(())
    }

    fn drain(&mut self, keep: usize) -> io::Result<()> {
        if self.buffer.len() > keep {
            self.checksum.write(&self.buffer);
            self.inner.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}

pub(super) fn append_session(id: SessionId, timeout_ms: i32, out: &mut Vec<u8>) {
    id.0.encode(out);
    timeout_ms.encode(out);
}

pub(super) fn append_acl(id: i64, acl: &[Acl], out: &mut Vec<u8>) {
    id.encode(out);
    encode_count(acl.len(), out);
    for entry in acl {
        entry.encode(out);
    }
}

/// Appends a node as it is encoded in files and streams; the root has the empty path.
pub fn append_node(path: &str, data: Option<&[u8]>, acl: i64, stat: &StatPersisted, out: &mut Vec<u8>) {
    encode_bytes(path.as_bytes(), out);
    encode_buffer(data, out);
    acl.encode(out);
    stat.encode(out);
}
