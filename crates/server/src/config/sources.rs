//! Brings the two sources together: keys of the file and Java properties (`-D` words of the command line and
//! of the variables that ZooKeeper's scripts read). Decides which one counts and reports names that are
//! unknown or written where they have no effect. Values are judged later.

use std::collections::BTreeMap;

use super::findings::{Findings, Origin};
use super::known::{self, Effect, Known, Scope};
use super::nearest::nearest;
use super::properties::{Entry, trim};

/// The variables of the process, as data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment(pub BTreeMap<String, String>);

impl Environment {
    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// The variables whose `-D` words are settings, in the order in which ZooKeeper's scripts join them.
const FLAG_VARIABLES: [&str; 2] = ["SERVER_JVMFLAGS", "JVMFLAGS"];
/// Set by scripts that want missing directories to be an error.
const NO_AUTOCREATE_VARIABLE: &str = "ZOO_DATADIR_AUTOCREATE_DISABLE";
/// The one word that starts a server without the protection its configuration asks for.
const START_UNPROTECTED: &str = "zebu.startUnprotected";

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) value: String,
    pub(super) origin: Origin,
}

/// Whether the user allowed a start without the protection that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingProtection {
    Refused,
    Allowed,
}

/// All settings by key, without the `zookeeper.` prefix; the file has won over the command line, except for keys that
/// ZooKeeper takes from the command line only.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) values: BTreeMap<String, Setting>,
    pub(super) missing_protection: MissingProtection,
    /// Stands for the configuration as a whole in messages about what is absent.
    pub(super) whole: Origin,
}

impl Settings {
    pub(super) fn new(whole: Origin) -> Settings {
        Settings { values: BTreeMap::new(), missing_protection: MissingProtection::Refused, whole }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Setting> {
        self.values.get(key)
    }

    /// Takes the `-D` words in, the weakest first.
    pub(super) fn add_properties(
        &mut self,
        words: &[String],
        environment: &Environment,
        findings: &mut Findings,
    ) {
        if environment.get(NO_AUTOCREATE_VARIABLE).is_some() {
            let origin = Origin::Variable(NO_AUTOCREATE_VARIABLE);
            self.put("datadir.autocreate", "false", origin);
        }
        for variable in FLAG_VARIABLES {
            let flags = environment.get(variable).unwrap_or_default();
            let words: Vec<&str> =
                flags.split_ascii_whitespace().filter_map(|word| word.strip_prefix("-D")).collect();
            self.add_words(&words, &Origin::Variable(variable), findings);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.add_words(&words, &Origin::CommandLine, findings);
    }

    fn add_words(&mut self, words: &[&str], origin: &Origin, findings: &mut Findings) {
        let mut for_java = Vec::new();
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            if name == START_UNPROTECTED {
                self.missing_protection = match value.eq_ignore_ascii_case("true") {
                    true => MissingProtection::Allowed,
                    false => MissingProtection::Refused,
                };
                continue;
            }
            match place_of_word(name) {
                Place::Setting(key) => self.put(key, value, origin.clone()),
                Place::Java => for_java.push(name),
                Place::Nowhere(why) => findings.warn(origin, why),
            }
        }
        if !for_java.is_empty() {
            findings.note(origin, format!("words for a Java machine are ignored: {}", for_java.join(", ")));
        }
    }

    /// Takes the entries of the file in; a later line wins over an earlier one and over `-D` words, unless ZooKeeper
    /// takes the key from `-D` words only.
    pub(super) fn add_file(
        &mut self,
        entries: Vec<Entry>,
        at: impl Fn(u32) -> Origin,
        findings: &mut Findings,
    ) {
        let mut for_java: BTreeMap<String, Origin> = BTreeMap::new();
        for Entry { key, value, line } in entries {
            let origin = at(line);
            let Some(known) = known::find(&key) else {
                findings.warn(&origin, unknown_key(&key));
                continue;
            };
            if known.effect == Effect::Java {
                for_java.insert(key, origin);
                continue;
            }
            if known.scope == Scope::Bare && self.is_word_stronger(&key, &value, &origin, findings) {
                continue;
            }
            if known.scope == Scope::Bare && known.effect == Effect::Used {
                let text =
                    format!("{key} is applied; ZooKeeper would ignore it in this file (it wants -D{key})");
                findings.note(&origin, text);
            }
            if let Some(Setting { origin: Origin::Line { line: earlier, .. }, .. }) = self.values.get(&key) {
                findings.warn(&origin, format!("{key} was already set in line {earlier}; this line counts"));
            }
            self.put(&key, &value, origin);
        }
        if let Some(first) = for_java.values().min() {
            let keys: Vec<&str> = for_java.keys().map(String::as_str).collect();
            findings.note(first, format!("keys for a Java machine have no effect: {}", keys.join(", ")));
        }
    }

    /// Whether a `-D` word for a key that ZooKeeper takes only from there has been given: it wins over the file, as in
    /// ZooKeeper, which does not look at the file's line.
    fn is_word_stronger(&self, key: &str, value: &str, origin: &Origin, findings: &mut Findings) -> bool {
        let Some(setting) = self.values.get(key) else { return false };
        let word = match &setting.origin {
            Origin::Line { .. } | Origin::File(_) => return false,
            Origin::CommandLine | Origin::Variable(_) => setting,
        };
        if word.value != trim(value) {
            let text = format!(
                "{key} = \"{value}\" has no effect: -D{key}={} ({}) wins, and ZooKeeper ignores this line",
                word.value, word.origin
            );
            findings.warn(origin, text);
        }
        true
    }

    pub(super) fn put(&mut self, key: &str, value: &str, origin: Origin) {
        self.values.insert(key.to_owned(), Setting { value: trim(value), origin });
    }

    /// One note for each key that is accepted without effect.
    pub(super) fn note_keys_without_effect(&self, findings: &mut Findings) {
        for (key, setting) in &self.values {
            if let Some(Known { effect: Effect::Nothing(why), .. }) = known::find(key) {
                findings.note(&setting.origin, format!("{key} has no effect: {why}"));
            }
        }
    }
}

/// What a `-D` word is.
enum Place<'a> {
    Setting(&'a str),
    Java,
    Nowhere(String),
}

fn place_of_word(name: &str) -> Place<'_> {
    let Some(key) = name.strip_prefix("zookeeper.") else {
        return match known::find(name) {
            Some(Known { scope: Scope::Bare | Scope::Either, .. }) => Place::Setting(name),
            Some(Known { effect: Effect::Protection, .. }) => Place::Setting(name),
            Some(Known { scope: Scope::Property, .. }) => {
                Place::Nowhere(format!("-D{name} has no effect; write -Dzookeeper.{name}"))
            }
            Some(Known { scope: Scope::File, .. }) => {
                Place::Nowhere(format!("-D{name} has no effect; write {name} into the configuration file"))
            }
            None if name.starts_with("zebu.") => {
                let text = format!("-D{name} is unknown and has no effect; known is -D{START_UNPROTECTED}");
                Place::Nowhere(text)
            }
            None => Place::Java,
        };
    };
    match known::find(key) {
        Some(Known { effect: Effect::Java, .. }) => Place::Java,
        // A wish for protection is never passed over, wherever it was written.
        Some(Known { effect: Effect::Protection, .. }) => Place::Setting(key),
        Some(Known { scope: Scope::Property | Scope::Either | Scope::Bare, .. }) => Place::Setting(key),
        Some(Known { scope: Scope::File, .. }) => {
            Place::Nowhere(format!("-D{name} has no effect; write {key} into the configuration file"))
        }
        None => Place::Nowhere(match suggestion(key) {
            Some(better) => format!("-D{name} is unknown and has no effect; did you mean {better}?"),
            None => format!("-D{name} is unknown and has no effect"),
        }),
    }
}

fn unknown_key(key: &str) -> String {
    if key == START_UNPROTECTED {
        return format!("{key} has no effect in the file; it is for the command line only");
    }
    match suggestion(key) {
        Some(better) => format!("{key} is unknown and has no effect; did you mean {better}?"),
        None => format!("{key} is unknown and has no effect"),
    }
}

fn suggestion(key: &str) -> Option<&str> {
    if let Some(rest) = key.strip_prefix("zookeeper.") {
        return match known::find(rest) {
            Some(_) => Some(rest),
            None => suggestion(rest),
        };
    }
    known::documented_name(key).or_else(|| nearest(key, known::names()))
}
