//! Bits that change on a disk: which files and positions may be meant. A change that looks like the trace of
//! a power failure is not drawn.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use zebu_storage::format::durable::{self, SyncWatermark};
use zebu_storage::format::names::parse_log;

use super::disk::FaultyDisk;

/// The bytes of all files of a disk.
pub(crate) type DiskImage = BTreeMap<PathBuf, Vec<u8>>;

/// Files that have bytes and whose name starts with one of these.
pub(crate) fn files<'a>(image: &'a DiskImage, prefixes: &[&str]) -> Vec<(&'a PathBuf, &'a Vec<u8>)> {
    let is_meant = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    image.iter().filter(|(path, bytes)| is_meant(path) && !bytes.is_empty()).collect()
}

/// Whether a position in a log is after the sync watermark, where a power failure may have torn it. A change
/// there looks like an end that was never written. The combination of two such failures is documented, not
/// covered.
pub(crate) fn is_behind_the_note(image: &DiskImage, path: &Path, at: usize) -> bool {
    (noted_length(image, path)..written_length(&image[path])).contains(&at)
}

/// The part of a file that a power failure cannot have torn. Only the newest log has another part.
fn noted_length(image: &DiskImage, path: &Path) -> usize {
    let first = |path: &Path| Some(parse_log(path.file_name()?.to_str()?)?.zxid);
    let Some(log) = first(path) else { return written_length(&image[path]) };
    if image.keys().filter_map(|path| first(path)).any(|other| other > log) {
        return written_length(&image[path]);
    }
    let note = image.get(&path.with_file_name(durable::NAME));
    match note.and_then(|bytes| SyncWatermark::decode_file(bytes)) {
        Some(note) if note.log == log => note.offset as usize,
        Some(_) | None => 0,
    }
}

/// The length without the zeros at the end.
fn written_length(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// Changes a bit of a log, or of each snapshot, under a running process. Returns the files.
pub(crate) fn rot_history(disk: &FaultyDisk, place: u64) -> Vec<PathBuf> {
    let image = disk.image();
    let sound = |prefix: &str| -> Vec<(PathBuf, usize)> {
        let lengths =
            files(&image, &[prefix]).into_iter().map(|(path, _)| (path, noted_length(&image, path)));
        lengths.filter(|(_, length)| *length > 0).map(|(path, length)| (path.clone(), length)).collect()
    };
    // The newest log is the one that is read most often.
    let log = sound("log.").pop().filter(|_| place & 3 != 0);
    let meant = log.map_or_else(|| sound("snapshot."), |log| vec![log]);
    for (path, length) in &meant {
        disk.flip_bit(path, (place >> 16) as usize % length, (place >> 8 & 7) as u32);
    }
    meant.into_iter().map(|(path, _)| path).collect()
}
