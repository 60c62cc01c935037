//! The login that a section describes: DIGEST-MD5 users or a Kerberos principal.

use super::{JaasError, JaasModule, JaasSection};
use crate::sasl::digest_md5::DigestUsers;
use crate::sasl::principal::KerberosName;
use crate::secret::SecretText;

const DIGEST_MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule";
const KERBEROS_MODULES: [&str; 2] =
    ["com.sun.security.auth.module.Krb5LoginModule", "com.ibm.security.auth.module.Krb5LoginModule"];
const USER_PREFIX: &str = "user_";

/// The login of a section. A section with a Kerberos module uses GSSAPI.
#[derive(Clone, Debug)]
pub enum JaasLogin {
    /// DIGEST-MD5.
    Digest(DigestLogin),
    /// GSSAPI.
    Kerberos(KerberosLogin),
}

/// Options of the digest module.
#[derive(Clone, Debug)]
pub struct DigestLogin {
    /// `user_<name>` options, for servers.
    pub users: DigestUsers,
    /// `username`, for clients and dialling servers.
    pub username: Option<String>,
    /// `password`.
    pub password: SecretText,
}

/// Options of the Kerberos module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KerberosLogin {
    /// `principal`
    pub principal: Option<String>,
    /// `useKeyTab`: keys come from a file. Without `keyTab` it is the one of krb5.conf.
    pub uses_key_tab: bool,
    /// `keyTab`, or IBM's `useKeytab`, if keys come from a file.
    pub key_tab: Option<String>,
    /// `useTicketCache`
    pub uses_ticket_cache: bool,
    /// `ticketCache`
    pub ticket_cache: Option<String>,
    /// `isInitiator`; a login that only accepts needs no KDC.
    pub is_initiator: bool,
    line: usize,
}

impl KerberosLogin {
    /// The principal of an accepting server, which must be `service/host@REALM`. A principal without a realm
    /// has the default one.
    pub fn service_principal(&self, default_realm: Option<&str>) -> Result<KerberosName, JaasError> {
        let text = self.principal.as_deref();
        let text = text.ok_or_else(|| JaasError::new(self.line, "option principal is missing"))?;
        let full = match default_realm {
            Some(realm) if !text.contains('@') => format!("{text}@{realm}"),
            Some(_) | None => text.to_owned(),
        };
        match KerberosName::parse(&full) {
            Ok(name) if name.host.is_some() && name.realm.is_some() => Ok(name),
            _ => {
                let problem = format!("principal {text:?} is not of the form service/host@REALM");
                Err(JaasError::new(self.line, problem))
            }
        }
    }

    /// Checks that an accepting server has keys.
    pub fn check_keys(&self) -> Result<(), JaasError> {
        match self.uses_key_tab {
            true => Ok(()),
            false => {
                let problem = "an accepting server needs its keys; add useKeyTab=true and keyTab=\"FILE\"";
                Err(JaasError::new(self.line, problem))
            }
        }
    }
}

impl JaasSection {
    /// The login of this section. An unknown class is an error.
    pub fn login(&self) -> Result<JaasLogin, JaasError> {
        let is_kerberos = |module: &&JaasModule| KERBEROS_MODULES.contains(&module.class.as_str());
        let is_known = |module: &&JaasModule| is_kerberos(module) || module.class == DIGEST_MODULE;
        if let Some(module) = self.modules.iter().find(|module| !is_known(module)) {
            let class = &module.class;
            let problem = format!("login module {class} is unknown; use {DIGEST_MODULE} or Krb5LoginModule");
            return Err(JaasError::new(module.line, problem));
        }
        match (self.modules.iter().find(is_kerberos), self.modules.first()) {
            (Some(module), _) => Ok(JaasLogin::Kerberos(kerberos_login(module))),
            (None, Some(module)) => Ok(JaasLogin::Digest(digest_login(module))),
            (None, None) => Err(JaasError::new(1, format!("section {} has no login module", self.name))),
        }
    }
}

fn digest_login(module: &JaasModule) -> DigestLogin {
    let mut users = DigestUsers::default();
    for (key, value) in module.options() {
        if let Some(user) = key.strip_prefix(USER_PREFIX) {
            users.insert(user, value.clone());
        }
    }
    DigestLogin {
        users,
        username: module.option("username").map(|name| name.reveal().to_owned()),
        password: module.option("password").cloned().unwrap_or_default(),
    }
}

fn kerberos_login(module: &JaasModule) -> KerberosLogin {
    let text = |key: &str| module.option(key).map(|value| value.reveal().to_owned());
    let flag = |key: &str| module.option(key).map(|value| value.reveal().eq_ignore_ascii_case("true"));
    let uses_own = flag("useKeyTab").unwrap_or(false);
    let ibm_key_tab = text("useKeytab");
    let uses_key_tab = uses_own || ibm_key_tab.is_some();
    let key_tab = text("keyTab").filter(|_| uses_own).or(ibm_key_tab);
    // Java takes the type of the keytab, and the URL of a file.
    let path = |name: String| {
        let prefix = ["FILE:", "file://", "file:"].into_iter().find(|prefix| name.starts_with(prefix));
        prefix.map_or(name.clone(), |prefix| name[prefix.len()..].to_owned())
    };
    KerberosLogin {
        principal: text("principal"),
        uses_key_tab,
        key_tab: key_tab.map(path),
        uses_ticket_cache: flag("useTicketCache").unwrap_or(false),
        ticket_cache: text("ticketCache"),
        is_initiator: flag("isInitiator").unwrap_or(true),
        line: module.line,
    }
}
