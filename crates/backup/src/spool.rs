//! A base on its way: the snapshot file that is written from the tree before it goes to the target. Each one
//! has a directory of its own, which goes with it: two bases can have the same zxid.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zebu_proto::Zxid;
use zebu_storage::{Compression, FileDisk, Sections, SnapshotError, SnapshotTarget, SnapshotWriter};
use zebu_tree::{Tree, WalkProgress};

use crate::core::hexadecimal;
use crate::core::seal::{Sealer, Sealing};
use crate::core::target::Content;

/// Nodes that are encoded at a time.
const SLICE_NODES: usize = 10_000;

/// Bytes that are hashed at a time.
const PIECE: usize = 1 << 20;

/// Why a snapshot was not written.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// No directory can be created for the snapshot.
    #[error("cannot create a directory in {}: {source}", path.display())]
    Directory {
        /// The directory of all snapshots.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The snapshot cannot be written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The snapshot cannot be encrypted.
    #[error("cannot encrypt to {}: {source}", path.display())]
    Seal {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The written snapshot cannot be read again.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// The directory of one snapshot. It is removed with all that is in it, after an error too: a full disk must
/// not stay full.
#[derive(Debug)]
struct OwnDirectory(PathBuf);

impl OwnDirectory {
    /// Creates the first directory that does not exist yet.
    fn create(parent: &Path) -> io::Result<OwnDirectory> {
        let mut number = 0_u64;
        loop {
            let path = parent.join(format!("base-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(OwnDirectory(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        // The directory around it is removed at the end of the process, or by the next one.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A snapshot file, which is removed when it is dropped.
#[derive(Debug)]
pub struct SpooledSnapshot {
    path: PathBuf,
    _directory: OwnDirectory,
    sealing: Sealing,
    length: u64,
    sha256: String,
}

impl SpooledSnapshot {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Content for SpooledSnapshot {
    fn length(&self) -> u64 {
        self.length
    }

    fn sha256(&self) -> &str {
        &self.sha256
    }

    fn sealing(&self) -> Sealing {
        self.sealing
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(File::open(&self.path)?))
    }
}

/// Writes a tree as ZooKeeper's snapshot of a zxid. `progress` gets the number of written nodes.
pub fn write_snapshot(
    tree: &Tree,
    directory: &Path,
    zxid: Zxid,
    compression: Compression,
    mut progress: impl FnMut(u64),
) -> Result<PathBuf, SnapshotError> {
    let sessions: Vec<_> = tree.sessions().iter().map(|(&id, &timeout_ms)| (id, timeout_ms)).collect();
    let acls: Vec<_> = tree.acl_table().map(|(id, acl)| (id, &acl[..])).collect();
    let target = SnapshotTarget::new(directory, zxid, compression);
    let mut writer = SnapshotWriter::begin(FileDisk, target, sessions.into_iter(), acls.into_iter())?;
    let mut walker = tree.walker();
    let mut result = Ok(());
    let mut nodes = 0;
    loop {
        let walked = walker.next_slice(tree, SLICE_NODES, &mut |path, data, acl, stat| {
            nodes += 1;
            if result.is_ok() {
                result = writer.node(path, data, acl, stat);
            }
        });
        progress(nodes);
        if result.is_err() || walked != WalkProgress::More {
            break;
        }
    }
    result?;
    // Apache ZooKeeper takes zero for a state without a digest.
    let (zxid, digest) = if zxid == Zxid::ZERO { (zxid, 0) } else { (zxid, tree.digest()) };
    Ok(writer.finish(Sections::Digest { zxid, digest })?.path().to_owned())
}

/// Writes a tree to a directory, encrypts it if there are keys, and computes the checksum of the file.
pub fn spool(
    tree: &Tree,
    directory: &Path,
    compression: Compression,
    sealer: Option<&dyn Sealer>,
) -> Result<SpooledSnapshot, SpoolError> {
    let own = OwnDirectory::create(directory)
        .map_err(|source| SpoolError::Directory { path: directory.to_owned(), source })?;
    let mut path = write_snapshot(tree, &own.0, tree.last_zxid(), compression, |_| ())?;
    let sealing = if sealer.is_some() { Sealing::Age } else { Sealing::Plain };
    if let Some(sealer) = sealer {
        let plain = path.clone();
        path.as_mut_os_string().push(sealing.end());
        let sealed = seal_file(sealer, &plain, &path);
        sealed.map_err(|source| SpoolError::Seal { path: path.clone(), source })?;
    }
    let (length, sha256) =
        checksum(&path).map_err(|source| SpoolError::Read { path: path.clone(), source })?;
    Ok(SpooledSnapshot { path, _directory: own, sealing, length, sha256 })
}

fn seal_file(sealer: &dyn Sealer, plain: &Path, sealed: &Path) -> io::Result<()> {
    let mut writer = BufWriter::with_capacity(PIECE, File::create(sealed)?);
    sealer.seal(&mut BufReader::with_capacity(PIECE, File::open(plain)?), &mut writer)?;
    writer.flush()?;
    fs::remove_file(plain)
}

fn checksum(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE];
    let mut length = 0;
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((length, hexadecimal(&hash.finalize()))),
            count => {
                hash.update(&piece[..count]);
                length += count as u64;
            }
        }
    }
}
