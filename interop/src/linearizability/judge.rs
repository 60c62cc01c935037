//! The judge is porcupine, in a small Go program. It is built before the lab is entered, which has no way to
//! the module proxy.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::history::History;
use crate::apache::cache;

/// Where the built program is.
fn program() -> Result<PathBuf> {
    Ok(cache()?.join("linearizability-judge"))
}

/// Builds the program.
pub(super) fn build() -> Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("linearizability");
    let mut go = Command::new("go");
    go.arg("build").arg("-o").arg(program()?).arg(".").current_dir(source).env("GOFLAGS", "-mod=readonly");
    let done = go.output().context("cannot run go, which builds the judge")?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "the judge does not build: {}", said.trim());
    Ok(())
}

/// The histories that no order of their operations explains, by name; the others are linearizable.
pub(super) fn violations(histories: &[History], kept: &Path) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for history in histories {
        serde_json::to_writer(&mut lines, history)?;
        lines.push(b'\n');
    }
    // Kept as a file too: a violation wants to be looked at.
    fs::write(kept, &lines)?;
    let mut judge = Command::new(program()?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the judge")?;
    let mut input = judge.stdin.take().context("the judge has no input")?;
    let writer = std::thread::spawn(move || input.write_all(&lines));
    let done = judge.wait_with_output()?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    ensure!(done.status.success(), "the judge failed: {}", done.status);
    verdicts(histories, &String::from_utf8_lossy(&done.stdout))
}

/// Reads the verdicts. Each history has one.
fn verdicts(histories: &[History], text: &str) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    let mut lines = text.lines();
    for history in histories {
        let line = lines.next().with_context(|| format!("no verdict about {}", history.name))?;
        match line.strip_prefix(&history.name).map(str::trim) {
            Some("ok") => {}
            Some("violation") => violations.push(history.name.clone()),
            _ => bail!("the verdict about {} is {line:?}", history.name),
        }
    }
    Ok(violations)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> History {
        History { name: name.to_owned(), operations: Vec::new() }
    }

    #[test]
    fn a_history_without_a_verdict_is_an_error() {
        let histories = [named("a"), named("b")];
        assert_eq!(verdicts(&histories, "a ok\nb violation\n").expect("two verdicts"), ["b"]);
        assert!(verdicts(&histories, "a ok\n").is_err());
        assert!(verdicts(&histories, "a ok\nb unknown\n").is_err());
        assert!(verdicts(&histories, "b ok\na ok\n").is_err());
    }
}
