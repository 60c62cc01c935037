//! The recorded exchanges with Apache ZooKeeper, in `testdata/client`, and their runner. Its README says
//! what the fields mean. The runner judges bytes; it knows no operation.

mod bindings;
mod compare;
mod config;
mod format;
mod run;
mod servers;

use std::fs;
use std::path::{Path, PathBuf};

pub use config::Config;
pub use format::{Field, FieldKind, Hex, Step, Vector};
pub use run::{Mismatch, Order, Outcome, Report, RunError, run, run_all};
pub use servers::Servers;

/// Which release a server behaves as: decides which lines apply and what event headers carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Debian's 3.8.0: events carry no zxid.
    V3_8_0,
    /// 3.9.x. Zebu follows its lines.
    V3_9_5,
}

impl Release {
    /// As `servers` spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Release::V3_8_0 => "3.8.0",
            Release::V3_9_5 => "3.9.5",
        }
    }
}

/// Why a file of vectors cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum VectorFileError {
    /// It cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A line is not a vector.
    #[error("{path}, line {line}: {source}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from one.
        line: usize,
        /// The error of the parser.
        source: serde_json::Error,
    },
}

/// The directory of the recorded exchanges in this repository.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/client")
}

/// The recorded files, sorted by name.
pub fn files() -> Result<Vec<PathBuf>, VectorFileError> {
    let path = directory();
    let io = |source| VectorFileError::Io { path: path.clone(), source };
    let entries = fs::read_dir(&path).map_err(io)?.collect::<Result<Vec<_>, _>>().map_err(io)?;
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    Ok(files)
}

/// Reads one file.
pub fn load(path: &Path) -> Result<Vec<Vector>, VectorFileError> {
    let text =
        fs::read_to_string(path).map_err(|source| VectorFileError::Io { path: path.to_owned(), source })?;
    let vector = |(index, line)| {
        serde_json::from_str(line).map_err(|source| VectorFileError::Line {
            path: path.to_owned(),
            line: index + 1,
            source,
        })
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(vector).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recorded_line_is_understood() {
        let mut count = 0;
        for file in files().unwrap() {
            for vector in load(&file).unwrap() {
                assert!(!vector.steps.is_empty(), "{}", vector.name);
                for step in &vector.steps {
                    assert!(step.mask.len() <= step.recv.len(), "{}: masks without frames", vector.name);
                }
                count += 1;
            }
        }
        assert_eq!(count, 335);
    }
}
