//! The form of `CHANGELOG.md` (Keep a Changelog): sections of versions, kinds of changes and their entries.
//! `tidy` checks the form, and `dist` turns the releases into Debian's form.

/// The file, below the top of the project.
pub(crate) const FILE: &str = "CHANGELOG.md";

/// The kinds of changes, in the order in which they may follow each other.
const KINDS: [&str; 6] = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

/// One version with its changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChangelogSection {
    /// The line of its heading, from one.
    pub(crate) line: usize,
    /// `Unreleased` or a version.
    pub(crate) version: String,
    /// `yyyy-mm-dd`; empty for `Unreleased`.
    pub(crate) date: String,
    pub(crate) kinds: Vec<ChangeKindSection>,
}

/// The changes of one kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChangeKindSection {
    pub(crate) line: usize,
    pub(crate) name: String,
    /// Entries without their bullet, each on one line.
    pub(crate) entries: Vec<String>,
}

impl ChangelogSection {
    fn is_unreleased(&self) -> bool {
        self.version == "Unreleased"
    }
}

/// A broken rule, with its line.
pub(crate) type FormFlaw = (usize, String);

/// Reads the sections. Lines outside of the form are flaws.
pub(crate) fn parse(text: &str) -> (Vec<ChangelogSection>, Vec<FormFlaw>) {
    let mut sections: Vec<ChangelogSection> = Vec::new();
    let mut flaws = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if let Some(heading) = line.strip_prefix("## ") {
            let (version, date) = heading.split_once(" - ").unwrap_or((heading, ""));
            let name = version.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            if name.is_none() {
                flaws.push((number, format!("{heading}: a version stands in brackets")));
            }
            let version = name.unwrap_or(version).to_owned();
            let date = date.to_owned();
            sections.push(ChangelogSection { line: number, version, date, kinds: Vec::new() });
        } else if let Some(name) = line.strip_prefix("### ") {
            match sections.last_mut() {
                Some(section) => {
                    let kind = ChangeKindSection { line: number, name: name.to_owned(), entries: Vec::new() };
                    section.kinds.push(kind);
                }
                None => flaws.push((number, format!("{name}: outside of a version"))),
            }
        } else if !line.trim().is_empty() && !sections.is_empty() {
            let kind = sections.last_mut().and_then(|section| section.kinds.last_mut());
            if !add_line(kind, line) {
                flaws.push((number, "a line that belongs to no entry".to_owned()));
            }
        }
    }
    (sections, flaws)
}

/// Adds a line to the entries of a kind; false if it belongs to none.
fn add_line(kind: Option<&mut ChangeKindSection>, line: &str) -> bool {
    let Some(kind) = kind else { return false };
    if let Some(entry) = line.strip_prefix("- ") {
        kind.entries.push(entry.trim().to_owned());
        return true;
    }
    match kind.entries.last_mut() {
        Some(entry) if line.starts_with("  ") => {
            entry.push(' ');
            entry.push_str(line.trim());
            true
        }
        _ => false,
    }
}

/// All flaws of a changelog for a project of this version.
pub(crate) fn flaws(text: &str, project_version: &str) -> Vec<FormFlaw> {
    let (sections, mut flaws) = parse(text);
    if !text.starts_with("# Changelog\n") {
        flaws.push((1, "the first line is not \"# Changelog\"".to_owned()));
    }
    if !sections.first().is_some_and(ChangelogSection::is_unreleased) {
        flaws.push((1, "the first version is not [Unreleased]".to_owned()));
    }
    let newest = sections.iter().find(|section| !section.is_unreleased());
    if newest.is_none_or(|section| section.version != project_version) {
        flaws.push((
            newest.map_or(1, |section| section.line),
            format!("the newest release is not {project_version}, the version of Cargo.toml"),
        ));
    }
    for (index, section) in sections.iter().enumerate() {
        flaws.extend(section_flaws(section, index));
    }
    let releases: Vec<&ChangelogSection> =
        sections.iter().filter(|section| !section.is_unreleased()).collect();
    for pair in releases.windows(2) {
        if numbers(&pair[0].version) <= numbers(&pair[1].version) || pair[0].date < pair[1].date {
            flaws.push((pair[1].line, format!("{} is not older than {}", pair[1].version, pair[0].version)));
        }
    }
    flaws.sort();
    flaws
}

fn section_flaws(section: &ChangelogSection, index: usize) -> Vec<FormFlaw> {
    let mut flaws = Vec::new();
    if section.is_unreleased() {
        if index > 0 || !section.date.is_empty() {
            flaws.push((section.line, "[Unreleased] stands first and has no date".to_owned()));
        }
    } else {
        if numbers(&section.version).is_none() {
            flaws.push((section.line, format!("{}: no version of three numbers", section.version)));
        }
        if section.date.parse::<jiff::civil::Date>().is_err() {
            flaws.push((section.line, format!("{}: no date yyyy-mm-dd", section.version)));
        }
        if section.kinds.is_empty() {
            flaws.push((section.line, format!("{}: no changes", section.version)));
        }
    }
    let place = |name: &str| KINDS.iter().position(|kind| *kind == name);
    let mut last = None;
    for kind in &section.kinds {
        match place(&kind.name) {
            None => flaws.push((kind.line, format!("{}: not one of {}", kind.name, KINDS.join(", ")))),
            found if found <= last => {
                flaws.push((kind.line, format!("{}: out of order; {}", kind.name, KINDS.join(", "))));
            }
            found => last = found,
        }
        if kind.entries.is_empty() {
            flaws.push((kind.line, format!("{}: no entries", kind.name)));
        }
    }
    flaws
}

fn numbers(version: &str) -> Option<[u64; 3]> {
    let parts: Option<Vec<u64>> = version.split('.').map(|part| part.parse().ok()).collect();
    parts?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Changelog\n\nWords.\n\n## [Unreleased]\n\n### Fixed\n\n- C.\n\n## [0.2.0] - 2026-02-01\n\n\
                        ### Added\n\n- A\n  goes on.\n- B.\n\n### Security\n\n- D.\n\n## [0.1.0] - 2026-01-01\n\n\
                        ### Added\n\n- E.\n";

    fn found(text: &str) -> Vec<String> {
        flaws(text, "0.2.0").into_iter().map(|(_, what)| what).collect()
    }

    #[test]
    fn a_good_changelog_is_silent() {
        assert_eq!(found(GOOD), Vec::<String>::new());
        let (sections, _) = parse(GOOD);
        assert_eq!(sections[1].kinds[0].entries, ["A goes on.", "B."]);
        assert_eq!((sections[1].version.as_str(), sections[1].date.as_str()), ("0.2.0", "2026-02-01"));
    }

    #[test]
    fn each_rule_is_checked() {
        for (from, to) in [
            ("# Changelog", "# Changes"),
            ("## [Unreleased]", "## [Unreleased] - 2026-03-01"),
            ("## [0.2.0]", "## 0.2.0"),
            ("## [0.2.0] - 2026-02-01", "## [0.2.0]"),
            ("2026-02-01", "2026-02-31"),
            ("2026-02-01", "2025-02-01"),
            ("[0.1.0]", "[0.3.0]"),
            ("### Security", "### Safety"),
            ("### Fixed\n\n- C.", "### Fixed\n"),
            ("### Fixed\n\n- C.", "### Fixed\n\nC."),
            ("### Added\n\n- A", "### Security\n\n- A"),
            ("## [Unreleased]\n\n### Fixed\n\n- C.\n\n", ""),
        ] {
            assert!(GOOD.contains(from), "{from}");
            assert!(!found(&GOOD.replacen(from, to, 1)).is_empty(), "{from} -> {to}");
        }
        assert_eq!(flaws(GOOD, "0.3.0").len(), 1);
    }
}
