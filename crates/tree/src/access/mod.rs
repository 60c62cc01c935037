//! Access control: the credentials of a connection, the permissions of an ACL, the acceptable ACLs.
//!
//! Authentication happens here only for schemes that are a computation (`digest`, `ip`); exchanges such as
//! SASL and TLS end elsewhere and add their [`Id`](zebu_proto::Id) to the [`Credentials`].

mod check;
mod credentials;
mod digest_scheme;
mod ensemble_scheme;
mod fixup;
mod ip_scheme;
mod policy;
mod sasl_scheme;

pub use check::{allowed, masked, user_name};
pub use credentials::Credentials;
pub use digest_scheme::{AuthError, DigestAlgorithm, authenticate, digest_id};
pub use ensemble_scheme::{EnsembleMatch, EnsembleScheme};
pub(crate) use fixup::PrepareRefusal;
pub use fixup::{AclError, fixup_acl};
pub use ip_scheme::{IpNetwork, ip_text};
pub use policy::{
    AclChecks, AuthSettings, DigestScheme, Policy, QuotaEnforcement, TRANSACTION_BYTES_MAX, X509Scheme,
};
pub use sasl_scheme::SaslScheme;
use zebu_security::x500_name::is_x500_name;

/// The provider of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provider<'a> {
    Digest,
    Ip,
    X509,
    Sasl(&'a SaslScheme),
    /// It compares names of ensembles; its ids never take part in ACLs.
    Ensemble,
}

impl<'a> Provider<'a> {
    /// The provider of a scheme, if it is registered.
    fn of(scheme: &str, policy: &'a Policy) -> Option<Provider<'a>> {
        match scheme {
            "ip" => Some(Provider::Ip),
            "digest" if policy.auth.digest == DigestScheme::Enabled => Some(Provider::Digest),
            "x509" if policy.auth.x509 == X509Scheme::Enabled => Some(Provider::X509),
            "sasl" => policy.auth.sasl.as_ref().map(Provider::Sasl),
            "ensemble" => policy.auth.ensemble.as_ref().map(|_| Provider::Ensemble),
            _ => None,
        }
    }

    /// Whether a credential of the scheme is proven.
    fn is_authenticated(self) -> bool {
        match self {
            Provider::Digest | Provider::X509 | Provider::Sasl(_) => true,
            Provider::Ip | Provider::Ensemble => false,
        }
    }

    /// Whether `id` is valid in an ACL.
    fn is_valid(self, id: &str) -> bool {
        match self {
            Provider::Digest => digest_scheme::is_valid(id),
            Provider::Ip => ip_scheme::is_valid(id),
            Provider::X509 => is_x500_name(id),
            Provider::Sasl(_) => sasl_scheme::is_valid(id),
            Provider::Ensemble => false,
        }
    }

    /// Whether a credential matches the id of an ACL.
    fn matches(self, credential: &str, acl_id: &str) -> bool {
        match self {
            // Java compares the names as they are written.
            Provider::Digest | Provider::X509 => credential == acl_id,
            Provider::Ip => ip_scheme::matches(credential, acl_id),
            Provider::Sasl(scheme) => scheme.matches(credential, acl_id),
            Provider::Ensemble => false,
        }
    }
}

/// Splits as Java does: empty parts at the end do not count, but the text itself always is one part.
fn java_split(text: &str, separator: char) -> Vec<&str> {
    let mut parts: Vec<&str> = text.split(separator).collect();
    while parts.len() > 1 && parts.last() == Some(&"") {
        parts.pop();
    }
    // Only separators give no part at all.
    if parts == [""] && !text.is_empty() {
        parts.pop();
    }
    parts
}
