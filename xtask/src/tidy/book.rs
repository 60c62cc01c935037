//! The book: every page has one chapter in `docs/SUMMARY.md`, generated files are current, and translations
//! keep step with their originals.

use std::collections::BTreeMap;

use super::Violation;
use super::links::{headings, links};
use crate::docs::Generated;

const SUMMARY: &str = "docs/SUMMARY.md";
const CHAPTERS: &str = "a page without a chapter is not in the book, and its search does not find it";
const OLD: &str = "run cargo xtask docs";
const STEP: &str = "a translation that lags behind tells its readers something wrong";

/// Pages whose translations have the same headings, code blocks, rows, links and pictures.
const TRANSLATIONS: [(&str, &str); 3] = [
    ("README.md", "README.zh-CN.md"),
    ("docs/getting-started.md", "docs/zh/getting-started.md"),
    ("docs/concepts.md", "docs/zh/concepts.md"),
];

/// Checks the list of chapters.
pub(crate) fn check_summary(texts: &[(String, String)]) -> Vec<Violation> {
    let Some((_, summary)) = texts.iter().find(|(path, _)| path == SUMMARY) else {
        return vec![Violation::new(SUMMARY, "no such file", CHAPTERS)];
    };
    let mut chapters: BTreeMap<String, usize> = BTreeMap::new();
    for link in links(summary) {
        *chapters.entry(format!("docs/{}", link.target)).or_default() += 1;
    }
    let mut violations = Vec::new();
    for (path, _) in texts {
        let is_page = path.starts_with("docs/") && path.ends_with(".md") && path != SUMMARY;
        if is_page && !chapters.contains_key(path) {
            violations.push(Violation::new(SUMMARY, format!("no chapter for {path}"), CHAPTERS));
        }
    }
    for (path, count) in chapters.iter().filter(|(_, count)| **count > 1) {
        violations.push(Violation::new(SUMMARY, format!("{count} chapters for {path}"), CHAPTERS));
    }
    violations
}

/// Compares files with the texts that `cargo xtask docs` would write.
pub(crate) fn check_generated(texts: &[(String, String)], generated: &[Generated]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in generated {
        let found = texts.iter().find(|(path, _)| *path == file.path);
        if found.is_none_or(|(_, text)| *text != file.text) {
            violations.push(Violation::new(&*file.path, "not what its source says", OLD));
        }
    }
    violations
}

/// Compares translations with their originals.
pub(crate) fn check_translations(texts: &[(String, String)]) -> Vec<Violation> {
    let text_of = |wanted: &str| texts.iter().find(|(path, _)| path == wanted).map(|(_, text)| text.as_str());
    let mut violations = Vec::new();
    for (original, translation) in TRANSLATIONS {
        let (Some(from), Some(to)) = (text_of(original), text_of(translation)) else {
            violations.push(Violation::new(translation, format!("this page or {original} is missing"), STEP));
            continue;
        };
        for what in differences(from, to) {
            violations.push(Violation::new(translation, format!("{what}, compared with {original}"), STEP));
        }
    }
    violations
}

/// The parts of two pages that must be equal and are not.
fn differences(original: &str, translation: &str) -> Vec<String> {
    let levels = |text: &str| headings(text).into_iter().map(|(level, _)| level).collect::<Vec<_>>();
    let mut found = Vec::new();
    if levels(original) != levels(translation) {
        found.push("other headings".to_owned());
    }
    if code_blocks(original) != code_blocks(translation) {
        found.push("other code blocks".to_owned());
    }
    let rows = |text: &str| text.lines().filter(|line| line.starts_with('|')).count();
    if rows(original) != rows(translation) {
        found.push("another number of rows in tables".to_owned());
    }
    let targets = |text: &str| {
        let mut targets: Vec<String> =
            links(text).into_iter().filter_map(|link| subject(&link.target)).collect();
        targets.sort();
        targets.dedup();
        targets
    };
    let (own, other) = (targets(original), targets(translation));
    found.extend(
        own.iter().filter(|target| !other.contains(target)).map(|target| format!("no link to {target}")),
    );
    found
}

/// The page or picture of a link, the same in both languages. `None` for links between the languages.
fn subject(target: &str) -> Option<String> {
    if target.contains("README") || target.starts_with('#') {
        return None;
    }
    if target.contains("://") {
        return Some(target.to_owned());
    }
    let file = target.split('#').next().unwrap_or_default();
    let name = file.rsplit('/').next().unwrap_or_default().replace(".zh.", ".");
    // Links between the two languages of a page: `zh/concepts.md` and `../concepts.md`. Chinese readers find
    // the failures on the page of the recipes.
    match name.as_str() {
        "" | "getting-started.md" | "concepts.md" | "failures.md" => None,
        name => Some(name.to_owned()),
    }
}

fn code_blocks(text: &str) -> Vec<Vec<&str>> {
    let mut blocks = Vec::new();
    let mut open: Option<Vec<&str>> = None;
    for line in text.lines().map(str::trim_end) {
        let is_fence = line.trim_start().starts_with("```");
        match (&mut open, is_fence) {
            (None, true) => open = Some(vec![line]),
            (Some(_), true) => blocks.extend(open.take()),
            (Some(block), false) => block.push(line),
            (None, false) => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn every_page_has_one_chapter() {
        let summary = "- [A](a.md)\n- [B](b.md)\n- [B](b.md)\n";
        let all =
            texts(&[("docs/SUMMARY.md", summary), ("docs/a.md", ""), ("docs/b.md", ""), ("docs/c.md", "")]);
        let found: Vec<String> = check_summary(&all).into_iter().map(|violation| violation.what).collect();
        assert_eq!(found, ["no chapter for docs/c.md", "2 chapters for docs/b.md"]);
    }

    #[test]
    fn generated_files_must_be_current() {
        let file = |text: &str| [Generated { path: "docs/x.svg".to_owned(), text: text.to_owned() }];
        assert_eq!(check_generated(&texts(&[("docs/x.svg", "a")]), &file("a")), []);
        assert_eq!(check_generated(&texts(&[("docs/x.svg", "a")]), &file("b")).len(), 1);
        assert_eq!(check_generated(&[], &file("b")).len(), 1);
    }

    #[test]
    fn translations_keep_step() {
        let original = "# A\n[x](docs/x.md) ![p](pictures/p.svg)\n```sh\nls\n```\n| a |\n";
        let good = "# 甲\n[乙](../x.md#y) ![丙](../pictures/p.zh.svg)\n```sh\nls\n```\n| 甲 |\n";
        assert_eq!(differences(original, good), Vec::<String>::new());
        for (from, to, what) in [
            ("# 甲", "## 甲", "other headings"),
            ("ls", "ls -l", "other code blocks"),
            ("| 甲 |", "", "another number of rows in tables"),
            ("../x.md", "../z.md", "no link to x.md"),
        ] {
            assert_eq!(differences(original, &good.replace(from, to)), [what]);
        }
    }
}
