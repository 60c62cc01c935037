//! Who connects: no credentials, certificates, SASL users, digest users, several at once, and super users of
//! each kind.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use zebu_client::{Client, SaslLogin, Tls};

use super::certificates::Certificates;
use crate::differential::SUPER_USER;

/// Longer than any case takes.
const SESSION_TIMEOUT: Duration = Duration::from_secs(40);

/// What one connection shows.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) name: &'static str,
    certificate: Option<&'static str>,
    /// A user; the password is the name with `!`.
    sasl: Option<&'static str>,
    /// Credentials of the digest scheme, as `user:password`.
    digests: &'static [&'static str],
}

/// A super user of SASL.
pub(super) const SASL_SUPER: &str = "root";

/// The value of `letAnySaslUserDoX`: an id in lists that every SASL user matches.
pub(super) const ANY_SASL_USER: &str = "anybody";

/// All SASL users, for the server's login file.
pub(super) const SASL_USERS: [&str; 5] = ["bob", "eve", "zoë", "super", SASL_SUPER];

const NOBODY: Identity = Identity { name: "nobody", certificate: None, sasl: None, digests: &[] };

/// The connections. The first has no credentials.
pub(super) const IDENTITIES: [Identity; 15] = [
    NOBODY,
    Identity { name: "digest u1", digests: &["u1:p1"], ..NOBODY },
    Identity { name: "digest u1 and u2", digests: &["u1:p1", "u2:p2"], ..NOBODY },
    Identity { name: "digest super", digests: &[SUPER_USER], ..NOBODY },
    Identity { name: "x509 one", certificate: Some("one"), ..NOBODY },
    Identity { name: "x509 comma", certificate: Some("comma"), ..NOBODY },
    Identity { name: "x509 mail", certificate: Some("mail"), ..NOBODY },
    Identity { name: "x509 version 1", certificate: Some("old"), ..NOBODY },
    Identity { name: "x509 super", certificate: Some("root"), ..NOBODY },
    Identity { name: "sasl bob", sasl: Some("bob"), ..NOBODY },
    Identity { name: "sasl zoë and digest u2", sasl: Some("zoë"), digests: &["u2:p2"], ..NOBODY },
    Identity { name: "sasl named super", sasl: Some("super"), ..NOBODY },
    Identity { name: "sasl super", sasl: Some(SASL_SUPER), ..NOBODY },
    Identity { name: "x509 one and sasl eve", certificate: Some("one"), sasl: Some("eve"), digests: &[] },
    Identity { name: "all three", certificate: Some("comma"), sasl: Some("bob"), digests: &["u1:p1"] },
];

/// The digest super user, who sets the scene.
pub(super) const SCENE: usize = 3;

/// The password of a SASL user.
pub(super) fn password(user: &str) -> String {
    format!("{user}!")
}

impl Identity {
    /// A session at a server with this plain port and this TLS port.
    pub(super) async fn connect(
        &self,
        plain: SocketAddr,
        secure: SocketAddr,
        certificates: &Certificates,
    ) -> Result<Client> {
        let address = if self.certificate.is_some() { secure } else { plain };
        let mut builder = Client::builder(&address.to_string())?.session_timeout(SESSION_TIMEOUT);
        if let Some(name) = self.certificate {
            let tls = Tls::new()
                .trust_file(certificates.path("ca.pem"))?
                .key_store(certificates.path(&format!("{name}.pem")), "")?;
            builder = builder.tls(tls.connector()?);
        }
        if let Some(user) = self.sasl {
            builder = builder.sasl(SaslLogin::digest_md5(user, password(user)));
        }
        for credential in self.digests {
            builder = builder.auth("digest", *credential);
        }
        builder.connect().await.with_context(|| format!("connect as {}", self.name))
    }
}
