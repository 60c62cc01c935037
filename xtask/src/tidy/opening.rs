//! Every Rust file opens with `//!`: what it owns and what it refuses.

use super::Violation;
use super::source::SourceFile;

/// Checks the first line.
pub(crate) fn check(file: &SourceFile) -> Option<Violation> {
    let says_something = file
        .text
        .lines()
        .next()
        .is_some_and(|line| line.strip_prefix("//!").is_some_and(|words| words.trim().len() > 3));
    (!says_something).then(|| {
        let what = "the file does not open with //! and what it owns";
        Violation::at(file, 1, what, "a newcomer reads the first line of a file first")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_must_speak() {
        assert!(check(&SourceFile::new("a.rs", "//! What this owns.\n")).is_none());
        assert!(check(&SourceFile::new("a.rs", "//!\nuse x;\n")).is_some());
        assert!(check(&SourceFile::new("a.rs", "use x;\n//! late\n")).is_some());
        assert!(check(&SourceFile::new("a.rs", "")).is_some());
    }
}
