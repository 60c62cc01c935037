//! Settings that decide whether a request is granted. They change no state, so servers may differ.

use crate::access::digest_scheme::DigestAlgorithm;
use crate::access::ensemble_scheme::EnsembleScheme;
use crate::access::sasl_scheme::SaslScheme;

/// Whether ACLs are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AclChecks {
    /// As usual.
    #[default]
    Enforced,
    /// Every client has all permissions.
    Skipped,
}

/// Whether hard quotas refuse requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum QuotaEnforcement {
    /// Usage is only counted.
    #[default]
    Off,
    /// A request that would exceed a hard limit is refused.
    On,
}

/// Whether the `digest` scheme exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DigestScheme {
    /// Registered.
    #[default]
    Enabled,
    /// Not registered: no client can authenticate with it and its ACL entries match no client.
    Disabled,
}

/// Whether the `x509` scheme exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum X509Scheme {
    /// Registered: a client port has TLS.
    Enabled,
    /// Not registered.
    #[default]
    Disabled,
}

/// The registered authentication schemes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AuthSettings {
    /// Whether `digest` is registered.
    pub digest: DigestScheme,
    /// The hash of `digest`.
    pub algorithm: DigestAlgorithm,
    /// The `user:hash` that is the super user.
    pub super_digest: Option<Box<str>>,
    /// Whether `x509` is registered.
    pub x509: X509Scheme,
    /// The `sasl` scheme of ACLs, if it is registered. An exchange needs no registration.
    pub sasl: Option<SaslScheme>,
    /// The `ensemble` scheme, if it is registered.
    pub ensemble: Option<EnsembleScheme>,
}

/// The longest transaction that every ZooKeeper server reads with its default settings: `jute.maxbuffer` and
/// `zookeeper.jute.maxbuffer.extrasize`, both 0xfffff.
pub const TRANSACTION_BYTES_MAX: usize = 2 * 0xf_ffff;

/// The settings that requests are checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// ACL checks.
    pub acl_checks: AclChecks,
    /// Hard quotas.
    pub quota: QuotaEnforcement,
    /// Schemes.
    pub auth: AuthSettings,
    /// How long a container may wait for its first child, milliseconds; zero means forever.
    pub container_never_used_ms: i64,
    /// Bytes of the longest transaction: header, body and digest. A request that needs more is refused.
    pub transaction_bytes_max: usize,
    /// Whether the paths of ClickHouse's virtual nodes are reserved.
    pub keeper_nodes: bool,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            acl_checks: AclChecks::default(),
            quota: QuotaEnforcement::default(),
            auth: AuthSettings::default(),
            container_never_used_ms: 0,
            transaction_bytes_max: TRANSACTION_BYTES_MAX,
            keeper_nodes: true,
        }
    }
}
