//! What the pure crates may take from outside. Development dependencies are free: they do not ship.

use super::Violation;
use super::metadata::{Crate, Kind};

const PURE_CRATES: [&str; 7] =
    ["zebu-proto", "zebu-tree", "zebu-zab", "zebu-node", "zebu-runtime", "zebu-security", "zebu-metrics"];

/// Crates that compute and do nothing else: no clock, no thread, no file, no socket.
const ALLOWED: [&str; 15] = [
    "base64",
    "bytes",
    "crc32fast",
    "foldhash",
    "hashbrown",
    "ipnet",
    "md-5",
    "sha1",
    "sha2",
    "sha3",
    "simd-adler32",
    "slotmap",
    "smallvec",
    "subtle",
    "thiserror",
];

/// Ciphers, certificates and TLS, for the crate that speaks about them. Its code hands time and nonces in.
const ALLOWED_FOR_SECURITY: [&str; 10] =
    ["aes", "cbc", "des", "rc2", "regex", "ring", "rustls", "rustls-webpki", "x509-parser", "zeroize"];

fn is_allowed(package: &str, dependency: &str) -> bool {
    ALLOWED.contains(&dependency) || package == "zebu-security" && ALLOWED_FOR_SECURITY.contains(&dependency)
}

/// Checks the manifests of the pure crates.
pub(crate) fn check(crates: &[Crate]) -> Vec<Violation> {
    let pure = crates.iter().filter(|package| PURE_CRATES.contains(&package.name.as_str()));
    pure.flat_map(|package| {
        let outside = package
            .dependencies
            .iter()
            .filter(|dependency| !dependency.ours && dependency.kind == Kind::Shipped)
            .filter(|dependency| !is_allowed(&package.name, &dependency.name));
        outside.map(|dependency| {
            Violation::new(
                format!("{} (Cargo.toml)", package.name),
                format!("the pure crate uses {}", dependency.name),
                "pure crates take only what computes; the list is in xtask/src/tidy/dependencies.rs",
            )
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::metadata::Dependency;
    use super::*;

    fn with(name: &str, dependency: &str, kind: Kind) -> Crate {
        let dependency = Dependency { name: dependency.to_owned(), kind, ours: false };
        Crate { name: name.to_owned(), dependencies: vec![dependency] }
    }

    #[test]
    fn pure_crates_take_only_what_computes() {
        assert_eq!(check(&[with("zebu-tree", "tokio", Kind::Shipped)]).len(), 1);
        assert_eq!(check(&[with("zebu-tree", "tokio", Kind::Development)]), []);
        assert_eq!(check(&[with("zebu-tree", "thiserror", Kind::Shipped)]), []);
        assert_eq!(check(&[with("zebu-server", "tokio", Kind::Shipped)]), []);
        assert_eq!(check(&[with("zebu-security", "rustls", Kind::Shipped)]), []);
        assert_eq!(check(&[with("zebu-tree", "rustls", Kind::Shipped)]).len(), 1);
        assert_eq!(check(&[with("zebu-security", "tokio", Kind::Shipped)]).len(), 1);
    }
}
