//! Links of the documents: every relative link leads to a file, every anchor to a heading, and no page of the
//! book leads out of the book.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use crate::step::project_root;

const DEAD: &str = "a reader must be able to follow every link";
const OUTSIDE: &str = "the book has the files below docs/ only; name the path as code instead";

/// A link of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) line: usize,
    pub(crate) target: String,
}

/// Checks all Markdown files.
pub(crate) fn check(texts: &[(String, String)]) -> Vec<Violation> {
    let files: BTreeSet<&str> = texts.iter().map(|(path, _)| path.as_str()).collect();
    let pages: BTreeMap<&str, &str> = texts
        .iter()
        .filter(|(path, _)| path.ends_with(".md"))
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let mut violations = Vec::new();
    for (path, text) in &pages {
        for link in links(text) {
            if let Some((what, why)) = flaw(path, &link.target, &files, &pages) {
                violations.push(Violation::new(format!("{path}:{}", link.line), what, why));
            }
        }
    }
    violations
}

fn flaw(
    page: &str,
    target: &str,
    files: &BTreeSet<&str>,
    pages: &BTreeMap<&str, &str>,
) -> Option<(String, &'static str)> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { Some(page.to_owned()) } else { resolved(page, file) };
    let Some(path) = path else { return Some((format!("{target}: outside of the project"), DEAD)) };
    if page.starts_with("docs/") && !path.starts_with("docs/") {
        return Some((format!("{target}: outside of the book"), OUTSIDE));
    }
    let directory = format!("{}/", path.trim_end_matches('/'));
    let is_directory = files.iter().any(|file| file.starts_with(&directory));
    // Pictures are no texts.
    let is_picture = || path.ends_with(".png") && project_root().join(&path).is_file();
    if !files.contains(path.as_str()) && !is_directory && !is_picture() {
        return Some((format!("{target}: no such file"), DEAD));
    }
    match pages.get(path.as_str()) {
        Some(text) if !anchor.is_empty() && !anchors(text).contains(anchor) => {
            Some((format!("{target}: no such heading"), DEAD))
        }
        _ => None,
    }
}

/// A relative path as a path below the top of the project.
fn resolved(page: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Lines outside of code blocks, with code spans blanked.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return None;
        }
        if is_code {
            return None;
        }
        let parts = line.split('`').enumerate();
        let blanked: String = parts.map(|(part, text)| if part % 2 == 0 { text } else { "" }).collect();
        Some((index + 1, blanked))
    })
}

/// The targets of `[text](target)` and `![text](target)`.
pub(crate) fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (line, prose) in prose(text) {
        let mut rest = prose.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else { break };
            found.push(Link { line, target: target.trim().to_owned() });
            rest = after;
        }
    }
    found
}

/// Headings with their levels.
pub(super) fn headings(text: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        if let Some(heading) =
            line[level..].strip_prefix(' ').filter(|_| (1..=6).contains(&level) && !is_code)
        {
            found.push((level, heading.trim().to_owned()));
        }
    }
    found
}

/// The anchors of a page, as mdBook and the usual viewers make them from headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, heading) in headings(text) {
        let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        let anchor: String = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let mut unique = anchor.clone();
        let mut number = 0;
        while !anchors.insert(unique.clone()) {
            number += 1;
            unique = format!("{anchor}-{number}");
        }
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str, text: &str) -> Vec<String> {
        let other = ("docs/b.md".to_owned(), "# Two words, `code`\n## A\n## A\n".to_owned());
        let texts = [(page.to_owned(), text.to_owned()), other, ("Cargo.toml".to_owned(), String::new())];
        check(&texts).into_iter().map(|violation| violation.what).collect()
    }

    #[test]
    fn good_links_are_silent() {
        let text = "[a](b.md) ![p](https://x/y.svg) [c](b.md#two-words-code) [d](b.md#a-1) [e](#top)\n# Top\n\
                    `[x](none.md)`\n```\n[y](none.md)\n```\n";
        assert_eq!(found("docs/a.md", text), Vec::<String>::new());
    }

    #[test]
    fn dead_links_and_anchors_are_found() {
        assert_eq!(found("docs/a.md", "[a](none.md)"), ["none.md: no such file"]);
        assert_eq!(found("docs/a.md", "[a](b.md#three)"), ["b.md#three: no such heading"]);
        assert_eq!(found("docs/a.md", "x [a](#none) y"), ["#none: no such heading"]);
        assert_eq!(found("a.md", "[a](../b.md)"), ["../b.md: outside of the project"]);
    }

    #[test]
    fn the_book_leads_to_itself_only() {
        assert_eq!(found("docs/a.md", "[a](../Cargo.toml)"), ["../Cargo.toml: outside of the book"]);
        assert_eq!(
            found("README.md", "[a](Cargo.toml) [b](docs/) [c](docs/b.md) [d](docs)"),
            Vec::<String>::new()
        );
    }
}
