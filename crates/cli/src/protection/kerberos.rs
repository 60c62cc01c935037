//! Kerberos of a command: the ticket that it uses, and the principals of servers by the Java client's
//! properties.

use std::path::PathBuf;

use zebu_client::{KerberosHostNames, KerberosLogin, SaslLogin};
use zebu_kerberos::{IS_BUILT_IN, LibraryFiles, PRIVATE_CACHE};
use zebu_security::jaas;

use super::error::ProtectionError;
use super::properties::ClientProperties;
use crate::kerberos_environment;

/// Where the ticket comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TicketSource {
    /// The own principal.
    pub(super) principal: Option<String>,
    /// A keytab with which tickets are fetched.
    pub(super) keytab: Option<PathBuf>,
    /// The ticket cache with its type.
    pub(super) cache: Option<String>,
}

impl TicketSource {
    /// The arguments `--kerberos-principal` and `--kerberos-keytab`.
    pub(super) fn from_arguments(principal: Option<&String>, keytab: Option<&PathBuf>) -> TicketSource {
        TicketSource {
            principal: principal.cloned(),
            keytab: keytab.cloned(),
            // Tickets of the keytab must not mix with those of the user.
            cache: keytab.map(|_| PRIVATE_CACHE.to_owned()),
        }
    }

    /// The section of a JAAS file.
    pub(super) fn from_login(login: &jaas::KerberosLogin) -> Result<TicketSource, String> {
        let keytab = login.key_tab.as_ref().map(PathBuf::from);
        let cache = match (login.uses_ticket_cache, &login.ticket_cache) {
            (true, Some(cache)) if cache.contains(':') => Some(cache.clone()),
            (true, Some(cache)) => Some(format!("FILE:{cache}")),
            (true, None) => None,
            (false, _) if login.uses_key_tab => Some(PRIVATE_CACHE.to_owned()),
            (false, _) => {
                return Err("it needs useTicketCache=true, or useKeyTab=true and keyTab=\"FILE\"".to_owned());
            }
        };
        Ok(TicketSource { principal: login.principal.clone(), keytab, cache })
    }
}

/// Makes the login of sessions. The process enters another environment if the library needs it.
pub(super) fn open_kerberos(
    source: &TicketSource,
    properties: &ClientProperties,
) -> Result<SaslLogin, ProtectionError> {
    if !IS_BUILT_IN {
        let problem =
            "this build has no Kerberos; build Zebu with --features kerberos, or use DigestLoginModule";
        return Err(ProtectionError::Arguments(problem.to_owned()));
    }
    if let Some(keytab) = &source.keytab
        && let Err(error) = std::fs::File::open(keytab)
    {
        let problem = format!("cannot read the keytab {}: {error}", keytab.display());
        return Err(ProtectionError::Arguments(problem));
    }
    let files = LibraryFiles {
        config: properties.get("java.security.krb5.conf").map(PathBuf::from),
        acceptor_keytab: None,
        initiator_keytab: source.keytab.clone(),
        ticket_cache: source.cache.clone(),
    };
    kerberos_environment::enter(&files)
        .map_err(|error| ProtectionError::Arguments(format!("cannot execute zebu for Kerberos: {error}")))?;
    Ok(SaslLogin::kerberos(login(source, properties)))
}

fn login(source: &TicketSource, properties: &ClientProperties) -> KerberosLogin {
    let mut login = KerberosLogin::new();
    if let Some(principal) = &source.principal {
        login = login.principal(principal);
    }
    if let Some(service) = properties.get("zookeeper.sasl.client.username") {
        login = login.service(service);
    }
    if let Some(principal) = properties.get("zookeeper.server.principal") {
        login = login.server_principal(principal);
    }
    if let Some(realm) = properties.get("zookeeper.server.realm") {
        login = login.server_realm(realm);
    }
    match properties.flag("zookeeper.sasl.client.canonicalize.hostname") {
        Some(false) => login.host_names(KerberosHostNames::AsWritten),
        Some(true) | None => login,
    }
}

#[cfg(test)]
mod tests {
    use zebu_security::jaas::{JaasFile, JaasLogin};

    use super::*;

    fn source(options: &str) -> Result<TicketSource, String> {
        let text = format!("Client {{ com.sun.security.auth.module.Krb5LoginModule required {options}; }};");
        let file = JaasFile::parse(text.as_bytes(), &|_| None).unwrap();
        match file.section("Client").unwrap().login().unwrap() {
            JaasLogin::Kerberos(login) => TicketSource::from_login(&login),
            JaasLogin::Digest(_) => panic!("no Kerberos login"),
        }
    }

    #[test]
    fn sections_of_java() {
        let keytab = source("useKeyTab=true keyTab=\"FILE:/k\" principal=\"a@R\"").unwrap();
        assert_eq!(keytab.principal.as_deref(), Some("a@R"));
        assert_eq!((keytab.keytab, keytab.cache), (Some("/k".into()), Some("MEMORY:zebu".to_owned())));
        let cache = source("useTicketCache=true").unwrap();
        assert_eq!(cache, TicketSource::default());
        let named = source("useTicketCache=true ticketCache=\"/tmp/cc\"").unwrap();
        assert_eq!(named.cache.as_deref(), Some("FILE:/tmp/cc"));
        assert!(source("principal=\"a@R\"").unwrap_err().contains("useTicketCache=true"));
    }

    #[test]
    fn properties_of_java() {
        let mut properties = ClientProperties::default();
        assert_eq!(login(&TicketSource::default(), &properties), KerberosLogin::new());
        for (key, value) in [
            ("zookeeper.sasl.client.username", "zk"),
            ("zookeeper.server.principal", "zk/h"),
            ("zookeeper.server.realm", "R"),
            ("zookeeper.sasl.client.canonicalize.hostname", "false"),
        ] {
            properties.insert(key, value, "-D");
        }
        let expected = KerberosLogin::new()
            .service("zk")
            .server_principal("zk/h")
            .server_realm("R")
            .host_names(KerberosHostNames::AsWritten);
        assert_eq!(login(&TicketSource::default(), &properties), expected);
    }
}
