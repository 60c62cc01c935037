//! The two readings of a path that is not ASCII. Property files are ISO-8859-1 and ZooKeeper reads them so; most editors
//! write UTF-8. It decides which directory is meant and reports nothing.

use std::path::{Path, PathBuf};

/// The text if the bytes of a value that was read as ISO-8859-1 are UTF-8; `None` if both readings are the same, or if
/// there is no other.
pub fn utf8_reading(value: &str) -> Option<String> {
    if value.is_ascii() {
        return None;
    }
    let bytes: Option<Vec<u8>> = value.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    String::from_utf8(bytes?).ok()
}

/// The directory that a value of a file means. The reading of ZooKeeper counts, because its data may be there; the other
/// one is taken only if its directory exists and ZooKeeper's does not.
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

    /// As a value is that a file has in UTF-8.
    fn read_as_latin1(text: &str) -> String {
        super::super::properties::decode_latin1(text.as_bytes())
    }

    #[test]
    fn readings() {
        assert_eq!(utf8_reading("/var/lib/zk"), None);
        assert_eq!(utf8_reading(&read_as_latin1("/data/ünï")).as_deref(), Some("/data/ünï"));
        // ISO-8859-1 in the file, or an escape: there is one reading.
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
