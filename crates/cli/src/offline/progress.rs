//! How far a long reading is, for a person who waits.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// Whether lines are written while the bar stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Screen {
    /// The command prints its result at the end.
    Free,
    /// The command prints lines continuously, so there is no progress bar.
    Busy,
}

/// A bar of bytes on standard error, if that is a terminal; nothing elsewhere.
pub(crate) fn progress_bar(total: u64, screen: Screen) -> ProgressBar {
    let crowded = screen == Screen::Busy && std::io::stdout().is_terminal();
    if crowded || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "{bar:40} {bytes} of {total_bytes}, {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is right");
    ProgressBar::new(total).with_style(style)
}
