//! Libraries that a server loads before the C library: slow syncs and a clock that is behind. Owns the
//! library and one file for each server, which says how slow or how far behind. The sources are those of the
//! process tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::fleet::Fleet;

const SLOW_SYNC: &str = include_str!("../../../crates/cli/tests/common/slow_sync.c");
const SLOW_CLOCK: &str = include_str!("../../../crates/cli/tests/common/slow_clock.c");

/// A library, and the variable that names its file.
pub(crate) struct Preloaded {
    library: PathBuf,
    variable: &'static str,
}

impl Preloaded {
    /// Syncs take as many milliseconds longer as the file says.
    pub(crate) fn slow_sync(home: &Path) -> Result<Preloaded> {
        build(home, "slow_sync", SLOW_SYNC, "ZEBU_SLOW_SYNC")
    }

    /// The monotonic clocks are behind by as many nanoseconds as the file says.
    pub(crate) fn slow_clock(home: &Path) -> Result<Preloaded> {
        build(home, "slow_clock", SLOW_CLOCK, "ZEBU_TEST_PRELOADED_FILE")
    }

    /// From its next start on the server loads the library.
    pub(crate) fn load_into(&self, fleet: &mut Fleet, number: u8) {
        let preload = format!("LD_PRELOAD={}", self.library.display());
        let file = format!("{}={}", self.variable, self.file(number).display());
        fleet.start_with(number, &["env", &preload, &file]);
    }

    /// The file of a server.
    pub(crate) fn file(&self, number: u8) -> PathBuf {
        self.library.with_extension(format!("{number}"))
    }

    /// Writes the file of a server.
    pub(crate) fn set(&self, number: u8, content: &str) -> Result<()> {
        Ok(fs::write(self.file(number), content)?)
    }
}

fn build(home: &Path, name: &str, text: &str, variable: &'static str) -> Result<Preloaded> {
    let (source, library) = (home.join(format!("{name}.c")), home.join(format!("{name}.so")));
    fs::write(&source, text)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl");
    let status = compiler.status().with_context(|| format!("run cc, which builds {name}"))?;
    ensure!(status.success(), "cc failed: {status}");
    Ok(Preloaded { library, variable })
}
