//! The server configurations that vectors ask for.

use serde::Deserialize;

/// What the server of a vector must be started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Config {
    /// Extended types, all four-letter words, a super user.
    #[default]
    Default,
    /// The same on an empty data directory.
    Fresh,
    /// Quotas are enforced.
    Quota,
    /// Containers are looked after three times a second.
    Containers,
    /// Nothing set.
    Plain,
    /// Read-only mode is possible.
    Ro,
    /// Clients must authenticate.
    Enforce,
    /// ACLs are not looked at.
    SkipAcl,
}

const EXTENDED: (&str, &str) = ("zookeeper.extendedTypesEnabled", "true");
const WORDS: (&str, &str) = ("zookeeper.4lw.commands.whitelist", "*");
const SUPER: (&str, &str) =
    ("zookeeper.DigestAuthenticationProvider.superDigest", "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=");

impl Config {
    /// The properties, to be given as `-Dname=value`.
    pub const fn properties(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Config::Default | Config::Fresh => &[EXTENDED, WORDS, SUPER],
            Config::Quota => &[EXTENDED, WORDS, ("zookeeper.enforceQuota", "true")],
            Config::Containers => &[EXTENDED, ("znode.container.checkIntervalMs", "300")],
            Config::Plain => &[],
            Config::Ro => &[("readonlymode.enabled", "true")],
            Config::Enforce => {
                &[("zookeeper.enforce.auth.enabled", "true"), ("zookeeper.enforce.auth.schemes", "digest")]
            }
            Config::SkipAcl => &[("zookeeper.skipACL", "yes")],
        }
    }
}
