//! Words that must not stay: unfinished code, tests switched off, paths of one machine, names that say
//! nothing.

use super::Violation;
use super::source::SourceFile;

const UNFINISHED: &str = "a server must not carry code that panics because it was never written";
const SWITCHED_OFF: &str = "a test that does not run proves nothing; mend it or delete it";
const EMPTY_NAME: &str = "name the thing for what it is";
const MACHINE: &str = "the project must read the same on every machine";

const EMPTY_WORDS: [&str; 7] = ["Manager", "Managers", "Helper", "Helpers", "Util", "Utils", "Utility"];

/// Top directories that exist on someone's machine and not in a system that runs Zebu.
const MACHINE_ROOTS: [&str; 4] = ["work", "farm", "root", "home"];

/// Checks the code of one Rust file, tests included.
pub(crate) fn check(file: &SourceFile) -> Vec<Violation> {
    let mut violations = Vec::new();
    let stem = file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
    if EMPTY_WORDS.iter().any(|word| stem.split('_').any(|part| part.eq_ignore_ascii_case(word))) {
        violations.push(Violation::new(&*file.path, format!("a file named {stem}"), EMPTY_NAME));
    }
    for (index, line) in file.code_with_tests().lines().enumerate() {
        let mut report = |what: String, why| violations.push(Violation::at(file, index + 1, what, why));
        for word in ["todo!", "unimplemented!"] {
            if line.contains(word) {
                report(word.to_owned(), UNFINISHED);
            }
        }
        if line.contains("#[ignore") {
            report("#[ignore]".to_owned(), SWITCHED_OFF);
        }
        if let Some(name) = declared_type(line).filter(|name| has_empty_word(name)) {
            report(format!("a type named {name}"), EMPTY_NAME);
        }
    }
    violations
}

/// Checks any text of the project.
pub(crate) fn check_machine_paths(path: &str, text: &str) -> Vec<Violation> {
    let hits = text.lines().enumerate().filter(|(_, line)| has_machine_path(line));
    hits.map(|(index, _)| Violation::new(format!("{path}:{}", index + 1), "a path of one machine", MACHINE))
        .collect()
}

fn has_machine_path(line: &str) -> bool {
    MACHINE_ROOTS.iter().any(|root| {
        line.match_indices(&format!("/{root}/")).any(|(start, _)| {
            let before = line[..start].chars().next_back();
            !before.is_some_and(|before| before.is_alphanumeric() || "_.-}/".contains(before))
        })
    })
}

/// The name that a line declares a type with, if it does.
pub(super) fn declared_type(line: &str) -> Option<&str> {
    let mut words = line.split(|character: char| !character.is_alphanumeric() && character != '_');
    words.find(|word| matches!(*word, "struct" | "enum" | "trait" | "type" | "union"))?;
    words.find(|word| !word.is_empty())
}

fn has_empty_word(name: &str) -> bool {
    EMPTY_WORDS.iter().any(|word| {
        name.match_indices(word).any(|(start, _)| {
            // A whole word of the name: the next letter, if any, begins another one.
            !name[start + word.len()..].starts_with(|next: char| next.is_lowercase())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        check(&SourceFile::new("crates/x/src/a.rs", text))
            .into_iter()
            .map(|violation| violation.what)
            .collect()
    }

    #[test]
    fn unfinished_code_and_switched_off_tests() {
        assert_eq!(found("fn a() { todo!() }"), ["todo!"]);
        assert_eq!(
            found("#[cfg(test)]\nmod tests {\n#[ignore = \"slow\"]\n#[test] fn a() {}\n}"),
            ["#[ignore]"]
        );
        assert!(found("// todo! later\nlet text = \"unimplemented!\";").is_empty());
    }

    #[test]
    fn empty_names() {
        assert_eq!(found("pub(crate) struct SessionManager {"), ["a type named SessionManager"]);
        assert_eq!(found("enum PathUtils<T> {"), ["a type named PathUtils"]);
        assert!(found("struct Utilisation;\nstruct Managerial;\nlet manager = Manager::new();").is_empty());
        assert_eq!(check(&SourceFile::new("crates/x/src/path_util.rs", "")).len(), 1);
    }

    #[test]
    fn machine_paths() {
        let path = |root: &str| format!("see /{root}/someone/x");
        assert!(has_machine_path(&path("home")));
        assert!(has_machine_path(&path("root")));
        assert!(!has_machine_path("https://example.org/home/page"));
        assert!(!has_machine_path("/var/lib/zebu /homework/x"));
    }
}
