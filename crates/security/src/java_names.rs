//! Protocol versions and cipher suites by their Java names.

use rustls::crypto::ring::cipher_suite;
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};

/// A name of the list that is not used, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredName {
    /// The name as written.
    pub name: String,
    /// The reason, and a name to use instead.
    pub reason: String,
}

/// A list of names has no supported entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {what} of \"{list}\" is supported: {reasons}")]
pub struct JavaNamesError {
    what: &'static str,
    list: String,
    reasons: String,
}

/// The supported entries of a list, in its order.
#[derive(Clone, Debug)]
pub struct JavaNames<T> {
    /// The supported entries.
    pub supported: Vec<T>,
    /// The other entries.
    pub ignored: Vec<IgnoredName>,
}

/// Reads `ssl.protocol` or `ssl.enabledProtocols`: names separated by commas.
pub fn parse_protocols(list: &str) -> Result<JavaNames<&'static SupportedProtocolVersion>, JavaNamesError> {
    let both = [&version::TLS13, &version::TLS12];
    read_list("protocol version", list, |name| match name {
        "TLSv1.2" => Ok(vec![&version::TLS12]),
        "TLSv1.3" => Ok(vec![&version::TLS13]),
        // Java's names for its default.
        "TLS" | "Default" => Ok(both.to_vec()),
        "TLSv1" | "TLSv1.1" | "SSL" | "SSLv2" | "SSLv2Hello" | "SSLv3" => {
            Err("this version is broken; write TLSv1.2 or TLSv1.3".to_owned())
        }
        _ => Err("no such version; write TLSv1.2 or TLSv1.3".to_owned()),
    })
}

/// Reads `ssl.ciphersuites`: names of IANA or Java separated by commas.
pub fn parse_cipher_suites(list: &str) -> Result<JavaNames<SupportedCipherSuite>, JavaNamesError> {
    read_list("cipher suite", list, |name| match SUITES.iter().find(|(known, _)| *known == name) {
        Some((_, suite)) => Ok(vec![*suite]),
        None => Err(reason_against(name)),
    })
}

fn read_list<T: Clone + PartialEq>(
    what: &'static str,
    list: &str,
    read: impl Fn(&str) -> Result<Vec<T>, String>,
) -> Result<JavaNames<T>, JavaNamesError> {
    let mut names = JavaNames { supported: Vec::new(), ignored: Vec::new() };
    let entries = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    // Java lists this signal among the suites; rustls always sends its equivalent.
    for name in entries.filter(|name| *name != "TLS_EMPTY_RENEGOTIATION_INFO_SCSV") {
        match read(name) {
            Ok(values) => {
                let new = values.into_iter().filter(|value| !names.supported.contains(value));
                let new: Vec<T> = new.collect();
                names.supported.extend(new);
            }
            Err(reason) => names.ignored.push(IgnoredName { name: name.to_owned(), reason }),
        }
    }
    if !names.supported.is_empty() {
        return Ok(names);
    }
    let reasons: Vec<String> =
        names.ignored.iter().map(|ignored| format!("{}: {}", ignored.name, ignored.reason)).collect();
    let reasons = if reasons.is_empty() { "the list is empty".to_owned() } else { reasons.join("; ") };
    Err(JavaNamesError { what, list: list.to_owned(), reasons })
}

const SUITES: [(&str, SupportedCipherSuite); 9] = [
    ("TLS_AES_256_GCM_SHA384", cipher_suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", cipher_suite::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", cipher_suite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// The reason why a suite is not supported, with the nearest one that is.
fn reason_against(name: &str) -> String {
    let is_suite = (name.starts_with("TLS_") || name.starts_with("SSL_")) && name.contains("_WITH_");
    if !is_suite {
        let known: Vec<&str> = SUITES.iter().map(|(known, _)| *known).collect();
        return format!("no such suite; write one of {}", known.join(", "));
    }
    let key = if name.contains("ECDSA") { "ECDSA" } else { "RSA" };
    let cipher = if name.contains("AES_256") { "AES_256_GCM_SHA384" } else { "AES_128_GCM_SHA256" };
    let flaw = if name.contains("_CBC_") {
        "CBC suites are not supported"
    } else if ["_RC4_", "_NULL_", "_anon_", "_EXPORT_", "_DES_"].iter().any(|weak| name.contains(weak)) {
        "the suite is broken"
    } else if !name.contains("_ECDHE_") {
        "only ECDHE key exchange is supported"
    } else {
        "the suite is not supported"
    };
    format!("{flaw}; write TLS_ECDHE_{key}_WITH_{cipher}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_by_their_java_names() {
        let names = parse_protocols("TLSv1.3, TLSv1.2").unwrap();
        assert_eq!(names.supported, [&version::TLS13, &version::TLS12]);
        assert!(names.ignored.is_empty());
        assert_eq!(parse_protocols("TLS").unwrap().supported.len(), 2);
        assert_eq!(parse_protocols("TLSv1.2,TLS").unwrap().supported, [&version::TLS12, &version::TLS13]);

        let mixed = parse_protocols("TLSv1.1,TLSv1.2,SSLv3,tlsv1.3").unwrap();
        assert_eq!(mixed.supported, [&version::TLS12]);
        let ignored: Vec<&str> = mixed.ignored.iter().map(|ignored| ignored.name.as_str()).collect();
        assert_eq!(ignored, ["TLSv1.1", "SSLv3", "tlsv1.3"]);

        let error = parse_protocols("TLSv1").unwrap_err().to_string();
        assert!(error.contains("TLSv1: this version is broken; write TLSv1.2 or TLSv1.3"), "{error}");
        assert!(parse_protocols(" ,").unwrap_err().to_string().contains("the list is empty"));
    }

    #[test]
    fn cipher_suites_by_their_java_names() {
        for (name, suite) in SUITES {
            assert_eq!(parse_cipher_suites(name).unwrap().supported, [suite]);
            let own = format!("{:?}", suite.suite());
            assert_eq!(own.replace("TLS13_", "TLS_"), name);
        }
        assert_eq!(SUITES.len(), rustls::crypto::ring::ALL_CIPHER_SUITES.len());
        let list =
            "TLS_EMPTY_RENEGOTIATION_INFO_SCSV,TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384";
        let mixed = parse_cipher_suites(list).unwrap();
        assert_eq!(mixed.supported, [cipher_suite::TLS13_AES_128_GCM_SHA256]);
        assert!(mixed.ignored[0].reason.ends_with("write TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"));
        for (name, hint) in [
            ("SSL_RSA_WITH_RC4_128_SHA", "broken"),
            ("SSL_DH_anon_WITH_DES_CBC_SHA", "CBC"),
            ("TLS_RSA_WITH_AES_128_GCM_SHA256", "only ECDHE"),
            ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
            ("AES128-SHA", "no such suite"),
        ] {
            let error = parse_cipher_suites(name).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}
