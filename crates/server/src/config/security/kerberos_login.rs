//! Kerberos logins of a server: the service principals of its accepting sides, and the own principal where it
//! dials. A build without the library refuses them.

use std::path::{Path, PathBuf};

use zebu_kerberos::{IS_BUILT_IN, LibraryFiles, PRIVATE_CACHE};
use zebu_security::jaas::{JaasError, KerberosLogin};

/// The login of an accepting side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KerberosAcceptor {
    /// The service principal with its realm.
    pub principal: String,
    /// The realm of the service principal.
    pub realm: String,
    /// The keytab; without one that of the environment or of krb5.conf.
    pub keytab: Option<PathBuf>,
}

impl KerberosAcceptor {
    pub(super) fn read(
        login: &KerberosLogin,
        default_realm: Option<&str>,
    ) -> Result<KerberosAcceptor, JaasError> {
        let name = login.service_principal(default_realm)?;
        login.check_keys()?;
        Ok(KerberosAcceptor {
            principal: name.to_string(),
            realm: name.realm.unwrap_or_default(),
            keytab: login.key_tab.as_ref().map(PathBuf::from),
        })
    }
}

/// The login of a dialing side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KerberosDialer {
    /// The own principal; without one that of the ticket cache or the first of the keytab.
    pub principal: Option<String>,
    keytab: Option<PathBuf>,
    ticket_cache: Option<String>,
}

impl KerberosDialer {
    pub(super) fn read(login: &KerberosLogin) -> KerberosDialer {
        let keytab = login.key_tab.as_ref().map(PathBuf::from);
        let ticket_cache = match (login.uses_ticket_cache, &login.ticket_cache) {
            (true, Some(cache)) if cache.contains(':') => Some(cache.clone()),
            (true, Some(cache)) => Some(format!("FILE:{cache}")),
            (true, None) => None,
            // Tickets of the keytab must not mix with those of a user.
            (false, _) => keytab.as_ref().map(|_| PRIVATE_CACHE.to_owned()),
        };
        KerberosDialer { principal: login.principal.clone(), keytab, ticket_cache }
    }
}

/// The files of all logins. The library has one keytab for all accepting sides of a process.
///
/// # Errors
/// Two accepting sides name different keytabs.
pub(super) fn library_files(
    config: Option<&Path>,
    acceptors: [Option<&KerberosAcceptor>; 2],
    dialer: Option<&KerberosDialer>,
) -> Result<LibraryFiles, String> {
    let keytabs = acceptors.map(|acceptor| acceptor.and_then(|acceptor| acceptor.keytab.as_ref()));
    if let [Some(clients), Some(servers)] = keytabs
        && clients != servers
    {
        return Err(format!(
            "the logins for clients and between servers name two keytabs, {} and {}, and one process can use \
             one; join them with ktutil, and name that file in both sections",
            clients.display(),
            servers.display()
        ));
    }
    let [clients, servers] = keytabs;
    Ok(LibraryFiles {
        config: config.map(Path::to_owned),
        acceptor_keytab: clients.or(servers).cloned(),
        initiator_keytab: dialer.and_then(|dialer| dialer.keytab.clone()),
        ticket_cache: dialer.and_then(|dialer| dialer.ticket_cache.clone()),
    })
}

/// The error of a build without the library.
pub(super) fn not_built(section: &str) -> Option<String> {
    (!IS_BUILT_IN).then(|| {
        format!(
            "section {section} is a Kerberos login, and this build has no GSSAPI; build Zebu with \
             --features kerberos, or use org.apache.zookeeper.server.auth.DigestLoginModule"
        )
    })
}
