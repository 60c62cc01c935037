//! The two readings of a path that is not ASCII. Property files are ISO-8859-1, and ZooKeeper reads
//! them so; most editors write UTF-8. This module chooses the directory and reports nothing.

use std::path::{Path, PathBuf};

/// Decodes a value that was read as ISO-8859-1 as UTF-8; `None` if that gives no other text.
pub fn utf8_reading(value: &str) -> Option<String> {
    if value.is_ascii() {
        return None;
    }
    let bytes: Option<Vec<u8>> = value.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    String::from_utf8(bytes?).ok()
}

/// The directory that a value names. ZooKeeper's reading counts, because its data may be there. The
/// other one is used only if it exists and ZooKeeper's does not.
pub fn choose_directory(value: &str, is_directory: impl Fn(&Path) -> bool) -> PathBuf {
    let latin1 = PathBuf::from(value);
    match utf8_reading(value).map(PathBuf::from) {
        Some(utf8) if is_directory(&utf8) && !is_directory(&latin1) => utf8,
        _ => latin1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the value of a file in UTF-8, as it is read.
    fn read_as_latin1(text: &str) -> String {
        super::super::properties::decode_latin1(text.as_bytes())
    }

    #[test]
    fn readings() {
        assert_eq!(utf8_reading("/var/lib/zk"), None);
        assert_eq!(utf8_reading(&read_as_latin1("/data/ünï")).as_deref(), Some("/data/ünï"));
        // The file has ISO-8859-1 or an escape: there is one reading.
        assert_eq!(utf8_reading("/data/ünï"), None);
        assert_eq!(utf8_reading("/data/漢"), None);
    }

    #[test]
    fn the_reading_of_zookeeper_counts_unless_only_the_other_one_exists() {
        let value = read_as_latin1("/data/ü");
        let choose = |existing: &[&str]| {
            choose_directory(&value, |path| existing.iter().any(|it| path == Path::new(it)))
        };
        assert_eq!(choose(&[]), Path::new(&value));
        assert_eq!(choose(&["/data/ü"]), Path::new("/data/ü"));
        assert_eq!(choose(&[&value]), Path::new(&value));
        assert_eq!(choose(&[&value, "/data/ü"]), Path::new(&value));
    }
}
