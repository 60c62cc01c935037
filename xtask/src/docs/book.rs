//! Builds the book with a pinned mdBook and looks at what it wrote. Without that program nothing is checked,
//! and a line says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::step::target_directory;
use crate::tidy::links::links;

/// The version whose pages were looked at.
const VERSION: &str = "0.5.4";

/// Builds the book, or says why it does not.
pub(super) fn build(root: &Path) -> anyhow::Result<()> {
    let program = std::env::var_os("MDBOOK").unwrap_or_else(|| "mdbook".into());
    let installed = Command::new(&program).arg("--version").output().ok();
    let installed = installed.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    if let Some(reason) = reason_to_skip(installed.as_deref()) {
        println!(
            "SKIPPED book: {reason}; cargo install mdbook --version {VERSION} --locked --no-default-features \
             --features search"
        );
        return Ok(());
    }
    let target = target_directory().join("book");
    let output = Command::new(&program)
        .arg("build")
        .arg("--dest-dir")
        .arg(&target)
        .arg(root)
        .output()
        .context("cannot start mdbook")?;
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "mdbook failed:\n{messages}");
    let complaints = complaints(&messages);
    ensure!(complaints.is_empty(), "mdbook complains:\n{}", complaints.join("\n"));
    let summary =
        std::fs::read_to_string(root.join("docs/SUMMARY.md")).context("cannot read docs/SUMMARY.md")?;
    let pages = pages(&summary);
    for page in pages.iter().map(PathBuf::as_path).chain([Path::new("index.html")]) {
        let path = target.join(page);
        let text = std::fs::read_to_string(&path).with_context(|| format!("no page {}", path.display()))?;
        ensure!(text.contains("<main>"), "{} has no content", path.display());
    }
    println!("book: {} pages in {}", pages.len(), target.display());
    Ok(())
}

fn reason_to_skip(installed: Option<&str>) -> Option<String> {
    let Some(installed) = installed else { return Some("mdbook is not installed".to_owned()) };
    let version = installed.trim_start_matches("mdbook").trim().trim_start_matches('v');
    (version != VERSION).then(|| format!("mdbook is {version:?} and not {VERSION}"))
}

/// Warnings and errors among the lines that mdBook logs.
fn complaints(messages: &str) -> Vec<&str> {
    let level = |line: &str| {
        let mut words =
            line.split(|letter: char| !letter.is_ascii_alphabetic()).filter(|word| !word.is_empty());
        words.find(|word| ["INFO", "WARN", "ERROR"].contains(word)).map(str::to_owned)
    };
    messages.lines().filter(|line| level(line).is_some_and(|level| level != "INFO")).collect()
}

/// The pages that mdBook makes of the chapters.
fn pages(summary: &str) -> Vec<PathBuf> {
    links(summary).iter().map(|link| Path::new(&link.target).with_extension("html")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_skipped() {
        assert_eq!(reason_to_skip(Some(&format!("mdbook v{VERSION}"))), None);
        assert_eq!(reason_to_skip(None).unwrap(), "mdbook is not installed");
        assert!(reason_to_skip(Some("mdbook v0.3.0")).unwrap().contains("0.3.0"));
    }

    #[test]
    fn warnings_are_complaints() {
        let log = " INFO Book building has started\n WARN x: y\n2026-11-19 [ERROR] (x): z\n  goes on\n";
        assert_eq!(complaints(log), [" WARN x: y", "2026-11-19 [ERROR] (x): z"]);
    }

    #[test]
    fn chapters_are_pages() {
        let found = pages("- [A](a.md)\n  - [B](zh/b.md)\n");
        assert_eq!(found, [PathBuf::from("a.html"), PathBuf::from("zh/b.html")]);
    }
}
