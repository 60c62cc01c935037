//! `SHA256SUMS`: the checksum of each file of a release, in the form of `sha256sum --check`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use sha2::{Digest, Sha256};

/// The name of the file.
pub(super) const FILE: &str = "SHA256SUMS";

/// Writes the checksums of these files of a directory, in the order of their names.
pub(super) fn write(directory: &Path, names: &[String]) -> anyhow::Result<()> {
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort();
    let mut text = String::new();
    for name in sorted {
        let path = directory.join(name);
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let _ = writeln!(text, "{}  {name}", hexadecimal(&Sha256::digest(&bytes)));
    }
    let path = directory.join(FILE);
    std::fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
}

/// Bytes as lowercase digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_that_of_sha256sum() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("b"), "").unwrap();
        std::fs::write(directory.path().join("a"), "abc").unwrap();
        write(directory.path(), &["b".to_owned(), "a".to_owned()]).unwrap();
        let text = std::fs::read_to_string(directory.path().join(FILE)).unwrap();
        assert_eq!(
            text,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n\
             e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
        );
    }
}
