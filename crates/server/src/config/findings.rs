//! What was noticed while a configuration was read: notes, warnings and errors, each with its place.
//! Collects; decides nothing and prints nothing.

use std::fmt;
use std::path::PathBuf;

use super::sources::MissingProtection;

/// Where a setting was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A line of a file.
    Line {
        /// The file, as it was named.
        file: PathBuf,
        /// From 1.
        line: u32,
    },
    /// A file as a whole.
    File(PathBuf),
    /// An argument or a `-D` word of the command line.
    CommandLine,
    /// A `-D` word inside this environment variable, or the variable itself.
    Variable(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Line { file, line } => write!(f, "{}:{line}", file.display()),
            Origin::File(file) => write!(f, "{}", file.display()),
            Origin::CommandLine => f.write_str("command line"),
            Origin::Variable(name) => f.write_str(name),
        }
    }
}

/// One thing that was noticed; its text is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub origin: Origin,
    /// What, and what to do about it.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.text)
    }
}

/// Everything that was noticed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// Good to know.
    pub notes: Vec<Finding>,
    /// Probably not what was meant; the server starts.
    pub warnings: Vec<Finding>,
    /// The server does not start.
    pub errors: Vec<Finding>,
    /// Keeps a member from working together with Apache ZooKeeper servers.
    pub mixed: Vec<Finding>,
    /// Wishes for protection that were met on the way; they become findings at the end.
    pub(super) unprotected: Vec<Unprotected>,
}

/// A setting that asks for protection which is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unprotected {
    pub(super) origin: Origin,
    pub(super) key: String,
    pub(super) missing: MissingProtection,
}

impl Findings {
    pub(super) fn note(&mut self, origin: &Origin, text: impl Into<String>) {
        self.notes.push(finding(origin, text.into()));
    }

    pub(super) fn warn(&mut self, origin: &Origin, text: impl Into<String>) {
        self.warnings.push(finding(origin, text.into()));
    }

    pub(super) fn error(&mut self, origin: &Origin, text: impl Into<String>) {
        self.errors.push(finding(origin, text.into()));
    }

    pub(super) fn mixed(&mut self, origin: &Origin, text: impl Into<String>) {
        self.mixed.push(finding(origin, text.into()));
    }

    /// Puts each list into the order of the places, which is the order of lines within a file.
    pub(super) fn sort(&mut self) {
        for list in [&mut self.notes, &mut self.warnings, &mut self.errors, &mut self.mixed] {
            list.sort_by(|left, right| left.origin.cmp(&right.origin));
        }
    }
}

/// Values are quoted in messages and may hold anything; a message stays one line.
fn finding(origin: &Origin, text: String) -> Finding {
    let text = if text.contains(char::is_control) {
        text.chars()
            .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
            .collect()
    } else {
        text
    };
    Finding { origin: origin.clone(), text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_stays_one_line() {
        let mut findings = Findings::default();
        findings.error(&Origin::CommandLine, "x = \"a\nb\u{1b}\"");
        assert_eq!(findings.errors[0].to_string(), "command line: x = \"a\\nb\\u{1b}\"");
    }

    #[test]
    fn sorted_by_line() {
        let at = |line| Origin::Line { file: PathBuf::from("zoo.cfg"), line };
        let mut findings = Findings::default();
        findings.warn(&at(10), "b");
        findings.warn(&at(9), "a");
        findings.sort();
        let lines: Vec<_> = findings.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["zoo.cfg:9: a", "zoo.cfg:10: b"]);
    }
}
