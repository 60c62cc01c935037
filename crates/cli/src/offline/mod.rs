//! What the tools share that read files without a server: how they end, what they write to, and how values
//! are spelled. Nothing here changes a file.

mod file_kind;
mod finding;
mod outcome;
mod output;
mod progress;
mod values;

pub(crate) use file_kind::{FileKind, kind_of};
pub(crate) use finding::Finding;
pub(crate) use outcome::{Failure, Verdict, exit};
pub(crate) use output::{Format, Output};
pub(crate) use progress::{Screen, progress_bar};
pub(crate) use values::{acl_text, base64, count, data_text, permissions, time, word};
