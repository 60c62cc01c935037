//! The logs of a directory as a sequence of files: the existing files, the ones that a zxid needs, and the
//! order of zxids.

use std::path::{Path, PathBuf};

use zebu_proto::Zxid;

use crate::disk::Disk;
use crate::failure::{During, IoFailure};
use crate::format::names::{NumberedName, parse_log};

/// A file with the name of a log.
#[derive(Clone, Debug)]
pub(crate) struct LogFile {
    pub(crate) path: PathBuf,
    pub(crate) name: NumberedName,
}

/// All files with the name of a log, oldest first.
pub(crate) fn list<D: Disk>(disk: &D, directory: &Path) -> Result<Vec<LogFile>, IoFailure> {
    let names = disk.list(directory).during("list", directory)?;
    let mut files: Vec<_> = names
        .iter()
        .filter_map(|name| Some(LogFile { path: directory.join(name), name: parse_log(name)? }))
        .collect();
    files.sort_by(|a, b| a.name.zxid.cmp(&b.name.zxid).then_with(|| a.path.cmp(&b.path)));
    Ok(files)
}

/// The logs that may contain transactions after `base`: from the one that begins right after it, or from the
/// newest that begins earlier.
pub(crate) fn needed(files: &[LogFile], base: Zxid) -> &[LogFile] {
    let next = base.next();
    let exact = files.iter().position(|file| Some(file.name.zxid) == next);
    let first = exact.or_else(|| {
        let newest = files.iter().rfind(|file| file.name.zxid <= base)?.name.zxid;
        files.iter().position(|file| file.name.zxid == newest)
    });
    &files[first.unwrap_or(0)..]
}

/// Whether a zxid can directly follow another: the next one, or the first of a later epoch. Counter zero is
/// the start of an epoch; some releases log an error under it.
pub(crate) fn follows(last: Zxid, zxid: Zxid) -> bool {
    last.next() == Some(zxid) || (zxid.epoch() > last.epoch() && zxid.counter() <= 1)
}
