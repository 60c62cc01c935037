//! One family of TLS keys with its defaults: `ssl.` for clients, `ssl.quorum.` between servers,
//! `metricsProvider.ssl.` for the exporter.
//!
//! Reads and checks the values. Keys that ask for what Zebu does not have are errors. It opens no store.

use std::path::PathBuf;
use std::time::Duration;

use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};
use zebu_security::java_names::{
    IgnoredName, JavaNames, JavaNamesError, parse_cipher_suites, parse_protocols,
};
use zebu_security::secret::SecretText;
use zebu_security::store::StoreType;

use super::super::diagnostics::SettingOrigin;
use super::super::nearest::nearest_name;
use super::super::setting_reader::SettingReader;

const DETECTION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// Which connections a family of keys is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsFamily {
    /// Clients: `ssl.`
    Client,
    /// Servers of the ensemble: `ssl.quorum.`
    Quorum,
    /// The metrics exporter: `metricsProvider.ssl.`
    Exporter,
}

impl TlsFamily {
    /// What all keys of the family begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            TlsFamily::Client => "ssl.",
            TlsFamily::Quorum => "ssl.quorum.",
            TlsFamily::Exporter => "metricsProvider.ssl.",
        }
    }

    /// A key of the family.
    pub fn key(self, suffix: &str) -> String {
        format!("{}{suffix}", self.prefix())
    }
}

/// The checked values of one family.
#[derive(Debug, Clone, PartialEq)]
pub struct TlsFamilyConfig {
    /// The family.
    pub family: TlsFamily,
    /// Key and certificate of this server.
    pub key_store: StoreConfig,
    /// Trusted certificates; `None` only if no peer shows a certificate.
    pub trust_store: Option<StoreConfig>,
    /// Protocol versions, at least one.
    pub protocols: Vec<&'static SupportedProtocolVersion>,
    /// Cipher suites, at least one of them for a version of `protocols`.
    pub cipher_suites: Vec<SupportedCipherSuite>,
    /// `clientAuth`.
    pub client_auth: ClientAuth,
    /// `hostnameVerification`: the dialling side checks the name of the dialled server.
    pub hostname_verification: bool,
    /// `clientHostnameVerification`: the accepting side checks the certificate of the dialling side.
    pub client_hostname_verification: bool,
    /// `crl`: certificates are looked up in the revocation lists of the trust store.
    pub crl: bool,
    /// `handshakeDetectionTimeoutMillis`: how long a port with both protocols waits for the first byte.
    pub detection_timeout: Duration,
}

/// Whether the dialling side must show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// No certificate is asked for.
    None,
    /// A certificate is checked if there is one.
    Want,
    /// A connection without certificate is refused.
    Need,
}

/// A key store or trust store.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreConfig {
    /// The key that names the store, for messages.
    pub key: String,
    /// Where the store is named.
    pub origin: SettingOrigin,
    /// The file.
    pub path: PathBuf,
    /// Its password.
    pub password: StorePassword,
    /// The declared type, or the one of the file's ending. The content decides.
    pub declared: Option<StoreType>,
}

/// The password of a store.
#[derive(Debug, Clone)]
pub enum StorePassword {
    /// The value of `password`; empty if there is none.
    Text(SecretText),
    /// The file of `passwordPath`; it is read whenever the store is.
    File(PathBuf),
}

impl PartialEq for StorePassword {
    fn eq(&self, other: &StorePassword) -> bool {
        match (self, other) {
            (StorePassword::Text(left), StorePassword::Text(right)) => left.matches(right.reveal()),
            (StorePassword::File(left), StorePassword::File(right)) => left == right,
            (StorePassword::Text(_), StorePassword::File(_))
            | (StorePassword::File(_), StorePassword::Text(_)) => false,
        }
    }
}

/// Keys of both families behind their prefix.
pub const FAMILY_SUFFIXES: [&str; 18] = [
    "keyStore.location",
    "keyStore.password",
    "keyStore.passwordPath",
    "keyStore.type",
    "trustStore.location",
    "trustStore.password",
    "trustStore.passwordPath",
    "trustStore.type",
    "protocol",
    "enabledProtocols",
    "ciphersuites",
    "clientAuth",
    "hostnameVerification",
    "clientHostnameVerification",
    "allowReverseDnsLookup",
    "crl",
    "ocsp",
    "handshakeDetectionTimeoutMillis",
];
/// The Java class that makes the contexts; it is refused.
pub const SUPPLIER: &str = "context.supplier.class";
const CLIENT_SUFFIXES: [&str; 2] = ["authProvider", "sslProvider"];
/// `clientAuth` of the exporter in ZooKeeper's words.
const EXPORTER_SUFFIXES: [&str; 2] = [NEED_CLIENT_AUTH, WANT_CLIENT_AUTH];
const NEED_CLIENT_AUTH: &str = "need.client.auth";
const WANT_CLIENT_AUTH: &str = "want.client.auth";

/// Reads a family that a port uses. `None` if an error was reported that leaves no usable value. Missing keys
/// are reported where TLS is `asked_by` a key.
pub(super) fn read_family(
    reader: &mut SettingReader<'_>,
    family: TlsFamily,
    asked_by: &str,
) -> Option<TlsFamilyConfig> {
    warn_unknown_keys(reader, family);
    refuse_unsupported(reader, family);
    let client_auth = client_auth(reader, family);
    let hostname_verification = reader.strict_switch(&family.key("hostnameVerification"), true);
    let client_hostname_verification = reader
        .strict_switch(&family.key("clientHostnameVerification"), family == TlsFamily::Quorum)
        && hostname_verification;
    let crl = reader.strict_switch(&family.key("crl"), false);
    let detection_timeout = reader
        .optional_millis(&family.key("handshakeDetectionTimeoutMillis"), Some(DETECTION_TIMEOUT_DEFAULT))
        .unwrap_or(DETECTION_TIMEOUT_DEFAULT);
    let (protocols, cipher_suites) = versions_and_suites(reader, family)?;
    let key_store = store(reader, family, "keyStore");
    let trust_store = store(reader, family, "trustStore");
    if key_store.is_none() {
        let key = family.key("keyStore.location");
        let text = format!(
            "{key} is not set; a TLS port needs it: a PEM, PKCS12 or JKS file with key and certificate"
        );
        reader.diagnostics.error(&reader.origin(asked_by), text);
    }
    if trust_store.is_none() {
        let reason = trust_reason(family, client_auth, crl);
        if let Some(reason) = reason {
            let text = format!("{} is not set: {reason}", family.key("trustStore.location"));
            reader.diagnostics.error(&reader.origin(asked_by), text);
            return None;
        }
    }
    Some(TlsFamilyConfig {
        family,
        key_store: key_store?,
        trust_store,
        protocols,
        cipher_suites,
        client_auth,
        hostname_verification,
        client_hostname_verification,
        crl,
        detection_timeout,
    })
}

/// Warns once if keys of a family are set that no port uses.
pub(in crate::config) fn warn_unused_family(reader: &mut SettingReader<'_>, family: TlsFamily, remedy: &str) {
    let is_off = |value: &str| ["", "false", "none"].iter().any(|word| value.eq_ignore_ascii_case(word));
    let keys = family_keys(reader, family);
    let asking: Vec<&String> =
        keys.iter().filter(|key| reader.get(key).is_some_and(|setting| !is_off(&setting.value))).collect();
    if let Some(first) = asking.first() {
        let names: Vec<&str> = asking.iter().map(|key| key.as_str()).collect();
        let text = format!("no port uses TLS, so these have no effect: {}; {remedy}", names.join(", "));
        reader.diagnostics.warn(&reader.origin(first), text);
    }
}

fn family_keys(reader: &SettingReader<'_>, family: TlsFamily) -> Vec<String> {
    let quorum = TlsFamily::Quorum.prefix();
    let is_member = |key: &&String| {
        key.starts_with(family.prefix()) && (family != TlsFamily::Client || !key.starts_with(quorum))
    };
    reader.settings.values.keys().filter(is_member).cloned().collect()
}

fn warn_unknown_keys(reader: &mut SettingReader<'_>, family: TlsFamily) {
    let known = || {
        let own: &[&str] = match family {
            TlsFamily::Client => &CLIENT_SUFFIXES,
            TlsFamily::Quorum => &[],
            TlsFamily::Exporter => &EXPORTER_SUFFIXES,
        };
        FAMILY_SUFFIXES.iter().chain(own).copied().chain([SUPPLIER])
    };
    for key in family_keys(reader, family) {
        let suffix = &key[family.prefix().len()..];
        if known().any(|known| known == suffix) {
            continue;
        }
        let better = nearest_name(suffix, known());
        let hint = better.map(|better| format!("; did you mean {}?", family.key(better))).unwrap_or_default();
        reader.diagnostics.warn(&reader.origin(&key), format!("{key} is unknown and has no effect{hint}"));
    }
}

/// Keys that ask for something that Zebu does not have.
fn refuse_unsupported(reader: &mut SettingReader<'_>, family: TlsFamily) {
    let key = family.key(SUPPLIER);
    if let Some(setting) = reader.get(&key).filter(|setting| !setting.value.is_empty()) {
        let text = format!(
            "{key}: the Java class {} cannot be loaded; remove the line and set {} and {}",
            setting.value,
            family.key("keyStore.location"),
            family.key("trustStore.location")
        );
        reader.diagnostics.error(&setting.origin, text);
    }
    let key = family.key("ocsp");
    if reader.strict_switch(&key, false) {
        let text = format!(
            "{key}=true: OCSP is not supported; write {}=true and add X509 CRL blocks to a PEM trust store",
            family.key("crl")
        );
        reader.diagnostics.error(&reader.origin(&key), text);
    }
    let key = family.key("allowReverseDnsLookup");
    if reader.strict_switch(&key, false) {
        let text = format!("{key} has no effect: names are never looked up by their address");
        reader.diagnostics.note(&reader.origin(&key), text);
    }
    if family != TlsFamily::Client {
        return;
    }
    let key = family.key("authProvider");
    if let Some(setting) =
        reader.get(&key).filter(|setting| !setting.value.is_empty() && setting.value != "x509")
    {
        reader.report_invalid(&key, setting, "x509");
    }
    let key = family.key("sslProvider");
    if let Some(setting) = reader.get(&key)
        && !["", "JDK", "OPENSSL", "OPENSSL_REFCNT"].contains(&setting.value.as_str())
    {
        let text = format!("{key} = \"{}\" has no effect: TLS is built in", setting.value);
        reader.diagnostics.warn(&setting.origin, text);
    }
}

fn client_auth(reader: &mut SettingReader<'_>, family: TlsFamily) -> ClientAuth {
    if family == TlsFamily::Exporter {
        return exporter_client_auth(reader);
    }
    let key = family.key("clientAuth");
    let Some(setting) = reader.get(&key) else { return ClientAuth::Need };
    match setting.value.to_ascii_lowercase().as_str() {
        "none" => ClientAuth::None,
        "want" => ClientAuth::Want,
        "need" | "" => ClientAuth::Need,
        _ => {
            reader.report_invalid(&key, setting, "need, want, none");
            ClientAuth::Need
        }
    }
}

/// ZooKeeper's exporter requires a certificate by default.
fn exporter_client_auth(reader: &mut SettingReader<'_>) -> ClientAuth {
    let need = reader.strict_switch(&TlsFamily::Exporter.key(NEED_CLIENT_AUTH), true);
    let want = reader.strict_switch(&TlsFamily::Exporter.key(WANT_CLIENT_AUTH), false);
    match (need, want) {
        (true, _) => ClientAuth::Need,
        (false, true) => ClientAuth::Want,
        (false, false) => ClientAuth::None,
    }
}

type VersionsAndSuites = (Vec<&'static SupportedProtocolVersion>, Vec<SupportedCipherSuite>);

fn versions_and_suites(reader: &mut SettingReader<'_>, family: TlsFamily) -> Option<VersionsAndSuites> {
    let is_set = |key: &String| reader.get(key).is_some_and(|setting| !setting.value.is_empty());
    let key = [family.key("enabledProtocols"), family.key("protocol")].into_iter().find(is_set);
    let protocols = match key {
        Some(key) => names(reader, &key, parse_protocols)?,
        None => vec![&version::TLS13, &version::TLS12],
    };
    let key = family.key("ciphersuites");
    let suites = match reader.get(&key).is_some_and(|setting| !setting.value.is_empty()) {
        true => names(reader, &key, parse_cipher_suites)?,
        false => rustls::crypto::ring::DEFAULT_CIPHER_SUITES.to_vec(),
    };
    if !suites.iter().any(|suite| protocols.contains(&suite.version())) {
        let text = format!(
            "no suite of {key} belongs to an enabled protocol version; write TLS_AES_128_GCM_SHA256 for TLSv1.3 or \
             TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 for TLSv1.2"
        );
        reader.diagnostics.error(&reader.origin(&key), text);
        return None;
    }
    Some((protocols, suites))
}

fn names<T>(
    reader: &mut SettingReader<'_>,
    key: &str,
    parse: impl Fn(&str) -> Result<JavaNames<T>, JavaNamesError>,
) -> Option<Vec<T>> {
    let setting = reader.get(key)?;
    match parse(&setting.value) {
        Ok(JavaNames { supported, ignored }) => {
            for IgnoredName { name, reason } in ignored {
                reader.diagnostics.warn(&setting.origin, format!("{key}: {name} is not used: {reason}"));
            }
            Some(supported)
        }
        Err(error) => {
            reader.diagnostics.error(&setting.origin, format!("{key}: {error}"));
            None
        }
    }
}

fn store(reader: &mut SettingReader<'_>, family: TlsFamily, which: &str) -> Option<StoreConfig> {
    let key_of = |part: &str| family.key(&format!("{which}.{part}"));
    let key = key_of("location");
    let location = reader.get(&key).filter(|setting| !setting.value.is_empty())?;
    let set = |part: &str| reader.get(&key_of(part)).filter(|setting| !setting.value.is_empty());
    let password = match (set("passwordPath"), set("password")) {
        (Some(path), _) => StorePassword::File(PathBuf::from(&path.value)),
        (None, Some(password)) => StorePassword::Text(SecretText::new(password.value.clone())),
        (None, None) => StorePassword::Text(SecretText::default()),
    };
    let declared = match set("type") {
        None => StoreType::from_file_name(&location.value),
        Some(setting) => {
            let declared = StoreType::from_name(&setting.value);
            if declared.is_none() {
                reader.report_invalid(&key_of("type"), setting, "PEM, PKCS12, JKS");
            }
            declared
        }
    };
    let path = PathBuf::from(&location.value);
    Some(StoreConfig { key, origin: location.origin.clone(), path, password, declared })
}

/// Why a family needs a trust store; `None` if it does not.
fn trust_reason(family: TlsFamily, client_auth: ClientAuth, crl: bool) -> Option<String> {
    match (family, client_auth) {
        (TlsFamily::Quorum, _) => Some("servers check each other's certificates".to_owned()),
        (TlsFamily::Client | TlsFamily::Exporter, ClientAuth::None) => {
            crl.then(|| format!("{}=true needs its CRLs", family.key("crl")))
        }
        (TlsFamily::Client, ClientAuth::Want | ClientAuth::Need) => {
            Some(format!("clients show certificates; write {}=none if they do not", family.key("clientAuth")))
        }
        (TlsFamily::Exporter, ClientAuth::Want | ClientAuth::Need) => Some(format!(
            "collectors show certificates; write {}=false if they do not",
            family.key(NEED_CLIENT_AUTH)
        )),
    }
}
