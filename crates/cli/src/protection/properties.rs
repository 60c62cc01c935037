//! The Java client's properties: the variable CLIENT_JVMFLAGS, `-D` arguments and the file of
//! `-client-configuration`. Later ones win, as in Java.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use zebu_server::config::properties::{decode_latin1, parse_properties};
use zebu_server::config::security::tls_family::{FAMILY_SUFFIXES, SUPPLIER};

use super::arguments::PropertyArgument;
use super::error::ProtectionError;

/// More bytes are no file of properties.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The variable from which zkCli.sh and zkServer.sh take the flags of their clients.
pub(super) const FLAGS_VARIABLE: &str = "CLIENT_JVMFLAGS";

/// Keys below `zookeeper.ssl.` that the Java client reads.
fn ssl_keys() -> impl Iterator<Item = &'static str> {
    FAMILY_SUFFIXES.into_iter().chain([SUPPLIER, "sslProvider"])
}

#[derive(Clone, PartialEq, Eq)]
struct ClientProperty {
    value: String,
    /// For messages.
    origin: String,
}

/// Properties by key. Values may be passwords.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct ClientProperties {
    values: BTreeMap<String, ClientProperty>,
}

impl fmt::Debug for ClientProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

impl ClientProperties {
    /// Adds the `-D` words of a variable.
    pub(super) fn add_flags(&mut self, variable: &str, flags: &str) {
        for word in flags.split_whitespace().filter_map(|word| word.strip_prefix("-D")) {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            self.insert(key, value, variable);
        }
    }

    pub(super) fn add_arguments(&mut self, arguments: &[PropertyArgument]) {
        for argument in arguments {
            self.insert(&argument.key, &argument.value, "-D");
        }
    }

    pub(super) fn add_file(&mut self, path: &Path) -> Result<(), ProtectionError> {
        let unreadable = |source| ProtectionError::Configuration { path: path.to_owned(), source };
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        if size > FILE_BYTES_MAX {
            return Err(unreadable(std::io::Error::other(format!(
                "it has {size} bytes, which is too large"
            ))));
        }
        let bytes = std::fs::read(path).map_err(unreadable)?;
        let entries = parse_properties(&decode_latin1(&bytes)).map_err(|error| {
            let (line, problem) = (error.line, error.to_string());
            ProtectionError::ConfigurationLine { path: path.to_owned(), line, problem }
        })?;
        for entry in entries {
            self.insert(&entry.key, &entry.value, &format!("{}, line {}", path.display(), entry.line));
        }
        Ok(())
    }

    pub(super) fn insert(&mut self, key: &str, value: &str, origin: &str) {
        let property = ClientProperty { value: value.to_owned(), origin: origin.to_owned() };
        self.values.insert(key.to_owned(), property);
    }

    /// The value, if it is set and not empty.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(|property| property.value.as_str()).filter(|value| !value.is_empty())
    }

    /// Anything but `true` is false, as in Java.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| value.eq_ignore_ascii_case("true"))
    }

    /// An error about the value of a key.
    pub(super) fn error(&self, key: &str, problem: impl Into<String>) -> ProtectionError {
        let origin = self.values.get(key).map_or("-D", |property| property.origin.as_str()).to_owned();
        ProtectionError::Property { origin, key: key.to_owned(), problem: problem.into() }
    }

    /// Keys of TLS that nothing reads, most often for their spelling.
    pub(super) fn unknown_keys(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (key, property) in &self.values {
            let Some(name) = key.strip_prefix("zookeeper.ssl.") else { continue };
            if ssl_keys().any(|known| known == name) || name.starts_with("quorum.") || name == "authProvider"
            {
                continue;
            }
            let near = ssl_keys().find(|known| known.eq_ignore_ascii_case(name));
            let hint = near.map(|near| format!("; write zookeeper.ssl.{near}")).unwrap_or_default();
            notes.push(format!(
                "{}: {key} is no property of the client and is ignored{hint}",
                property.origin
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_sources_win() {
        let mut properties = ClientProperties::default();
        properties.add_flags(FLAGS_VARIABLE, "-Xmx1g -Da=1 -Db=2 -Dc");
        properties.add_arguments(&["b=3".parse().unwrap()]);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# no key\nd : 4\nb=5\nzookeeper.ssl.truststore.location=x\n").unwrap();
        properties.add_file(file.path()).unwrap();
        let values = ["a", "b", "c", "d"].map(|key| properties.get(key));
        assert_eq!(values, [Some("1"), Some("5"), None, Some("4")]);
        let notes = properties.unknown_keys();
        assert!(notes[0].ends_with("; write zookeeper.ssl.trustStore.location"), "{notes:?}");
        assert!(!format!("{properties:?}").contains('5'));
    }

    #[test]
    fn files_that_are_none() {
        let mut properties = ClientProperties::default();
        let error = properties.add_file(Path::new("/no/such/file")).unwrap_err();
        assert_eq!(error.shell_status(), 2);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "ok=1\na=\\u12\n").unwrap();
        let error = properties.add_file(file.path()).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }
}
