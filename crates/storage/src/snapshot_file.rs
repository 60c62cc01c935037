//! Snapshots as files: written under a temporary name that ZooKeeper does not take for a snapshot, synced,
//! renamed, directory synced. A valid snapshot is never overwritten; a failed one leaves no file that a
//! server would load.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};

use crate::disk::{Access, Disk, DiskFile, FileSink, FileSource};
use crate::failure::{During, IoFailure};
use crate::format::names::{
    Compression, NumberedName, SNAPSHOT_TEMPORARY_PREFIX, compression_of, parse_snapshot, snapshot_name,
    snapshot_temporary_name,
};
use crate::format::snappy::{self, SnappyReader, SnappyWriter};
use crate::format::snapshot::{
    self, ContentLimits, Encoder, Sections, SnapshotFlaw, SnapshotSummary, SnapshotVisitor,
};

/// Why a snapshot was not written. The server can continue: the log and the older snapshots are untouched.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The disk failed.
    #[error("the snapshot was not written: {0}; the log is kept, so nothing is lost")]
    Io(#[from] IoFailure),
}

/// The result of writing a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenSnapshot {
    /// The snapshot is durable under this name.
    New(PathBuf),
    /// A valid one of the same zxid existed already and was kept.
    Kept(PathBuf),
}

impl WrittenSnapshot {
    /// The snapshot's path.
    pub fn path(&self) -> &Path {
        match self {
            WrittenSnapshot::New(path) | WrittenSnapshot::Kept(path) => path,
        }
    }
}

enum CompressingWriter<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Snappy(Box<SnappyWriter<W>>),
}

impl<W: Write> CompressingWriter<W> {
    fn new(inner: W, compression: Compression) -> io::Result<CompressingWriter<W>> {
        Ok(match compression {
            Compression::Plain => CompressingWriter::Plain(inner),
            Compression::Gzip => {
                CompressingWriter::Gzip(GzEncoder::new(inner, flate2::Compression::default()))
            }
            Compression::Snappy => CompressingWriter::Snappy(Box::new(SnappyWriter::new(inner)?)),
        })
    }

    fn finish(self) -> io::Result<W> {
        match self {
            CompressingWriter::Plain(inner) => Ok(inner),
            CompressingWriter::Gzip(encoder) => encoder.finish(),
            CompressingWriter::Snappy(writer) => writer.finish(),
        }
    }
}

impl<W: Write> Write for CompressingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            CompressingWriter::Plain(inner) => inner.write(bytes),
            CompressingWriter::Gzip(encoder) => encoder.write(bytes),
            CompressingWriter::Snappy(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            CompressingWriter::Plain(inner) => inner.flush(),
            CompressingWriter::Gzip(encoder) => encoder.flush(),
            CompressingWriter::Snappy(writer) => writer.flush(),
        }
    }
}

/// A snapshot's bytes while they are written to a file. The caller owns the file and its name.
pub(crate) struct SnapshotBody<F: DiskFile> {
    encoder: Encoder<CompressingWriter<FileSink<F>>>,
}

impl<F: DiskFile> SnapshotBody<F> {
    /// Writes sessions and ACLs into an empty file.
    pub(crate) fn begin<'a>(
        file: F,
        compression: Compression,
        sessions: impl ExactSizeIterator<Item = (SessionId, i32)>,
        acls: impl ExactSizeIterator<Item = (i64, &'a [Acl])>,
    ) -> io::Result<SnapshotBody<F>> {
        let packer = CompressingWriter::new(FileSink::new(file), compression)?;
        Ok(SnapshotBody { encoder: Encoder::begin(packer, sessions, acls)? })
    }

    /// Writes a node, after its parent.
    pub(crate) fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> io::Result<()> {
        self.encoder.node(path, data, acl, stat)
    }

    /// Writes the sections and makes the bytes durable, not their name.
    pub(crate) fn finish(self, sections: Sections) -> io::Result<()> {
        self.encoder.finish(sections).and_then(CompressingWriter::finish)?.into_file().sync_all()
    }
}

/// The file of a new snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotTarget {
    /// The directory of the snapshots.
    pub directory: PathBuf,
    /// The last transaction of the snapshot.
    pub zxid: Zxid,
    /// The compression of the file.
    pub compression: Compression,
}

impl SnapshotTarget {
    /// The file in this directory.
    pub fn new(directory: impl Into<PathBuf>, zxid: Zxid, compression: Compression) -> SnapshotTarget {
        SnapshotTarget { directory: directory.into(), zxid, compression }
    }

    /// The complete file.
    pub fn path(&self) -> PathBuf {
        self.directory.join(snapshot_name(self.zxid, self.compression))
    }
}

/// Writes one snapshot.
pub struct SnapshotWriter<D: Disk> {
    disk: D,
    directory: PathBuf,
    temporary: PathBuf,
    target: PathBuf,
    /// `None` since a write has failed: then the file is removed.
    body: Option<SnapshotBody<D::File>>,
}

impl<D: Disk> SnapshotWriter<D> {
    /// Starts a snapshot: its sessions and ACLs come first.
    pub fn begin<'a>(
        disk: D,
        target: SnapshotTarget,
        sessions: impl ExactSizeIterator<Item = (SessionId, i32)>,
        acls: impl ExactSizeIterator<Item = (i64, &'a [Acl])>,
    ) -> Result<SnapshotWriter<D>, SnapshotError> {
        let SnapshotTarget { directory, zxid, compression } = target;
        let temporary = directory.join(snapshot_temporary_name(zxid, compression));
        let target = directory.join(snapshot_name(zxid, compression));
        let file = disk.create(&temporary).during("create", &temporary)?;
        match SnapshotBody::begin(file, compression, sessions, acls).during("write", &temporary) {
            Ok(body) => Ok(SnapshotWriter { disk, directory, temporary, target, body: Some(body) }),
            Err(failure) => {
                let _ = disk.remove(&temporary);
                Err(failure.into())
            }
        }
    }

    /// Writes a node, after its parent; the root has the empty path. After an error the file is removed: on a
    /// full disk every attempt would leave another one.
    pub fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), SnapshotError> {
        let body = self.body.as_mut().ok_or_else(earlier_error);
        let written = body.and_then(|body| body.node(path, data, acl, stat));
        if written.is_err() && self.body.take().is_some() {
            // The first error is reported; recovery removes a file that stays.
            let _ = self.disk.remove(&self.temporary);
        }
        Ok(written.during("write", &self.temporary)?)
    }

    /// Writes the sections and makes the snapshot durable under its name.
    pub fn finish(mut self, sections: Sections) -> Result<WrittenSnapshot, SnapshotError> {
        let body = self.body.take().ok_or_else(earlier_error).during("write", &self.temporary)?;
        let finished = self.publish(body, sections);
        if finished.is_err() {
            // The first error is reported; recovery removes a file that stays.
            let _ = self.disk.remove(&self.temporary);
        }
        Ok(finished?)
    }

    fn publish(&self, body: SnapshotBody<D::File>, sections: Sections) -> Result<WrittenSnapshot, IoFailure> {
        let SnapshotWriter { disk, directory, temporary, target, .. } = self;
        body.finish(sections).during("write", temporary)?;
        if disk.exists(target).during("look for", target)? && validate(disk, target)?.is_ok() {
            disk.remove(temporary).during("remove", temporary)?;
            return Ok(WrittenSnapshot::Kept(target.clone()));
        }
        disk.rename(temporary, target).during("rename", temporary)?;
        disk.sync_directory(directory).during("sync", directory)?;
        Ok(WrittenSnapshot::New(target.clone()))
    }

    /// Removes the file.
    pub fn abandon(self) -> Result<(), SnapshotError> {
        if self.body.is_none() {
            return Ok(());
        }
        Ok(self.disk.remove(&self.temporary).during("remove", &self.temporary)?)
    }
}

fn earlier_error() -> io::Error {
    io::Error::other("an earlier write failed")
}

/// A file with the name of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Its path.
    pub path: PathBuf,
    /// Its parsed name.
    pub name: NumberedName,
    /// The compression according to its name.
    pub compression: Compression,
}

/// All files with the name of a snapshot, newest first.
pub fn list<D: Disk>(disk: &D, directory: &Path) -> Result<Vec<SnapshotFile>, IoFailure> {
    let names = disk.list(directory).during("list", directory)?;
    let mut files: Vec<_> = names
        .iter()
        .filter_map(|name| {
            let (path, compression) = (directory.join(name), compression_of(name));
            Some(SnapshotFile { path, name: parse_snapshot(name)?, compression })
        })
        .collect();
    files.sort_by(|a, b| b.name.zxid.cmp(&a.name.zxid).then_with(|| a.path.cmp(&b.path)));
    Ok(files)
}

/// Removes unfinished snapshots: their state is about to be dropped. Their writer then fails to rename them.
pub(crate) fn discard_unfinished<D: Disk>(disk: &D, directory: &Path) -> Result<(), IoFailure> {
    for name in disk.list(directory).during("list", directory)? {
        if name.starts_with(SNAPSHOT_TEMPORARY_PREFIX) {
            let path = directory.join(name);
            disk.remove(&path).during("remove", &path)?;
        }
    }
    Ok(())
}

/// Reads a snapshot into `visitor`. The outer error is the disk's; the inner one says why the content is no
/// snapshot. The distinction matters: damage is permanent, an error of the disk may be temporary.
pub fn load<D: Disk>(
    disk: &D,
    path: &Path,
    visitor: &mut (impl SnapshotVisitor + ?Sized),
) -> Result<Result<SnapshotSummary, SnapshotFlaw>, IoFailure> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    load_as(disk, path, compression_of(name), visitor)
}

/// Like [`load`], for a file whose name does not tell its compression.
pub(crate) fn load_as<D: Disk>(
    disk: &D,
    path: &Path,
    compression: Compression,
    visitor: &mut (impl SnapshotVisitor + ?Sized),
) -> Result<Result<SnapshotSummary, SnapshotFlaw>, IoFailure> {
    let file = disk.open(path, Access::Read).during("open", path)?;
    let mut source = FileSource::new(file);
    let decoded = decode(&mut source, compression, visitor);
    match source.into_failure() {
        Some(error) => Err(error).during("read", path),
        None => Ok(decoded),
    }
}

/// Decompresses and decodes a snapshot from a stream.
pub fn decode(
    source: impl Read,
    compression: Compression,
    visitor: &mut (impl SnapshotVisitor + ?Sized),
) -> Result<SnapshotSummary, SnapshotFlaw> {
    match compression {
        Compression::Plain => snapshot::decode(source, visitor),
        Compression::Gzip => snapshot::decode(MultiGzDecoder::new(buffered(source)), visitor),
        Compression::Snappy => match SnappyReader::new(buffered(source)) {
            Ok(reader) => snapshot::decode(reader, visitor),
            Err(error) => Err(SnapshotFlaw::Read { at: 0, error }),
        },
    }
}

/// Bytes that tell the compression of a snapshot.
pub const MAGIC_SIZE: usize = 8;

/// The compression of a snapshot that begins with these bytes; `None` if no snapshot does.
pub fn compression_by_magic(begin: &[u8]) -> Option<Compression> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    if begin.starts_with(&snapshot::HEADER[..4]) {
        Some(Compression::Plain)
    } else if begin.starts_with(&GZIP) {
        Some(Compression::Gzip)
    } else {
        begin.starts_with(snappy::MAGIC).then_some(Compression::Snappy)
    }
}

/// Like [`decode`], for bytes of a stranger. The unpacked content has at most `bytes_max` bytes; a longer one
/// is a read error of the kind `FileTooLarge`.
pub fn decode_bounded(
    source: impl Read,
    compression: Compression,
    bytes_max: u64,
    visitor: &mut (impl SnapshotVisitor + ?Sized),
) -> Result<SnapshotSummary, SnapshotFlaw> {
    let limits = ContentLimits::default();
    match compression {
        Compression::Plain => snapshot::decode_within(Bounded::new(source, bytes_max), limits, visitor),
        Compression::Gzip => {
            let unpacked = MultiGzDecoder::new(buffered(source));
            snapshot::decode_within(Bounded::new(unpacked, bytes_max), limits, visitor)
        }
        Compression::Snappy => match SnappyReader::new(buffered(source)) {
            Ok(unpacked) => snapshot::decode_within(Bounded::new(unpacked, bytes_max), limits, visitor),
            Err(error) => Err(SnapshotFlaw::Read { at: 0, error }),
        },
    }
}

/// A source that fails after a number of bytes.
struct Bounded<R> {
    source: R,
    left: u64,
}

impl<R> Bounded<R> {
    fn new(source: R, bytes_max: u64) -> Bounded<R> {
        Bounded { source, left: bytes_max }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => return Err(io::ErrorKind::FileTooLarge.into()),
        }
        Ok(count)
    }
}

fn buffered<R: Read>(source: R) -> io::BufReader<R> {
    io::BufReader::with_capacity(128 * 1024, source)
}

/// Reads a snapshot to its end and checks everything that can be checked without a tree.
pub fn validate<D: Disk>(disk: &D, path: &Path) -> Result<Result<SnapshotSummary, SnapshotFlaw>, IoFailure> {
    load(disk, path, &mut Ignore)
}

/// Like [`validate`], for a file whose name does not tell its compression.
pub(crate) fn validate_as<D: Disk>(
    disk: &D,
    path: &Path,
    compression: Compression,
) -> Result<Result<SnapshotSummary, SnapshotFlaw>, IoFailure> {
    load_as(disk, path, compression, &mut Ignore)
}

struct Ignore;

impl SnapshotVisitor for Ignore {
    fn session(&mut self, _: SessionId, _: i32) {}
    fn acl(&mut self, _: i64, _: Vec<Acl>) {}
    fn node(&mut self, _: &str, _: Option<&[u8]>, _: i64, _: &StatPersisted) -> Result<(), String> {
        Ok(())
    }
}
