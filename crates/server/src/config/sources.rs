//! Merges the two sources: keys of the file and Java properties (`-D` words of the command line and
//! of the variables that ZooKeeper's scripts read). Decides which one wins, and reports unknown
//! names and names without effect. Other modules check the values.

use std::collections::BTreeMap;

use super::diagnostics::{ConfigDiagnostics, SettingOrigin};
use super::known_keys::{self, KeyEffect, KeyScope, KnownKey};
use super::nearest::nearest_name;
use super::properties::{PropertyEntry, trim};

/// The environment variables of the process, as data.
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
/// Set by scripts to make missing directories an error.
const KERBEROS_CONFIG_VARIABLE: &str = "KRB5_CONFIG";
const NO_AUTOCREATE_VARIABLE: &str = "ZOO_DATADIR_AUTOCREATE_DISABLE";
/// The property that allows a start without the required protection.
const START_UNPROTECTED: &str = "zebu.startUnprotected";

/// A value and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawSetting {
    pub(super) value: String,
    pub(super) origin: SettingOrigin,
}

/// Whether the user allowed a start without missing protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProtectionPolicy {
    Require,
    StartUnprotected,
}

/// All settings by key, without the `zookeeper.` prefix. The file wins over the command line,
/// except for keys that ZooKeeper reads only from the command line.
#[derive(Debug)]
pub(super) struct RawSettings {
    pub(super) values: BTreeMap<String, RawSetting>,
    pub(super) protection_policy: ProtectionPolicy,
    /// All `-D` words by name, known or not. Values of JAAS files may name them.
    pub(super) java_properties: BTreeMap<String, String>,
    /// Stands for the whole configuration in messages about missing settings.
    pub(super) default_origin: SettingOrigin,
}

impl RawSettings {
    pub(super) fn new(whole: SettingOrigin) -> RawSettings {
        RawSettings {
            values: BTreeMap::new(),
            protection_policy: ProtectionPolicy::Require,
            java_properties: BTreeMap::new(),
            default_origin: whole,
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&RawSetting> {
        self.values.get(key)
    }

    /// Adds the `-D` words, the weakest first.
    pub(super) fn add_properties(
        &mut self,
        words: &[String],
        environment: &Environment,
        diagnostics: &mut ConfigDiagnostics,
    ) {
        if environment.get(NO_AUTOCREATE_VARIABLE).is_some() {
            let origin = SettingOrigin::EnvironmentVariable(NO_AUTOCREATE_VARIABLE);
            self.insert("datadir.autocreate", "false", origin);
        }
        // The Kerberos library reads it; properties are stronger.
        if let Some(file) = environment.get(KERBEROS_CONFIG_VARIABLE) {
            let origin = SettingOrigin::EnvironmentVariable(KERBEROS_CONFIG_VARIABLE);
            self.insert("java.security.krb5.conf", file, origin);
        }
        for variable in FLAG_VARIABLES {
            let flags = environment.get(variable).unwrap_or_default();
            let words: Vec<&str> =
                flags.split_ascii_whitespace().filter_map(|word| word.strip_prefix("-D")).collect();
            self.add_property_words(&words, &SettingOrigin::EnvironmentVariable(variable), diagnostics);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.add_property_words(&words, &SettingOrigin::CommandLine, diagnostics);
    }

    fn add_property_words(
        &mut self,
        words: &[&str],
        origin: &SettingOrigin,
        diagnostics: &mut ConfigDiagnostics,
    ) {
        let mut for_java = Vec::new();
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            self.java_properties.insert((*name).to_owned(), value.to_owned());
            if name == START_UNPROTECTED {
                self.protection_policy = match value.eq_ignore_ascii_case("true") {
                    true => ProtectionPolicy::StartUnprotected,
                    false => ProtectionPolicy::Require,
                };
                continue;
            }
            match classify_property(name) {
                PropertyTarget::Setting(key) => self.insert(key, value, origin.clone()),
                PropertyTarget::Jvm => for_java.push(name),
                PropertyTarget::Ignored(why) => diagnostics.warn(origin, why),
            }
        }
        if !for_java.is_empty() {
            diagnostics
                .note(origin, format!("words for a Java machine are ignored: {}", for_java.join(", ")));
        }
    }

    /// Adds the entries of the file. A later line wins over an earlier one and over `-D` words,
    /// unless ZooKeeper reads the key only from `-D` words.
    pub(super) fn add_file(
        &mut self,
        entries: Vec<PropertyEntry>,
        at: impl Fn(u32) -> SettingOrigin,
        diagnostics: &mut ConfigDiagnostics,
    ) {
        let mut for_java: BTreeMap<String, SettingOrigin> = BTreeMap::new();
        for PropertyEntry { key, value, line } in entries {
            let origin = at(line);
            let Some(known) = known_keys::find_key(&key) else {
                diagnostics.warn(&origin, unknown_key(&key));
                continue;
            };
            if known.effect == KeyEffect::Jvm {
                for_java.insert(key, origin);
                continue;
            }
            if known.scope == KeyScope::Bare && self.property_wins(&key, &value, &origin, diagnostics) {
                continue;
            }
            if known.scope == KeyScope::Bare && known.effect == KeyEffect::Used {
                let text =
                    format!("{key} is applied; ZooKeeper would ignore it in this file (it wants -D{key})");
                diagnostics.note(&origin, text);
            }
            if let Some(RawSetting { origin: SettingOrigin::Line { line: earlier, .. }, .. }) =
                self.values.get(&key)
            {
                diagnostics
                    .warn(&origin, format!("{key} was already set in line {earlier}; this line counts"));
            }
            self.insert(&key, &value, origin);
        }
        if let Some(first) = for_java.values().min() {
            let keys: Vec<&str> = for_java.keys().map(String::as_str).collect();
            diagnostics.note(first, format!("keys for a Java machine have no effect: {}", keys.join(", ")));
        }
    }

    /// Whether a `-D` word wins over the file, because ZooKeeper reads the key only from there.
    fn property_wins(
        &self,
        key: &str,
        value: &str,
        origin: &SettingOrigin,
        diagnostics: &mut ConfigDiagnostics,
    ) -> bool {
        let Some(setting) = self.values.get(key) else { return false };
        let word = match &setting.origin {
            SettingOrigin::Line { .. } | SettingOrigin::File(_) => return false,
            SettingOrigin::CommandLine | SettingOrigin::EnvironmentVariable(_) => setting,
        };
        if word.value != trim(value) {
            let text = format!(
                "{key} = \"{value}\" has no effect: -D{key}={} ({}) wins, and ZooKeeper ignores this line",
                word.value, word.origin
            );
            diagnostics.warn(origin, text);
        }
        true
    }

    pub(super) fn insert(&mut self, key: &str, value: &str, origin: SettingOrigin) {
        self.values.insert(key.to_owned(), RawSetting { value: trim(value), origin });
    }

    /// Adds one note for each key that is accepted without effect.
    pub(super) fn note_keys_without_effect(&self, diagnostics: &mut ConfigDiagnostics) {
        for (key, setting) in &self.values {
            if let Some(KnownKey { effect: KeyEffect::Ignored(why), .. }) = known_keys::find_key(key) {
                diagnostics.note(&setting.origin, format!("{key} has no effect: {why}"));
            }
        }
    }
}

/// The meaning of a `-D` word.
enum PropertyTarget<'a> {
    Setting(&'a str),
    Jvm,
    Ignored(String),
}

fn classify_property(name: &str) -> PropertyTarget<'_> {
    let Some(key) = name.strip_prefix("zookeeper.") else {
        return match known_keys::find_key(name) {
            Some(KnownKey { scope: KeyScope::Bare | KeyScope::Either, .. }) => PropertyTarget::Setting(name),
            Some(KnownKey { effect: KeyEffect::Protection, .. }) => PropertyTarget::Setting(name),
            Some(KnownKey { scope: KeyScope::Property, .. }) => {
                PropertyTarget::Ignored(format!("-D{name} has no effect; write -Dzookeeper.{name}"))
            }
            Some(KnownKey { scope: KeyScope::File, .. }) => PropertyTarget::Ignored(format!(
                "-D{name} has no effect; write {name} into the configuration file"
            )),
            None if name.starts_with("zebu.") => {
                let text = format!("-D{name} is unknown and has no effect; known is -D{START_UNPROTECTED}");
                PropertyTarget::Ignored(text)
            }
            None => PropertyTarget::Jvm,
        };
    };
    match known_keys::find_key(key) {
        Some(KnownKey { effect: KeyEffect::Jvm, .. }) => PropertyTarget::Jvm,
        // A setting that requires protection is never ignored, wherever it was written.
        Some(KnownKey { effect: KeyEffect::Protection, .. }) => PropertyTarget::Setting(key),
        Some(KnownKey { scope: KeyScope::Property | KeyScope::Either | KeyScope::Bare, .. }) => {
            PropertyTarget::Setting(key)
        }
        Some(KnownKey { scope: KeyScope::File, .. }) => PropertyTarget::Ignored(format!(
            "-D{name} has no effect; write {key} into the configuration file"
        )),
        None => PropertyTarget::Ignored(match suggestion(key) {
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
        return match known_keys::find_key(rest) {
            Some(_) => Some(rest),
            None => suggestion(rest),
        };
    }
    known_keys::documented_name(key).or_else(|| nearest_name(key, known_keys::key_names()))
}
