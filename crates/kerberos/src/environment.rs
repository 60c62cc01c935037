//! The files that the library takes from the environment of its process only. A running program cannot change
//! its environment safely, so that a program whose configuration names other files executes itself anew.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// A ticket cache in the memory of the process, for tickets that come from a keytab.
pub const PRIVATE_CACHE: &str = "MEMORY:zebu";

/// The files of a process. `None` leaves the choice to the environment and to krb5.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryFiles {
    /// krb5.conf: `KRB5_CONFIG`.
    pub config: Option<PathBuf>,
    /// The keytab of the accepting side: `KRB5_KTNAME`.
    pub acceptor_keytab: Option<PathBuf>,
    /// The keytab of the dialling side: `KRB5_CLIENT_KTNAME`.
    pub initiator_keytab: Option<PathBuf>,
    /// The ticket cache of the dialling side with its type: `KRB5CCNAME`.
    pub ticket_cache: Option<String>,
}

impl LibraryFiles {
    /// The variables that the environment lacks.
    pub fn missing(&self, variable: impl Fn(&str) -> Option<OsString>) -> Vec<(&'static str, OsString)> {
        let keytab = |path: &PathBuf| {
            let mut name = OsString::from("FILE:");
            name.push(path);
            name
        };
        let wanted = [
            ("KRB5_CONFIG", self.config.clone().map(PathBuf::into_os_string)),
            ("KRB5_KTNAME", self.acceptor_keytab.as_ref().map(keytab)),
            ("KRB5_CLIENT_KTNAME", self.initiator_keytab.as_ref().map(keytab)),
            ("KRB5CCNAME", self.ticket_cache.clone().map(OsString::from)),
        ];
        let is_missing = |name: &str, value: &OsStr| variable(name).as_deref() != Some(value);
        let wanted = wanted.into_iter().filter_map(|(name, value)| value.map(|value| (name, value)));
        wanted.filter(|(name, value)| is_missing(name, value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_values_are_missing() {
        let files = LibraryFiles {
            acceptor_keytab: Some("/etc/zk.keytab".into()),
            ticket_cache: Some(PRIVATE_CACHE.to_owned()),
            ..LibraryFiles::default()
        };
        let missing = files.missing(|name| (name == "KRB5_KTNAME").then(|| "FILE:/etc/zk.keytab".into()));
        assert_eq!(missing, [("KRB5CCNAME", OsString::from(PRIVATE_CACHE))]);
        assert_eq!(files.missing(|_| None).len(), 2);
        assert_eq!(LibraryFiles::default().missing(|_| Some("x".into())), []);
    }
}
