//! How a tool ends: 0 all is well, 1 the files have flaws or differ, 2 the question could not be answered.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::console::print_error;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No flaw; no difference.
    Good,
    /// A flaw; a difference.
    Bad,
}

impl Verdict {
    /// The worse of two.
    pub(crate) fn and(self, other: Verdict) -> Verdict {
        if self == Verdict::Good { other } else { self }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of the output has closed it (`zebu … | head`). This is no error.
    ReaderLeft,
    /// The text of an error for the user.
    Text(String),
}

impl Failure {
    /// A failed step with a file.
    pub(crate) fn of_file(verb: &str, path: &Path, error: &io::Error) -> Failure {
        Failure::Text(format!("cannot {verb} {}: {error}", path.display()))
    }
}

/// The exit status of a tool; says why it failed.
pub(crate) fn exit(result: Result<Verdict, Failure>) -> ExitCode {
    match result {
        Ok(Verdict::Good) | Err(Failure::ReaderLeft) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::from(1),
        Err(Failure::Text(text)) => {
            print_error(format!("error: {text}"));
            ExitCode::from(2)
        }
    }
}
