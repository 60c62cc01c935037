//! `CHANGELOG.md` in Debian's form: one entry per release, plain words, lines of at most 80 columns.

use std::fmt::Write as _;

use anyhow::{Context, ensure};
use jiff::civil::Date;

use crate::changelog::{ChangelogSection, parse};

/// The longest line that lintian accepts.
const COLUMNS_MAX: usize = 80;

/// All releases of a changelog, the newest first.
pub(super) fn write(source: &str, version: &str, maintainer: &str) -> anyhow::Result<String> {
    let (sections, _) = parse(source);
    let releases: Vec<&ChangelogSection> =
        sections.iter().filter(|section| !section.date.is_empty()).collect();
    ensure!(
        releases.first().is_some_and(|release| release.version == version),
        "the newest release in CHANGELOG.md is not {version}"
    );
    let mut text = String::new();
    for release in releases {
        let date: Date = release.date.parse().with_context(|| format!("{} is no date", release.date))?;
        let _ = write!(text, "zebu ({}) unstable; urgency=medium\n\n", release.version);
        for kind in &release.kinds {
            let _ = writeln!(text, "  [ {} ]", kind.name);
            for entry in &kind.entries {
                add_wrapped(&mut text, &plain(entry));
            }
            text.push('\n');
        }
        let _ = write!(text, " -- {maintainer}  {}\n\n", date.strftime("%a, %d %b %Y 00:00:00 +0000"));
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    Ok(text)
}

/// Markdown without the marks of code and with the names of links only.
fn plain(entry: &str) -> String {
    let mut text = String::new();
    let mut rest = entry;
    while let Some((before, link)) = rest.split_once('[') {
        text.push_str(before);
        match link.split_once("](").and_then(|(name, after)| Some((name, after.split_once(')')?.1))) {
            Some((name, after)) if !name.contains('[') => {
                text.push_str(name);
                rest = after;
            }
            _ => {
                text.push('[');
                rest = link;
            }
        }
    }
    text.push_str(rest);
    text.replace('`', "")
}

fn add_wrapped(text: &mut String, entry: &str) {
    let mut line = "  *".to_owned();
    for word in entry.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS_MAX {
            let _ = writeln!(text, "{line}");
            "   ".clone_into(&mut line);
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_entries() {
        let source = "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-11-19\n\n### Added\n\n- `a` ([b](c.md)).\n\
                      \n### Fixed\n\n- Words of a line that is so long that it has to be continued on a second\n  line.\n";
        assert_eq!(
            write(source, "0.1.0", "A <a@b.example>").unwrap(),
            "zebu (0.1.0) unstable; urgency=medium\n\n  [ Added ]\n  * a (b).\n\n  [ Fixed ]\n\
            \x20 * Words of a line that is so long that it has to be continued on a second\n    line.\n\n\
            \x20-- A <a@b.example>  Thu, 19 Nov 2026 00:00:00 +0000\n"
        );
        assert!(write(source, "0.2.0", "A <a@b.example>").is_err());
    }

    #[test]
    fn the_changelog_of_the_project_fits() {
        let source =
            std::fs::read_to_string(crate::step::project_root().join(crate::changelog::FILE)).unwrap();
        let text = write(&source, env!("CARGO_PKG_VERSION"), "A <a@b.example>").unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS_MAX));
    }
}
