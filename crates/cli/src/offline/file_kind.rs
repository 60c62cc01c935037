//! Tells logs and snapshots apart by their first bytes, so that a tool can name the tool that was meant.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use zebu_storage::Compression;
use zebu_storage::format::names::{compression_of, parse_snapshot};

/// The two kinds of files below `version-2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Log,
    Snapshot,
}

/// What a file is; `None` if its beginning does not say so or cannot be read.
pub(crate) fn kind_of(path: &Path) -> Option<FileKind> {
    let mut magic = [0; 4];
    File::open(path).ok()?.read_exact(&mut magic).ok()?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match &magic {
        b"ZKLG" => Some(FileKind::Log),
        b"ZKSN" => Some(FileKind::Snapshot),
        // A packed snapshot shows its name only.
        _ if parse_snapshot(name).is_some() && compression_of(name) != Compression::Plain => {
            Some(FileKind::Snapshot)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_content_and_packed_by_name() {
        let home = tempfile::tempdir().unwrap();
        let kind = |name: &str, content: &[u8]| {
            let path = home.path().join(name);
            std::fs::write(&path, content).unwrap();
            kind_of(&path)
        };
        assert_eq!(kind("log.1", b"ZKLG\0\0\0\x02"), Some(FileKind::Log));
        assert_eq!(kind("log.1", b"ZKSN\0\0\0\x02"), Some(FileKind::Snapshot));
        assert_eq!(kind("snapshot.1.gz", b"\x1f\x8b\x08\0"), Some(FileKind::Snapshot));
        assert_eq!(kind("log.1", b"nonsense"), None);
        assert_eq!(kind("log.1", b"ZK"), None);
        assert_eq!(kind_of(&home.path().join("none")), None);
    }
}
