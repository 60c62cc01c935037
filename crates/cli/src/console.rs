//! Output for people and scripts. A reader that went away (`zebu … | head`) is no error.

use std::io::Write;

/// Writes a line to standard output.
pub(crate) fn say(line: impl AsRef<str>) {
    let _ = writeln!(std::io::stdout().lock(), "{}", line.as_ref());
}

/// Writes the beginning of a line to standard output at once.
pub(crate) fn begin(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}

/// Writes a line to standard error.
pub(crate) fn complain(line: impl AsRef<str>) {
    let _ = writeln!(std::io::stderr().lock(), "{}", line.as_ref());
}
