//! A snapshot file as a stream for a visitor: unpacked by its name, with a bar for who waits.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use indicatif::ProgressBar;
use zebu_storage::SnapshotSummary;
use zebu_storage::format::names::compression_of;
use zebu_storage::format::snapshot::{SnapshotFlaw, SnapshotVisitor};
use zebu_storage::snapshot_file::decode;

use crate::offline::{Failure, FileKind, Screen, kind_of, progress_bar};

/// Moves the progress bar as the file is read. It counts compressed bytes, because the total of the others is
/// unknown.
struct Watched<'b> {
    file: File,
    bar: &'b ProgressBar,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.bar.inc(count as u64);
        Ok(count)
    }
}

/// The name without its directories.
pub(super) fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Feeds a snapshot to a visitor. The outer error says that the file cannot be opened, the inner one what is
/// wrong with its content.
pub(super) fn read(
    path: &Path,
    screen: Screen,
    visitor: &mut (impl SnapshotVisitor + ?Sized),
) -> Result<Result<SnapshotSummary, SnapshotFlaw>, Failure> {
    let file = File::open(path).map_err(|error| Failure::of_file("open", path, &error))?;
    if kind_of(path) == Some(FileKind::Log) {
        let path = path.display();
        return Err(Failure::Text(format!(
            "{path} is a transaction log, not a snapshot: zebu log dump {path}"
        )));
    }
    let metadata = file.metadata().map_err(|error| Failure::of_file("read", path, &error))?;
    if metadata.is_dir() {
        return Err(Failure::of_file("read", path, &io::ErrorKind::IsADirectory.into()));
    }
    let bar = progress_bar(metadata.len(), screen);
    let result = decode(Watched { file, bar: &bar }, compression_of(file_name(path)), visitor);
    bar.finish_and_clear();
    Ok(result)
}

/// The failure of a tool that needs the whole snapshot to be sound.
pub(super) fn unusable(path: &Path, flaw: &SnapshotFlaw) -> Failure {
    let path = path.display();
    Failure::Text(format!("{path} is damaged: {flaw}; `zebu snapshot verify {path}` says more"))
}
