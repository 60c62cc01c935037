//! A file that is appended to and rotated by size. A failed write leaves no part of a line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Readable for the owner and the group only: lines hold paths and names of users.
const FILE_MODE: u32 = 0o640;

/// The file and its limits.
#[derive(Debug, Clone, PartialEq)]
pub struct RotatedFileConfig {
    /// The file that is appended to. Older files have numbers behind this name.
    pub path: PathBuf,
    /// Lines that would make the file longer than this begin a new one.
    pub bytes_max: u64,
    /// Older files that are kept.
    pub rotated_max: u32,
}

/// A file for lines.
#[derive(Debug)]
pub struct RotatedFile {
    config: RotatedFileConfig,
    open: Option<OpenFile>,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    size: u64,
}

impl RotatedFile {
    /// A file that is opened with the first line.
    pub fn new(config: RotatedFileConfig) -> RotatedFile {
        RotatedFile { config, open: None }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.config.path
    }

    /// Opens the file unless it is open.
    ///
    /// # Errors
    /// Says why it cannot be opened.
    pub fn open(&mut self) -> io::Result<()> {
        self.opened().map(|_| ())
    }

    fn opened(&mut self) -> io::Result<&mut OpenFile> {
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let mut options = OpenOptions::new();
                let file = options.append(true).create(true).mode(FILE_MODE).open(&self.config.path)?;
                let size = file.metadata()?.len();
                OpenFile { file, size }
            }
        };
        Ok(self.open.insert(open))
    }

    /// Appends whole lines. They begin a new file if they do not fit and the file is not empty.
    ///
    /// # Errors
    /// Says why the lines are not in the file.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let bytes_max = self.config.bytes_max;
        let size = self.opened()?.size;
        if size > 0 && size + lines.len() as u64 > bytes_max {
            self.rotate()?;
        }
        let open = self.opened()?;
        if let Err(error) = open.file.write_all(lines) {
            // A part of the lines may be in the file. The next attempt opens it again.
            let _ = open.file.set_len(open.size);
            self.open = None;
            return Err(error);
        }
        open.size += lines.len() as u64;
        Ok(())
    }

    /// Renames `name.log` to `name.log.1`, `name.log.1` to `name.log.2` and so on.
    fn rotate(&mut self) -> io::Result<()> {
        self.open = None;
        let newest = match self.config.rotated_max {
            0 => return fs::remove_file(&self.config.path),
            count => count,
        };
        for number in (1..newest).rev() {
            rename_if_exists(&self.rotated(number), &self.rotated(number + 1))?;
        }
        rename_if_exists(&self.config.path, &self.rotated(1))
    }

    fn rotated(&self, number: u32) -> PathBuf {
        let mut name = self.config.path.clone().into_os_string();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    }

    /// Closes the file if another program has renamed or removed it.
    pub fn close_if_moved(&mut self) {
        let Some(open) = &self.open else { return };
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let current = fs::metadata(&self.config.path).map(identity);
        if !matches!((current, open.file.metadata().map(identity)), (Ok(one), Ok(other)) if one == other) {
            self.open = None;
        }
    }
}

fn rename_if_exists(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(path: PathBuf, bytes_max: u64, rotated_max: u32) -> RotatedFileConfig {
        RotatedFileConfig { path, bytes_max, rotated_max }
    }

    fn contents(directory: &Path) -> Vec<(String, String)> {
        let entry = |entry: io::Result<fs::DirEntry>| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
        };
        let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(entry).collect();
        files.sort();
        files
    }

    #[test]
    fn a_full_file_is_rotated_and_the_oldest_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = RotatedFile::new(config(directory.path().join("a.log"), 10, 2));
        for line in ["one\n", "two\n", "three\n", "four\n", "five and more\n", "six\n"] {
            file.append(line.as_bytes()).unwrap();
        }
        let expected = [("a.log", "six\n"), ("a.log.1", "five and more\n"), ("a.log.2", "four\n")];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(contents(directory.path()), expected);

        // A new process goes on with the size of the file.
        let mut file = RotatedFile::new(config(directory.path().join("a.log"), 10, 1));
        file.append(b"seven\n").unwrap();
        file.append(b"8\n").unwrap();
        assert_eq!(
            contents(directory.path())[..2],
            [("a.log".to_owned(), "8\n".to_owned()), ("a.log.1".to_owned(), "six\nseven\n".to_owned())]
        );
    }

    #[test]
    fn a_file_that_another_program_moved_is_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let mut file = RotatedFile::new(config(path.clone(), 1000, 1));
        file.append(b"one\n").unwrap();
        fs::rename(&path, directory.path().join("moved")).unwrap();
        file.close_if_moved();
        file.append(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
        file.close_if_moved();
        file.append(b"three\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\nthree\n");
    }

    #[test]
    fn a_full_disk_is_an_error_and_later_lines_are_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let mut file = RotatedFile::new(config(path.clone(), 1000, 1));
        assert_eq!(file.append(b"one\n").unwrap_err().kind(), io::ErrorKind::StorageFull);
        fs::remove_file(&path).unwrap();
        file.append(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    }
}
