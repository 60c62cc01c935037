//! The table of commands.

use super::command::Entry;
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
