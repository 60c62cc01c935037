//! Diagnostics of a configuration: notes, warnings and errors, each with its origin. It collects
//! them and prints nothing.

use std::fmt;
use std::path::PathBuf;

use super::sources::ProtectionPolicy;

/// The place where a setting was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingOrigin {
    /// A line of a file.
    Line {
        /// The file, as it was named.
        file: PathBuf,
        /// From 1.
        line: u32,
    },
    /// A whole file.
    File(PathBuf),
    /// An argument or a `-D` word of the command line.
    CommandLine,
    /// A `-D` word inside this environment variable, or the variable itself.
    EnvironmentVariable(&'static str),
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingOrigin::Line { file, line } => write!(f, "{}:{line}", file.display()),
            SettingOrigin::File(file) => write!(f, "{}", file.display()),
            SettingOrigin::CommandLine => f.write_str("command line"),
            SettingOrigin::EnvironmentVariable(name) => f.write_str(name),
        }
    }
}

/// One diagnostic; its text is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigDiagnostic {
    /// Origin of the setting.
    pub origin: SettingOrigin,
    /// The problem and the advice.
    pub text: String,
}

impl fmt::Display for ConfigDiagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.text)
    }
}

/// All diagnostics of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigDiagnostics {
    /// Information for the user.
    pub notes: Vec<ConfigDiagnostic>,
    /// Probable mistakes; the server starts.
    pub warnings: Vec<ConfigDiagnostic>,
    /// Errors; the server does not start.
    pub errors: Vec<ConfigDiagnostic>,
    /// Settings that conflict with Apache ZooKeeper servers in one ensemble.
    pub apache_conflicts: Vec<ConfigDiagnostic>,
    /// Settings that require missing protection; they become diagnostics at the end.
    pub(super) unmet_protection: Vec<UnmetProtection>,
}

/// A setting that requires missing protection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnmetProtection {
    pub(super) origin: SettingOrigin,
    pub(super) key: String,
    pub(super) policy: ProtectionPolicy,
}

impl ConfigDiagnostics {
    pub(super) fn note(&mut self, origin: &SettingOrigin, text: impl Into<String>) {
        self.notes.push(one_line_diagnostic(origin, text.into()));
    }

    pub(super) fn warn(&mut self, origin: &SettingOrigin, text: impl Into<String>) {
        self.warnings.push(one_line_diagnostic(origin, text.into()));
    }

    pub(super) fn error(&mut self, origin: &SettingOrigin, text: impl Into<String>) {
        self.errors.push(one_line_diagnostic(origin, text.into()));
    }

    pub(super) fn apache_conflict(&mut self, origin: &SettingOrigin, text: impl Into<String>) {
        self.apache_conflicts.push(one_line_diagnostic(origin, text.into()));
    }

    /// Sorts each list by origin, and thereby by line within a file.
    pub(super) fn sort(&mut self) {
        for list in [&mut self.notes, &mut self.warnings, &mut self.errors, &mut self.apache_conflicts] {
            list.sort_by(|left, right| left.origin.cmp(&right.origin));
        }
    }
}

/// Messages quote values, which may hold any character; a message stays one line.
fn one_line_diagnostic(origin: &SettingOrigin, text: String) -> ConfigDiagnostic {
    let text = if text.contains(char::is_control) {
        text.chars()
            .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
            .collect()
    } else {
        text
    };
    ConfigDiagnostic { origin: origin.clone(), text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_stays_one_line() {
        let mut diagnostics = ConfigDiagnostics::default();
        diagnostics.error(&SettingOrigin::CommandLine, "x = \"a\nb\u{1b}\"");
        assert_eq!(diagnostics.errors[0].to_string(), "command line: x = \"a\\nb\\u{1b}\"");
    }

    #[test]
    fn sorted_by_line() {
        let at = |line| SettingOrigin::Line { file: PathBuf::from("zoo.cfg"), line };
        let mut diagnostics = ConfigDiagnostics::default();
        diagnostics.warn(&at(10), "b");
        diagnostics.warn(&at(9), "a");
        diagnostics.sort();
        let lines: Vec<_> = diagnostics.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["zoo.cfg:9: a", "zoo.cfg:10: b"]);
    }
}
