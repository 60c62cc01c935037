//! Which programs were measured, as they say themselves.

use std::fmt;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// Names with numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Versions {
    pub(crate) apache: String,
    pub(crate) java: String,
    pub(crate) zebu: String,
    /// The commit of the project, as given by the caller.
    pub(crate) commit: String,
}

impl Versions {
    pub(crate) fn ask(zebu: &Path, apache: &str, commit: &str) -> Versions {
        Versions {
            apache: apache.to_owned(),
            java: told_aside(Command::new("java").arg("-version")),
            zebu: told(Command::new(zebu).arg("--version")),
            commit: commit.to_owned(),
        }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (commit {}), {}, {}", self.zebu, self.commit, self.apache, self.java)
    }
}

/// The last line of what a program says; empty if it cannot be asked.
pub(crate) fn told(command: &mut Command) -> String {
    command.output().map(|output| line_of(&output.stdout, |text| text.lines().last())).unwrap_or_default()
}

/// The first line of what a program says on standard error.
fn told_aside(command: &mut Command) -> String {
    command.output().map(|output| line_of(&output.stderr, |text| text.lines().next())).unwrap_or_default()
}

fn line_of(bytes: &[u8], pick: impl Fn(&str) -> Option<&str>) -> String {
    pick(String::from_utf8_lossy(bytes).trim()).unwrap_or_default().trim().to_owned()
}
