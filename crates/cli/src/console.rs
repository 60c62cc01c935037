//! Output for people and scripts. A reader that went away (`zebu … | head`) is no error.

use std::io::Write;

/// Text of a server on its way to a terminal: control characters but line ends and tabs are spelled as
/// `\x1b`.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            control if control.is_control() => shown.push_str(&format!("\\x{:02x}", u32::from(control))),
            other => shown.push(other),
        }
    }
    shown
}

/// Writes a line to standard output.
pub(crate) fn print_line(line: impl AsRef<str>) {
    let _ = writeln!(std::io::stdout().lock(), "{}", line.as_ref());
}

/// Writes the beginning of a line to standard output at once.
pub(crate) fn begin(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}

/// Writes a line to standard error.
pub(crate) fn print_error(line: impl AsRef<str>) {
    let _ = writeln!(std::io::stderr().lock(), "{}", line.as_ref());
}
