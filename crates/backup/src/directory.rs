//! A directory as target, on any disk. Objects get their name when they are durable. One writer at a time
//! holds the lock of the directory; where locks do not work, as on some network file systems, the generation
//! of the manifest still finds a second writer.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zebu_storage::disk::{
    Access, Disk, DiskFile, FileSink, FileSource, LockRefused, read_file, replace_file,
};

use crate::core::manifest::Manifest;
use crate::core::sha256;
use crate::core::target::{Content, MANIFEST, Revision, StoredManifest, Target, TargetError};

const LOCK: &str = "zebu-backup.lock";
const MANIFEST_TEMPORARY: &str = "manifest.json.tmp";
const TEMPORARY_END: &str = ".tmp";

/// Bytes that are copied at a time.
const PIECE: usize = 256 << 10;

/// Whether the directory is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryUse {
    /// The directory is created if needed, and locked.
    Write,
    /// The directory must exist.
    Read,
}

/// A backup in a directory.
pub struct DirectoryTarget<D: Disk> {
    disk: D,
    root: PathBuf,
    _lock: Option<D::Lock>,
}

impl<D: Disk> fmt::Debug for DirectoryTarget<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryTarget").field("root", &self.root).finish_non_exhaustive()
    }
}

impl<D: Disk> DirectoryTarget<D> {
    /// Opens a directory. `holder` stands in the lock file.
    pub fn open(
        disk: D,
        root: impl Into<PathBuf>,
        directory_use: DirectoryUse,
        holder: &str,
    ) -> Result<DirectoryTarget<D>, TargetError> {
        let root = root.into();
        let lock = match directory_use {
            DirectoryUse::Read => {
                let found = disk.exists(&root).map_err(|error| failed("look for", &root, error))?;
                if !found {
                    return Err(failed("open", &root, io::ErrorKind::NotFound.into()));
                }
                None
            }
            DirectoryUse::Write => {
                disk.create_directory(&root).map_err(|error| failed("create", &root, error))?;
                let path = root.join(LOCK);
                match disk.lock(&path, holder) {
                    Ok(lock) => Some(lock),
                    Err(LockRefused::Held { holder }) => {
                        let text = format!(
                            "{} is in use by another backup process ({holder}); run one process per target",
                            root.display()
                        );
                        return Err(TargetError::Held(text));
                    }
                    Err(LockRefused::Io(error)) => return Err(failed("lock", &path, error)),
                }
            }
        };
        Ok(DirectoryTarget { disk, root, _lock: lock })
    }

    fn write(&self, path: &Path, content: &dyn Content) -> io::Result<()> {
        let directory = path.parent().unwrap_or(&self.root);
        self.create_parents(directory)?;
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(TEMPORARY_END);
        let temporary = PathBuf::from(temporary);
        let mut sink = FileSink::new(self.disk.create(&temporary)?);
        let mut reader = content.open()?;
        let mut piece = vec![0; PIECE];
        let mut left = content.length();
        while left > 0 {
            let count = reader.read(&mut piece)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            sink.write_all(&piece[..count])?;
            left = left.saturating_sub(count as u64);
        }
        sink.into_file().sync_all()?;
        self.disk.rename(&temporary, path)?;
        self.disk.sync_directory(directory)
    }

    /// Creates the directories down from the root, and makes their names durable.
    fn create_parents(&self, directory: &Path) -> io::Result<()> {
        if self.disk.exists(directory)? {
            return Ok(());
        }
        self.disk.create_directory(directory)?;
        let mut at = directory;
        while let Some(parent) = at.parent() {
            self.disk.sync_directory(parent)?;
            if parent == self.root {
                break;
            }
            at = parent;
        }
        Ok(())
    }

    fn list_below(&self, directory: &Path, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
        if !self.disk.exists(directory)? {
            return Ok(());
        }
        for name in self.disk.list(directory)? {
            names.push(format!("{prefix}/{name}"));
        }
        Ok(())
    }

    fn list_all(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        self.list_below(&self.root.join("log"), "log", &mut names)?;
        self.list_below(&self.root.join("index"), "index", &mut names)?;
        let bases = self.root.join("base");
        if self.disk.exists(&bases)? {
            for base in self.disk.list(&bases)? {
                self.list_below(&bases.join(&base), &format!("base/{base}"), &mut names)?;
            }
        }
        Ok(names)
    }
}

fn failed(verb: &str, path: &Path, error: io::Error) -> TargetError {
    TargetError::io(format!("cannot {verb} {}", path.display()), error)
}

/// The revision of a manifest: its generation and its checksum.
fn revision(bytes: &[u8]) -> Revision {
    let generation = Manifest::decode(bytes).map_or(0, |manifest| manifest.generation);
    Revision(format!("{generation}.{}", sha256(bytes)))
}

impl<D: Disk + Send> Target for DirectoryTarget<D>
where
    D::Lock: Send,
    D::File: Send,
{
    fn put(&self, name: &str, content: &dyn Content) -> Result<(), TargetError> {
        let path = self.root.join(name);
        self.write(&path, content).map_err(|error| failed("write", &path, error))
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read + Send + '_>, TargetError> {
        let path = self.root.join(name);
        match self.disk.open(&path, Access::Read) {
            Ok(file) => Ok(Box::new(io::BufReader::with_capacity(PIECE, FileSource::new(file)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(TargetError::Missing { name: name.to_owned() })
            }
            Err(error) => Err(failed("open", &path, error)),
        }
    }

    fn list(&self) -> Result<Vec<String>, TargetError> {
        self.list_all().map_err(|error| failed("list", &self.root, error))
    }

    fn delete(&self, name: &str) -> Result<(), TargetError> {
        let path = self.root.join(name);
        match self.disk.remove(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("remove", &path, error)),
        }
    }

    fn manifest(&self) -> Result<Option<StoredManifest>, TargetError> {
        let path = self.root.join(MANIFEST);
        match read_file(&self.disk, &path) {
            Ok(bytes) => Ok(Some(StoredManifest { revision: revision(&bytes), bytes })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read", &path, error)),
        }
    }

    fn replace_manifest(&self, bytes: &[u8], expected: Option<&Revision>) -> Result<Revision, TargetError> {
        let found = self.manifest()?.map(|stored| stored.revision);
        if found.as_ref() != expected {
            return Err(TargetError::Conflict);
        }
        let replaced = replace_file(&self.disk, &self.root, MANIFEST, MANIFEST_TEMPORARY, bytes);
        replaced.map_err(|error| failed("write", &self.root.join(MANIFEST), error))?;
        Ok(revision(bytes))
    }
}
