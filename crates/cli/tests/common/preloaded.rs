//! Libraries that are loaded into a server before all others, built from C when a test needs them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds a library from a source beside this file; `None`, and a word about it, without a C compiler.
pub(crate) fn build(source: &str, directory: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common").join(source);
    let library = directory.join("preloaded.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    if compiler.status().is_ok_and(|status| status.success()) {
        return Some(library);
    }
    eprintln!("skipped: there is no C compiler (cc) to build {}", source.display());
    None
}
