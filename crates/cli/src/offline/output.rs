//! Standard output for long listings: buffered, by the line, in one of two forms.

use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};

use serde_json::Value;

use super::outcome::Failure;

/// The form of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

impl Format {
    /// What the switch `--json` asks for.
    pub(crate) fn of_switch(json: bool) -> Format {
        if json { Format::Json } else { Format::Text }
    }
}

/// Where lines go.
pub(crate) struct Output {
    inner: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// Takes standard output for itself until it is dropped.
    pub(crate) fn new() -> Output {
        Output { inner: BufWriter::with_capacity(64 * 1024, io::stdout().lock()) }
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, line: impl Display) -> Result<(), Failure> {
        writeln!(self.inner, "{line}").map_err(failure)
    }

    /// Writes a JSON object as a line.
    pub(crate) fn json(&mut self, value: &Value) -> Result<(), Failure> {
        self.line(value)
    }

    /// Makes what was written so far visible.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.inner.flush().map_err(failure)
    }
}

fn failure(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ReaderLeft,
        _ => Failure::Text(format!("cannot write to standard output: {error}")),
    }
}
