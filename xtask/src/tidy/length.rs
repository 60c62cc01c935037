//! File length as a ratchet: no file grows past the limit; the files that already are longer may only shrink.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Violation;
use super::source::{Role, SourceFile};

/// Where the exceptions and their lengths stand.
pub(crate) const RATCHET_FILE: &str = "xtask/length-ratchet.txt";

const LIMIT: usize = 500;
const WHY: &str = "one file, one concept: up to 500 lines before its tests";

/// Checks lengths against the limit and the ratchet.
pub(crate) fn check(files: &[SourceFile], ratchet: &str) -> Vec<Violation> {
    let exceptions = match parse(ratchet) {
        Ok(exceptions) => exceptions,
        Err(violation) => return vec![violation],
    };
    let mut violations = Vec::new();
    let lengths = lengths(files);
    for (path, &length) in &lengths {
        let what = match exceptions.get(path) {
            None if length > LIMIT => format!("{length} lines"),
            Some(&allowed) if length > LIMIT && length > allowed => {
                format!("{length} lines, grown from {allowed}")
            }
            Some(&allowed) if length < allowed => {
                format!("{length} lines, {RATCHET_FILE} still says {allowed}: run cargo xtask fix")
            }
            Some(_) if length <= LIMIT => format!("no longer an exception: take it out of {RATCHET_FILE}"),
            _ => continue,
        };
        violations.push(Violation::new(path.clone(), what, WHY));
    }
    for path in exceptions.keys().filter(|path| !lengths.contains_key(*path)) {
        violations.push(Violation::new(RATCHET_FILE, format!("names {path}, which does not exist"), WHY));
    }
    violations
}

/// The ratchet after shrinking: comments kept, numbers lowered, files at or under the limit gone.
pub(crate) fn lowered(files: &[SourceFile], ratchet: &str) -> String {
    let lengths = lengths(files);
    let mut out = String::new();
    for line in ratchet.lines() {
        match parse_line(line) {
            Ok(Some((path, allowed))) => {
                if let Some(&length) = lengths.get(path).filter(|length| **length > LIMIT) {
                    writeln!(out, "{path} {}", length.min(allowed)).expect("writing to a String");
                }
            }
            Ok(None) | Err(()) => writeln!(out, "{line}").expect("writing to a String"),
        }
    }
    out
}

fn lengths(files: &[SourceFile]) -> BTreeMap<String, usize> {
    let shipped = files.iter().filter(|file| file.role == Role::Shipped);
    shipped.map(|file| (file.path.clone(), file.lines_before_tests())).collect()
}

fn parse(ratchet: &str) -> Result<BTreeMap<String, usize>, Violation> {
    let mut exceptions = BTreeMap::new();
    for (index, line) in ratchet.lines().enumerate() {
        match parse_line(line) {
            Ok(Some((path, length))) => {
                exceptions.insert(path.to_owned(), length);
            }
            Ok(None) => {}
            Err(()) => {
                let place = format!("{RATCHET_FILE}:{}", index + 1);
                return Err(Violation::new(place, "not of the form: path lines", WHY));
            }
        }
    }
    Ok(exceptions)
}

fn parse_line(line: &str) -> Result<Option<(&str, usize)>, ()> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (path, length) = line.rsplit_once(' ').ok_or(())?;
    Ok(Some((path.trim(), length.parse().map_err(|_| ())?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: usize) -> SourceFile {
        SourceFile::new("crates/x/src/a.rs", &"x\n".repeat(lines))
    }

    #[test]
    fn a_file_at_the_limit_passes_and_one_line_more_does_not() {
        assert_eq!(check(&[file(500)], ""), []);
        assert_eq!(check(&[file(501)], "").len(), 1);
    }

    #[test]
    fn tests_do_not_count() {
        let text = format!("{}#[cfg(test)]\n{}", "x\n".repeat(500), "y\n".repeat(900));
        assert_eq!(check(&[SourceFile::new("crates/x/src/a.rs", &text)], ""), []);
        assert_eq!(check(&[SourceFile::new("crates/x/tests/a.rs", &"x\n".repeat(900))], ""), []);
    }

    #[test]
    fn an_exception_may_only_shrink() {
        let ratchet = "# why\ncrates/x/src/a.rs 600\n";
        assert_eq!(check(&[file(600)], ratchet), []);
        assert_eq!(check(&[file(601)], ratchet).len(), 1);
        assert_eq!(check(&[file(599)], ratchet).len(), 1);
        assert_eq!(lowered(&[file(599)], ratchet), "# why\ncrates/x/src/a.rs 599\n");
        assert_eq!(lowered(&[file(700)], ratchet), ratchet);
        assert_eq!(lowered(&[file(100)], ratchet), "# why\n");
    }

    #[test]
    fn a_stale_or_broken_line_is_reported() {
        assert_eq!(check(&[], "crates/x/src/gone.rs 600\n").len(), 1);
        assert_eq!(check(&[], "crates/x/src/gone.rs many\n").len(), 1);
        assert_eq!(check(&[file(400)], "crates/x/src/a.rs 400\n").len(), 1);
    }
}
