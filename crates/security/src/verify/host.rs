//! Host names against certificates, by Java's rule for HTTPS.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::{CertificateError, OtherError};

use super::fields::CertificateFields;

/// Longest list of the names of a certificate in an error.
const PRESENTED_CHARS_MAX: usize = 300;

/// The certificate fits none of the hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostCheckError {
    /// The names differ.
    #[error("the certificate is for {presented}, not for {expected}; reissue it or correct the host name")]
    Mismatch {
        /// The hosts that were allowed.
        expected: String,
        /// The names in the certificate.
        presented: String,
    },
    /// The certificate cannot be read.
    #[error("the certificate cannot be read")]
    Unreadable,
}

/// Checks that the certificate fits at least one host, and returns its index. Hosts are names or addresses.
pub fn check_hosts(certificate: &[u8], hosts: &[String]) -> Result<usize, HostCheckError> {
    let fields = CertificateFields::read(certificate).map_err(|_| HostCheckError::Unreadable)?;
    let fit = hosts.iter().position(|host| fits(&fields, host));
    fit.ok_or_else(|| HostCheckError::Mismatch {
        expected: hosts.join(" or "),
        presented: presented_names(&fields),
    })
}

/// Checks the certificate of a server of the ensemble. The error names both sides' hosts, because an operator
/// has to correct one of them.
pub(super) fn fits_any_peer(fields: &CertificateFields, hosts: &[String]) -> Result<(), rustls::Error> {
    if hosts.iter().any(|host| fits(fields, host)) {
        return Ok(());
    }
    let mismatch =
        HostCheckError::Mismatch { expected: hosts.join(" or "), presented: presented_names(fields) };
    Err(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(mismatch)))))
}

pub(super) fn fits_any(fields: &CertificateFields, hosts: &[String]) -> Result<(), rustls::Error> {
    match hosts.iter().any(|host| fits(fields, host)) {
        true => Ok(()),
        false => Err(rustls::Error::InvalidCertificate(CertificateError::NotValidForName)),
    }
}

fn presented_names(fields: &CertificateFields) -> String {
    let address = |bytes: &Vec<u8>| read_address(bytes).map(|address| address.to_string());
    let mut names: Vec<String> = fields.dns_names.clone();
    names.extend(fields.ip_addresses.iter().filter_map(address));
    if names.is_empty() {
        names.extend(fields.common_name.clone());
    }
    if names.is_empty() { "no host".to_owned() } else { shown_names(&names) }
}

/// The owner of a certificate chose its names: they are escaped and cut.
fn shown_names(names: &[String]) -> String {
    names.join(", ").escape_debug().take(PRESENTED_CHARS_MAX).collect()
}

fn read_address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Addresses fit only addresses of the certificate. Names fit its DNS names, or the common name if it has no
/// DNS name.
fn fits(fields: &CertificateFields, host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return fields.ip_addresses.iter().any(|bytes| read_address(bytes) == Some(address));
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    if fields.has_dns_names {
        return fields.dns_names.iter().any(|pattern| fits_pattern(host, pattern));
    }
    fields.common_name.as_ref().is_some_and(|pattern| fits_pattern(host, pattern))
}

/// A star stands for any characters within one label, and a dot must follow behind the last star.
fn fits_pattern(host: &str, pattern: &str) -> bool {
    let (host, pattern) = (host.to_ascii_lowercase(), pattern.to_ascii_lowercase());
    if host.is_empty() || pattern.rfind('*').is_some_and(|star| !pattern[star..].contains('.')) {
        return false;
    }
    let hosts: Vec<&str> = host.split('.').collect();
    let patterns: Vec<&str> = pattern.split('.').collect();
    hosts.len() == patterns.len()
        && hosts.iter().zip(&patterns).all(|(label, pattern)| fits_label(label, pattern))
}

fn fits_label(label: &str, pattern: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = label.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_errors_are_short_and_escaped() {
        let names = shown_names(&["a\n".repeat(100_000)]);
        assert_eq!(names.chars().count(), PRESENTED_CHARS_MAX);
        assert!(names.starts_with("a\\na\\n"), "{names}");
    }

    /// Compared with the host name check of Java 17.
    #[test]
    fn wildcards_stay_within_a_label() {
        for (host, pattern) in [
            ("zk1.example.com", "*.example.com"),
            ("ZK1.example.com", "zk1.EXAMPLE.com"),
            ("zk1.example.com", "zk*.example.com"),
            ("zk1.example.com", "*k*.ex*le.com"),
            ("abbc.example.com", "ab*bc.example.com"),
            ("example.com", "*.com"),
            ("zk1.example.com", "z*.*.com"),
            ("localhost", "localhost"),
        ] {
            assert!(fits_pattern(host, pattern), "{host} {pattern}");
        }
        for (host, pattern) in [
            ("a.b.example.com", "*.example.com"),
            ("example.com", "*.example.com"),
            ("example.com", "*.com.*"),
            ("localhost", "*"),
            ("example.com", "example.*"),
            ("zk.example.com", "zk1*.example.com"),
            ("zk1.example.com", "zk1.example.com."),
            ("abc.example.com", "ab*bc.example.com"),
            ("", ""),
        ] {
            assert!(!fits_pattern(host, pattern), "{host} {pattern}");
        }
    }
}
