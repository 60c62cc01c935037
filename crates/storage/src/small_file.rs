//! The small text files of a server: decimal numbers, replaced as a whole, and the marker that makes an empty
//! database trusted.

use std::path::{Path, PathBuf};

use crate::directory::Directories;
use crate::disk::{Disk, read_file, replace_file};
use crate::failure::{During, IoFailure};

/// Why a number was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum SmallFileError {
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// The first line is not a decimal number.
    #[error("{} must hold one decimal number and nothing else, but holds {content:?}", path.display())]
    NotANumber {
        /// The file.
        path: PathBuf,
        /// Its first line.
        content: String,
    },
}

/// Reads the number in the first line; `None` if there is no file. Spaces are an error, as in ZooKeeper.
pub fn read_number<D: Disk>(disk: &D, path: &Path) -> Result<Option<i64>, SmallFileError> {
    if !disk.exists(path).during("look for", path)? {
        return Ok(None);
    }
    let bytes = read_file(disk, path).during("read", path)?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().next().unwrap_or_default();
    match line.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => {
            let content = line.chars().take(40).collect();
            Err(SmallFileError::NotANumber { path: path.to_owned(), content })
        }
    }
}

/// Replaces the number; a crash leaves either the old or the new one.
pub fn write_number<D: Disk>(disk: &D, directory: &Path, name: &str, value: i64) -> Result<(), IoFailure> {
    let temporary = format!("{name}.tmp");
    replace_file(disk, directory, name, &temporary, value.to_string().as_bytes())
        .during("write", &directory.join(name))
}

/// The server's id from `myid`; `None` for a standalone server.
pub fn read_my_id<D: Disk>(disk: &D, directories: &Directories) -> Result<Option<i64>, SmallFileError> {
    read_number(disk, &directories.data_root().join("myid"))
}

/// Whether the operator marked an empty database as intended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitializeMark {
    /// The marker existed; it is removed now.
    Present,
    /// There was none.
    Absent,
}

/// Consumes the `initialize` marker. ZooKeeper looks for it beside the logs while its own script puts it
/// beside `myid`: both places count.
pub fn take_initialize_mark<D: Disk>(
    disk: &D,
    directories: &Directories,
) -> Result<InitializeMark, IoFailure> {
    let mut mark = InitializeMark::Absent;
    for root in [directories.log_root(), directories.data_root()] {
        let path = root.join("initialize");
        if disk.exists(&path).during("look for", &path)? {
            disk.remove(&path).during("remove", &path)?;
            disk.sync_directory(root).during("sync", root)?;
            mark = InitializeMark::Present;
        }
    }
    Ok(mark)
}
