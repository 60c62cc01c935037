//! DIGEST-MD5 as ZooKeeper uses it: `md5-sess`, qop `auth`, one exchange per connection.

mod client;
mod directives;
mod hash;
mod server;

use std::collections::BTreeMap;

use crate::secret::SecretText;

pub use client::DigestClient;
pub use hash::{DigestInput, DigestPair, digest_pair};
pub use server::DigestServer;

/// Random bytes of a server's nonce.
pub const NONCE_BYTES: usize = 30;

/// Names that both sides of an exchange must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestProfile {
    /// The realm.
    pub realm: &'static str,
    /// The digest-uri.
    pub uri: &'static str,
    /// The rule for authorization ids.
    pub authorization: AuthorizationRule,
}

/// Treatment of an authorization id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationRule {
    /// Any id; it enters the hash and has no other effect.
    Ignore,
    /// Absent, or equal to the user.
    EqualsUser,
}

impl DigestProfile {
    /// Exchanges between clients and servers.
    pub const CLIENTS: DigestProfile = DigestProfile {
        realm: "zk-sasl-md5",
        uri: "zookeeper/zk-sasl-md5",
        authorization: AuthorizationRule::Ignore,
    };

    /// Exchanges between servers.
    pub const QUORUM: DigestProfile = DigestProfile {
        realm: "zk-quorum-sasl-md5",
        uri: "zookeeper-quorum/zk-quorum-sasl-md5",
        authorization: AuthorizationRule::EqualsUser,
    };
}

/// Users and their passwords.
#[derive(Clone, Debug, Default)]
pub struct DigestUsers {
    passwords: BTreeMap<String, SecretText>,
}

/// Compares passwords in constant time.
impl PartialEq for DigestUsers {
    fn eq(&self, other: &DigestUsers) -> bool {
        self.passwords.len() == other.passwords.len()
            && self.passwords.iter().zip(&other.passwords).all(|((user, password), (other_user, other))| {
                user == other_user && password.matches(other.reveal())
            })
    }
}

impl DigestUsers {
    /// Adds a user, or replaces the password.
    pub fn insert(&mut self, user: impl Into<String>, password: SecretText) {
        self.passwords.insert(user.into(), password);
    }

    /// Replaces the password of a user that exists, as `superPassword` does for `super`.
    pub fn replace_password(&mut self, user: &str, password: SecretText) -> bool {
        match self.passwords.get_mut(user) {
            Some(slot) => {
                *slot = password;
                true
            }
            None => false,
        }
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.passwords.keys().map(String::as_str)
    }

    fn password(&self, user: &str) -> Option<&SecretText> {
        self.passwords.get(user)
    }
}
