//! The language of comments and documents as a ratchet: private words and long comment lines may only become
//! fewer, counted per crate and per document. A crate without a line in the ratchet file has none.

use super::Violation;
use super::count_ratchet::{self, CountRatchet, Findings};

/// Where the counts stand.
pub(crate) const RATCHET_FILE: &str = "xtask/language-ratchet.txt";

const COLUMNS_MAX: usize = 110;
const WHY: &str =
    "a reader who knows ZooKeeper must understand each sentence at first sight; CONTRIBUTING.md, Style";

/// Words that stand for a server, a client or a thread without naming it.
const BANNED_WORDS: [&str; 7] = ["whoever", "whomever", "somebody", "nobody", "everybody", "himself", "him"];

/// Openings of sentences whose subject is not named.
const BANNED_OPENINGS: [&str; 10] = [
    "What is ",
    "What was ",
    "What has ",
    "What comes ",
    "What came ",
    "Who is ",
    "Who was ",
    "Who has ",
    "Who may ",
    "Who does ",
];

const RATCHET: CountRatchet = CountRatchet { file: RATCHET_FILE, why: WHY };

/// Checks the counts of all texts against the ratchet.
pub(crate) fn check(texts: &[(String, String)], ratchet: &str) -> Vec<Violation> {
    RATCHET.check(&lines_by_unit(texts), ratchet)
}

/// The ratchet with lower counts; never with higher ones.
pub(crate) fn lowered(texts: &[(String, String)], ratchet: &str) -> String {
    count_ratchet::lowered(&lines_by_unit(texts), ratchet)
}

fn lines_by_unit(texts: &[(String, String)]) -> Findings {
    let mut found = Findings::new();
    for (path, text) in texts {
        let Some(unit) = unit_of(path) else { continue };
        let is_code = path.ends_with(".rs");
        let comments =
            text.lines().enumerate().filter(|(_, line)| !is_code || line.trim_start().starts_with("//"));
        for (index, line) in comments {
            let mut what = flaw(line);
            if what.is_none() && is_code && line.chars().count() > COLUMNS_MAX {
                what = Some(format!("a comment line of more than {COLUMNS_MAX} columns"));
            }
            if let Some(what) = what {
                found.entry(unit.clone()).or_default().push((format!("{path}:{}", index + 1), what));
            }
        }
    }
    found
}

/// The crate of a Rust file, or the document itself.
fn unit_of(path: &str) -> Option<String> {
    if path.ends_with(".md") {
        return Some(path.to_owned());
    }
    let mut parts = path.split('/');
    match (path.ends_with(".rs"), parts.next()?, parts.next()?) {
        (true, "crates", name) => Some(format!("crates/{name}")),
        (true, top, _) => Some(top.to_owned()),
        (false, ..) => None,
    }
}

fn flaw(line: &str) -> Option<String> {
    let words = line.split(|character: char| !character.is_alphabetic());
    let banned = |word: &str| BANNED_WORDS.iter().find(|banned| word.eq_ignore_ascii_case(banned)).copied();
    if let Some(word) = words.filter_map(banned).next() {
        return Some(format!("the word \"{word}\""));
    }
    let text = line.trim_start().trim_start_matches('/').trim_start_matches('!').trim_start();
    let opening = BANNED_OPENINGS.iter().find(|opening| {
        text.starts_with(**opening)
            || text.contains(&format!(". {opening}"))
            || text.contains(&format!(": {opening}"))
    });
    opening.map(|opening| format!("a sentence that begins with \"{}\"", opening.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &str) -> Vec<(String, String)> {
        vec![("crates/x/src/a.rs".to_owned(), format!("{line}\n"))]
    }

    #[test]
    fn private_words_in_comments_are_found() {
        for line in
            ["// Whoever sends", "/// What is sent.", "//! Sends. Who has it waits", "// he sends it himself"]
        {
            assert_eq!(check(&text(line), "").len(), 1, "{line}");
        }
        for line in ["let nobody = 1;", "// The leader sends it.", "// Somebodyness", "let x = \"whoever\";"]
        {
            assert_eq!(check(&text(line), ""), [], "{line}");
        }
    }

    #[test]
    fn long_comment_lines_are_found() {
        assert_eq!(check(&text(&format!("// {}", "a".repeat(107))), ""), []);
        assert_eq!(check(&text(&format!("// {}", "a".repeat(108))), "").len(), 1);
    }

    #[test]
    fn documents_count_by_themselves() {
        let texts = [("docs/a.md".to_owned(), "nobody\nsomebody\n".to_owned())];
        assert_eq!(check(&texts, "docs/a.md 2\n"), []);
        assert_eq!(check(&texts, "docs/a.md 1\n").len(), 1);
    }

    #[test]
    fn a_count_may_only_fall() {
        let texts = text("// nobody");
        assert_eq!(check(&texts, "crates/x 1\n"), []);
        assert_eq!(check(&texts, "# why\ncrates/x 2\n").len(), 1);
        assert_eq!(lowered(&texts, "# why\ncrates/x 2\n"), "# why\ncrates/x 1\n");
        assert_eq!(lowered(&text("// a"), "crates/x 2\n"), "");
        assert_eq!(check(&[], "crates/x many\n").len(), 1);
    }
}
