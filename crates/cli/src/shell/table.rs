//! The table of commands.

use super::command::{Entry, Origin};
use super::commands;

static COMMANDS: &[&Entry] = &[
    &commands::add_watch::ENTRY,
    &commands::addauth::ENTRY,
    &commands::close::ENTRY,
    &commands::config::ENTRY,
    &commands::connect::ENTRY,
    &commands::copy::ENTRY,
    &commands::create::ENTRY,
    &commands::delete::ENTRY,
    &commands::deleteall::ENTRY,
    &commands::deleteall::OLD_NAME,
    &commands::delquota::ENTRY,
    &commands::edit::ENTRY,
    &commands::export::ENTRY,
    &commands::find::ENTRY,
    &commands::get::ENTRY,
    &commands::get_acl::ENTRY,
    &commands::get_all_children_number::ENTRY,
    &commands::get_ephemerals::ENTRY,
    &commands::help::ENTRY,
    &commands::history::ENTRY,
    &commands::import::ENTRY,
    &commands::listquota::ENTRY,
    &commands::ls::ENTRY,
    &commands::ls::WITH_STAT,
    &commands::printwatches::ENTRY,
    &commands::quit::ENTRY,
    &commands::quit::EXIT,
    &commands::reconfig::ENTRY,
    &commands::redo::ENTRY,
    &commands::remove_watches::ENTRY,
    &commands::set::ENTRY,
    &commands::set_acl::ENTRY,
    &commands::setquota::ENTRY,
    &commands::stat::ENTRY,
    &commands::sync::ENTRY,
    &commands::tree::ENTRY,
    &commands::version::ENTRY,
    &commands::watch::ENTRY,
    &commands::whoami::ENTRY,
];

/// A command by its name.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    COMMANDS.iter().copied().find(|entry| entry.name == name)
}

/// All commands by their names, capital letters first.
pub(crate) fn sorted() -> impl Iterator<Item = &'static Entry> {
    let mut entries: Vec<&'static Entry> = COMMANDS.to_vec();
    entries.sort_unstable_by_key(|entry| entry.name);
    entries.into_iter()
}

/// Names that people bring along from other tools.
const ELSEWHERE: &[(&str, &str)] = &[
    ("cat", "get"),
    ("count", "getAllChildrenNumber"),
    ("del", "delete"),
    ("dir", "ls"),
    ("disconnect", "close"),
    ("list", "ls"),
    ("man", "help"),
    ("mkdir", "create"),
    ("mv", "cp"),
    ("put", "set"),
    ("rm", "delete"),
    ("rmdir", "deleteall"),
    ("touch", "create"),
    ("usage", "help"),
    ("?", "help"),
];

/// Letters that may be wrong in a name.
const WRONG_LETTERS_MAX: usize = 2;

/// The error for an unknown command, with the most similar command.
pub(crate) fn no_such_command(name: &str) -> String {
    match meant(name) {
        Some(other) => format!("{name}: no such command; did you mean {other}?"),
        None => format!("{name}: no such command; help lists them"),
    }
}

fn meant(name: &str) -> Option<&'static str> {
    if let Some((_, known)) = ELSEWHERE.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
        return Some(known);
    }
    let listed = sorted().filter(|entry| entry.origin != Origin::Unlisted);
    let near = listed
        .map(|entry| (distance(&name.to_ascii_lowercase(), &entry.name.to_ascii_lowercase()), entry.name));
    let (wrong, nearest) = near.min()?;
    (wrong <= WRONG_LETTERS_MAX && wrong * 2 < name.chars().count()).then_some(nearest)
}

/// How many letters must be changed, added or left out to make one word from the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, letter) in left.chars().enumerate() {
        let mut diagonal = at;
        row[0] = at + 1;
        for (index, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[index + 1];
            row[index + 1] = replaced.min(diagonal + 1).min(row[index] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_command_explains_itself() {
        let names: Vec<&str> = sorted().map(|entry| entry.name).collect();
        let mut unique = names.clone();
        unique.dedup();
        assert_eq!(names, unique);
        for entry in sorted() {
            assert!(!entry.about.is_empty() && !entry.examples.is_empty(), "{}", entry.name);
            for example in entry.examples {
                let first = example.split_whitespace().next();
                assert!(first == Some(entry.name), "{example}");
            }
        }
    }

    #[test]
    fn names_that_were_meant() {
        for (name, other) in [
            ("rm", Some("delete")),
            ("cat", Some("get")),
            ("creat", Some("create")),
            ("getacl", Some("getAcl")),
            ("delte", Some("delete")),
            ("nosuch", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(meant(name), other, "{name}");
        }
        for (_, known) in ELSEWHERE {
            assert!(find(known).is_some(), "{known}");
        }
        assert_eq!((distance("abc", "abd"), distance("", "ab"), distance("kitten", "sitting")), (1, 2, 3));
    }

    #[test]
    fn every_example_is_understood() {
        for entry in sorted() {
            for example in entry.examples {
                let words = super::super::words::split(example);
                let mut flags = entry.flags.to_vec();
                flags.push(super::super::flags::switch("json", ""));
                let given = super::super::flags::parse(&words[1..], &flags).expect(example);
                if !example.contains("/etc/") {
                    assert!((entry.parse)(&given).is_ok(), "{example}");
                }
            }
        }
    }
}
