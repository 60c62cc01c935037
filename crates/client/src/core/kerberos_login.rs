//! A Kerberos login: the own principal, and how the principals of servers are named. Tickets and keytabs
//! belong to the driver.

/// The host in the principal of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KerberosHostNames {
    /// The canonical name of the host, by the rules of krb5.conf (`dns_canonicalize_hostname`, `rdns`).
    #[default]
    Canonical,
    /// The host of the connect string.
    AsWritten,
}

/// A login with a Kerberos ticket (GSSAPI). Without further settings it uses the ticket cache of the
/// environment and asks for the service `zookeeper/<host>`.
///
/// Tickets come from the cache (`kinit`, `KRB5CCNAME`), or from the keytab that the variable
/// `KRB5_CLIENT_KTNAME` names. Tickets of a keytab are renewed without help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KerberosLogin {
    pub(crate) principal: Option<String>,
    pub(crate) service: String,
    pub(crate) server_principal: Option<String>,
    pub(crate) server_realm: Option<String>,
    pub(crate) host_names: KerberosHostNames,
}

impl Default for KerberosLogin {
    fn default() -> KerberosLogin {
        KerberosLogin {
            principal: None,
            service: "zookeeper".to_owned(),
            server_principal: None,
            server_realm: None,
            host_names: KerberosHostNames::Canonical,
        }
    }
}

impl KerberosLogin {
    /// A login with the default principal of the ticket cache.
    pub fn new() -> KerberosLogin {
        KerberosLogin::default()
    }

    /// The own principal, if the cache or the keytab has several.
    #[must_use]
    pub fn principal(mut self, principal: impl Into<String>) -> KerberosLogin {
        self.principal = Some(principal.into());
        self
    }

    /// The first part of the principals of servers (`zookeeper`).
    #[must_use]
    pub fn service(mut self, service: impl Into<String>) -> KerberosLogin {
        self.service = service.into();
        self
    }

    /// The principal of every server, if they share one: `service/host`, with or without realm.
    #[must_use]
    pub fn server_principal(mut self, principal: impl Into<String>) -> KerberosLogin {
        self.server_principal = Some(principal.into());
        self
    }

    /// The realm of the servers, if krb5.conf does not tell it.
    #[must_use]
    pub fn server_realm(mut self, realm: impl Into<String>) -> KerberosLogin {
        self.server_realm = Some(realm.into());
        self
    }

    /// The host in the principals of servers.
    #[must_use]
    pub fn host_names(mut self, host_names: KerberosHostNames) -> KerberosLogin {
        self.host_names = host_names;
        self
    }
}
