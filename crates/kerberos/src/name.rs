//! The names of an exchange: the own principal, and the service that is asked for.

/// The service that a dialling side asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceName {
    /// This principal. Without a realm it has that of the own principal, if one is given, or the default.
    Principal(String),
    /// `service/host`, with the host's canonical name by the rules of krb5.conf.
    CanonicalHost {
        /// The first component.
        service: String,
        /// The host as the user wrote it.
        host: String,
        /// The realm, if it is not the one that krb5.conf has for the host.
        realm: Option<String>,
    },
}

impl ServiceName {
    /// The principal of a text that may lack its realm.
    pub fn with_realm(principal: &str, own_realm: Option<&str>) -> String {
        match own_realm {
            Some(realm) if !principal.contains('@') => format!("{principal}@{realm}"),
            Some(_) | None => principal.to_owned(),
        }
    }
}

/// The realm of a principal.
#[cfg_attr(not(feature = "gssapi"), allow(dead_code, reason = "only the library's names are taken apart"))]
pub(crate) fn realm_of(principal: &str) -> Option<&str> {
    principal.rsplit_once('@').map(|(_, realm)| realm).filter(|realm| !realm.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn realms() {
        assert_eq!(realm_of("zookeeper/a@R"), Some("R"));
        assert_eq!(realm_of("zookeeper/a"), None);
        assert_eq!(realm_of("zookeeper/a@"), None);
        assert_eq!(ServiceName::with_realm("zookeeper/a", Some("R")), "zookeeper/a@R");
        assert_eq!(ServiceName::with_realm("zookeeper/a@S", Some("R")), "zookeeper/a@S");
        assert_eq!(ServiceName::with_realm("zookeeper/a", None), "zookeeper/a");
    }
}
