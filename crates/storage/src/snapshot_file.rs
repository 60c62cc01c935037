//! Snapshots as files: written under a temporary name that Apache does not take for a snapshot, synced,
//! renamed, directory synced. A valid snapshot is never overwritten, a failed one leaves nothing behind that
//! anyone would load.

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
use crate::format::snappy::{SnappyReader, SnappyWriter};
use crate::format::snapshot::{self, Encoder, Sections, SnapshotFlaw, SnapshotSummary, SnapshotVisitor};

/// Why a snapshot was not written. The server can go on: the log and the older snapshots are untouched.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The disk failed.
    #[error("the snapshot was not written: {0}; the log is kept, so nothing is lost")]
    Io(#[from] IoFailure),
}

/// What became of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is durable under this name.
    New(PathBuf),
    /// A valid one of the same zxid was there already and was kept.
    Kept(PathBuf),
}

impl Written {
    /// The snapshot's path.
    pub fn path(&self) -> &Path {
        match self {
            Written::New(path) | Written::Kept(path) => path,
        }
    }
}

enum Packer<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Snappy(Box<SnappyWriter<W>>),
}

impl<W: Write> Packer<W> {
    fn new(inner: W, compression: Compression) -> io::Result<Packer<W>> {
        Ok(match compression {
            Compression::Plain => Packer::Plain(inner),
            Compression::Gzip => Packer::Gzip(GzEncoder::new(inner, flate2::Compression::default())),
            Compression::Snappy => Packer::Snappy(Box::new(SnappyWriter::new(inner)?)),
        })
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Packer::Plain(inner) => Ok(inner),
            Packer::Gzip(encoder) => encoder.finish(),
            Packer::Snappy(writer) => writer.finish(),
        }
    }
}

impl<W: Write> Write for Packer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Packer::Plain(inner) => inner.write(bytes),
            Packer::Gzip(encoder) => encoder.write(bytes),
            Packer::Snappy(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Packer::Plain(inner) => inner.flush(),
            Packer::Gzip(encoder) => encoder.flush(),
            Packer::Snappy(writer) => writer.flush(),
        }
    }
}

/// A snapshot's bytes on their way into a file. Whose file it is, and what it is called in the end, is the
/// caller's matter.
pub(crate) struct Body<F: DiskFile> {
    encoder: Encoder<Packer<FileSink<F>>>,
}

impl<F: DiskFile> Body<F> {
    /// Writes sessions and ACLs into an empty file.
    pub(crate) fn begin<'a>(
        file: F,
        compression: Compression,
        sessions: impl ExactSizeIterator<Item = (SessionId, i32)>,
        acls: impl ExactSizeIterator<Item = (i64, &'a [Acl])>,
    ) -> io::Result<Body<F>> {
        let packer = Packer::new(FileSink::new(file), compression)?;
        Ok(Body { encoder: Encoder::begin(packer, sessions, acls)? })
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
        self.encoder.finish(sections).and_then(Packer::finish)?.into_file().sync_all()
    }
}

/// Writes one snapshot.
pub struct SnapshotWriter<D: Disk> {
    disk: D,
    directory: PathBuf,
    temporary: PathBuf,
    target: PathBuf,
    /// `None` since a write has failed: then what was written is removed.
    body: Option<Body<D::File>>,
}

impl<D: Disk> SnapshotWriter<D> {
    /// Starts the snapshot that holds everything up to `zxid`: its sessions and ACLs come first.
    pub fn begin<'a>(
        disk: D,
        directory: impl Into<PathBuf>,
        zxid: Zxid,
        compression: Compression,
        sessions: impl ExactSizeIterator<Item = (SessionId, i32)>,
        acls: impl ExactSizeIterator<Item = (i64, &'a [Acl])>,
    ) -> Result<SnapshotWriter<D>, SnapshotError> {
        let directory = directory.into();
        let temporary = directory.join(snapshot_temporary_name(zxid, compression));
        let target = directory.join(snapshot_name(zxid, compression));
        let file = disk.create(&temporary).during("create", &temporary)?;
        match Body::begin(file, compression, sessions, acls).during("write", &temporary) {
            Ok(body) => Ok(SnapshotWriter { disk, directory, temporary, target, body: Some(body) }),
            Err(failure) => {
                let _ = disk.remove(&temporary);
                Err(failure.into())
            }
        }
    }

    /// Writes a node, after its parent; the root has the empty path. After an error nothing is left of the snapshot:
    /// on a full disk every try would leave another piece.
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
            // The error that is reported is the first one; a file that stays is removed by recovery.
            let _ = self.disk.remove(&self.temporary);
        }
        Ok(written.during("write", &self.temporary)?)
    }

    /// Writes the sections and makes the snapshot durable under its name.
    pub fn finish(self, sections: Sections) -> Result<Written, SnapshotError> {
        let SnapshotWriter { disk, directory, temporary, target, body } = self;
        let body = body.ok_or_else(earlier_error).during("write", &temporary)?;
        let finished = finish(&disk, &directory, &temporary, target, body, sections);
        if finished.is_err() {
            // The error that is reported is the first one; a file that stays is removed by recovery.
            let _ = disk.remove(&temporary);
        }
        Ok(finished?)
    }

    /// Gives up and removes what was written.
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

fn finish<D: Disk>(
    disk: &D,
    directory: &Path,
    temporary: &Path,
    target: PathBuf,
    body: Body<D::File>,
    sections: Sections,
) -> Result<Written, IoFailure> {
    body.finish(sections).during("write", temporary)?;
    if disk.exists(&target).during("look for", &target)? && validate(disk, &target)?.is_ok() {
        disk.remove(temporary).during("remove", temporary)?;
        return Ok(Written::Kept(target));
    }
    disk.rename(temporary, &target).during("rename", temporary)?;
    disk.sync_directory(directory).during("sync", directory)?;
    Ok(Written::New(target))
}

/// A file that counts as a snapshot by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Where it is.
    pub path: PathBuf,
    /// What its name says.
    pub name: NumberedName,
    /// How its name says that it is packed.
    pub compression: Compression,
}

/// All files that count as snapshots by their names, newest first.
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

/// Removes what is being written: the state that it shows is about to be given up. Whoever writes it finds
/// that it cannot be renamed.
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
/// snapshot. The two must not be mixed up: damage stays, and is worked around, an error of the disk may be gone
/// the next time.
pub fn load<D: Disk>(
    disk: &D,
    path: &Path,
    visitor: &mut (impl SnapshotVisitor + ?Sized),
) -> Result<Result<SnapshotSummary, SnapshotFlaw>, IoFailure> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    load_as(disk, path, compression_of(name), visitor)
}

/// Like [`load`], for a file whose name does not tell how it is packed.
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

/// Unpacks and reads a snapshot from a stream.
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

fn buffered<R: Read>(source: R) -> io::BufReader<R> {
    io::BufReader::with_capacity(128 * 1024, source)
}

/// Reads a snapshot to its end and checks everything that can be checked without a tree.
pub fn validate<D: Disk>(disk: &D, path: &Path) -> Result<Result<SnapshotSummary, SnapshotFlaw>, IoFailure> {
    load(disk, path, &mut Ignore)
}

/// Like [`validate`], for a file whose name does not tell how it is packed.
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
