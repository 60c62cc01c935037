//! Arguments and properties to the protection that they ask for. It opens no file. Arguments win over
//! properties; what Zebu does not have is refused.

use std::path::PathBuf;

use zebu_security::secret::SecretText;
use zebu_security::store::StoreType;

use super::arguments::ProtectionArguments;
use super::error::ProtectionError;
use super::kerberos::TicketSource;
use super::properties::ClientProperties;

/// The variable with the password of `--sasl-user`.
pub(super) const PASSWORD_VARIABLE: &str = "ZEBU_SASL_PASSWORD";

const SECURE: &str = "zookeeper.client.secure";
const LOGIN_FILE: &str = "java.security.auth.login.config";
const LOGIN_SECTION: &str = "zookeeper.sasl.clientconfig";
const FIPS: &str = "zookeeper.fips-mode";

/// Where a password comes from.
#[derive(Clone, Debug)]
pub(super) enum PasswordSource {
    None,
    Text(SecretText),
    File(PathBuf),
}

/// The client's certificate and key.
#[derive(Clone, Debug)]
pub(super) struct IdentitySettings {
    pub(super) certificate: PathBuf,
    /// The file of the key, if it is another one.
    pub(super) key: Option<PathBuf>,
    pub(super) password: PasswordSource,
}

#[derive(Clone, Debug)]
pub(super) struct TlsSettings {
    pub(super) trusted: Option<(PathBuf, PasswordSource)>,
    pub(super) identity: Option<IdentitySettings>,
    pub(super) protocols: Option<String>,
    pub(super) suites: Option<String>,
    pub(super) verifies_names: bool,
    pub(super) checks_revocation: bool,
}

#[derive(Clone, Debug)]
pub(super) enum SaslUser {
    /// `--sasl-user`
    Given { user: String, password: PasswordSource },
    /// `--kerberos`
    Ticket(TicketSource),
    /// A section of a JAAS file.
    Login { file: PathBuf, section: String, is_section_required: bool },
}

#[derive(Clone, Debug, Default)]
pub(super) struct ProtectionSettings {
    pub(super) tls: Option<TlsSettings>,
    pub(super) sasl: Option<SaslUser>,
    /// `fips-mode=true` forbids DIGEST-MD5.
    pub(super) is_fips: bool,
    pub(super) largest_answer: Option<usize>,
}

/// Decides what the connections of a command use. `must_use_tls` is for a port that is known to speak TLS.
pub(super) fn decide(
    arguments: &ProtectionArguments,
    properties: &ClientProperties,
    password_variable: Option<String>,
    must_use_tls: bool,
) -> Result<ProtectionSettings, ProtectionError> {
    let asks_for_tls = arguments.tls
        || arguments.tls_ca.is_some()
        || arguments.tls_cert.is_some()
        || arguments.tls_skip_hostname_check
        || properties.flag(SECURE) == Some(true);
    let tls = match asks_for_tls || must_use_tls {
        true => Some(tls_settings(arguments, properties)?),
        false => None,
    };
    Ok(ProtectionSettings {
        tls,
        sasl: sasl_user(arguments, properties, password_variable)?,
        is_fips: properties.flag(FIPS) == Some(true),
        largest_answer: largest_answer(properties)?,
    })
}

fn tls_settings(
    arguments: &ProtectionArguments,
    properties: &ClientProperties,
) -> Result<TlsSettings, ProtectionError> {
    for (key, problem) in [
        ("zookeeper.ssl.ocsp", "asks for OCSP, which is not supported; use zookeeper.ssl.crl with CRLs"),
        ("zookeeper.ssl.context.supplier.class", "names a Java class; Zebu has none"),
    ] {
        let is_set = if key.ends_with("ocsp") {
            properties.flag(key) == Some(true)
        } else {
            properties.get(key).is_some()
        };
        if is_set {
            return Err(properties.error(key, problem));
        }
    }
    let trusted = match &arguments.tls_ca {
        Some(file) => Some((file.clone(), password_file(arguments.tls_ca_password_file.as_ref()))),
        None => store(properties, "trustStore")?,
    };
    let identity = match &arguments.tls_cert {
        Some(certificate) => Some(IdentitySettings {
            certificate: certificate.clone(),
            key: arguments.tls_key.clone(),
            password: password_file(arguments.tls_key_password_file.as_ref()),
        }),
        None => store(properties, "keyStore")?.map(|(certificate, password)| IdentitySettings {
            certificate,
            key: None,
            password,
        }),
    };
    let protocols = properties.get("zookeeper.ssl.enabledProtocols");
    Ok(TlsSettings {
        trusted,
        identity,
        protocols: protocols.or_else(|| properties.get("zookeeper.ssl.protocol")).map(str::to_owned),
        suites: properties.get("zookeeper.ssl.ciphersuites").map(str::to_owned),
        verifies_names: !arguments.tls_skip_hostname_check
            && properties.flag("zookeeper.ssl.hostnameVerification") != Some(false),
        checks_revocation: properties.flag("zookeeper.ssl.crl") == Some(true),
    })
}

fn password_file(file: Option<&PathBuf>) -> PasswordSource {
    file.map_or(PasswordSource::None, |file| PasswordSource::File(file.clone()))
}

/// The store of one kind. A password file wins over a password, as in Java.
fn store(
    properties: &ClientProperties,
    kind: &str,
) -> Result<Option<(PathBuf, PasswordSource)>, ProtectionError> {
    let key = |name: &str| format!("zookeeper.ssl.{kind}.{name}");
    let Some(location) = properties.get(&key("location")) else { return Ok(None) };
    match properties.get(&key("type")).map(StoreType::from_name) {
        Some(None) => {
            return Err(properties.error(&key("type"), "is none of JKS, PEM and PKCS12"));
        }
        Some(Some(StoreType::Bcfks)) => {
            return Err(properties.error(&key("type"), "is BCFKS, which is not supported; convert the store"));
        }
        Some(Some(_)) | None => {}
    }
    let password = match (properties.get(&key("passwordPath")), properties.get(&key("password"))) {
        (Some(file), _) => PasswordSource::File(file.into()),
        (None, Some(text)) => PasswordSource::Text(SecretText::new(text)),
        (None, None) => PasswordSource::None,
    };
    Ok(Some((location.into(), password)))
}

fn sasl_user(
    arguments: &ProtectionArguments,
    properties: &ClientProperties,
    password_variable: Option<String>,
) -> Result<Option<SaslUser>, ProtectionError> {
    if let Some(user) = &arguments.sasl_user {
        let password = match (&arguments.sasl_password_file, password_variable) {
            (Some(file), _) => PasswordSource::File(file.clone()),
            (None, Some(text)) => PasswordSource::Text(SecretText::new(text)),
            (None, None) => {
                let problem = format!(
                    "--sasl-user needs a password: --sasl-password-file FILE, or the variable {PASSWORD_VARIABLE}"
                );
                return Err(ProtectionError::Arguments(problem));
            }
        };
        return Ok(Some(SaslUser::Given { user: user.clone(), password }));
    }
    let (principal, keytab) = (&arguments.kerberos_principal, &arguments.kerberos_keytab);
    if arguments.kerberos || principal.is_some() || keytab.is_some() {
        let source = TicketSource::from_arguments(principal.as_ref(), keytab.as_ref());
        return Ok(Some(SaslUser::Ticket(source)));
    }
    if properties.flag("zookeeper.sasl.client") == Some(false) {
        return Ok(None);
    }
    let section = properties.get(LOGIN_SECTION);
    let Some(file) = properties.get(LOGIN_FILE) else {
        return match section {
            Some(_) => Err(properties.error(LOGIN_SECTION, format!("needs a file in {LOGIN_FILE}"))),
            None => Ok(None),
        };
    };
    // Java drops a leading =, and takes the URL of a file.
    let file = file.strip_prefix('=').unwrap_or(file);
    let file = file.strip_prefix("file://").or_else(|| file.strip_prefix("file:")).unwrap_or(file);
    Ok(Some(SaslUser::Login {
        file: file.into(),
        section: section.unwrap_or("Client").to_owned(),
        is_section_required: section.is_some(),
    }))
}

fn largest_answer(properties: &ClientProperties) -> Result<Option<usize>, ProtectionError> {
    let key = "jute.maxbuffer";
    let Some(text) = properties.get(key) else { return Ok(None) };
    // Java takes hexadecimal numbers too.
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => usize::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number.map(Some).ok_or_else(|| properties.error(key, format!("is not a number: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(pairs: &[(&str, &str)]) -> ClientProperties {
        let mut properties = ClientProperties::default();
        pairs.iter().for_each(|(key, value)| properties.insert(key, value, "f, line 1"));
        properties
    }

    fn read(pairs: &[(&str, &str)]) -> Result<ProtectionSettings, ProtectionError> {
        decide(&ProtectionArguments::default(), &properties(pairs), None, false)
    }

    #[test]
    fn nothing_asked_is_plain() {
        let settings = read(&[("zookeeper.client.secure", "false"), ("jute.maxbuffer", "0x100000")]).unwrap();
        assert!(settings.tls.is_none() && settings.sasl.is_none());
        assert_eq!(settings.largest_answer, Some(1 << 20));
    }

    #[test]
    fn the_java_client_s_properties() {
        let settings = read(&[
            ("zookeeper.client.secure", "TRUE"),
            ("zookeeper.ssl.trustStore.location", "t.jks"),
            ("zookeeper.ssl.trustStore.password", "a"),
            ("zookeeper.ssl.trustStore.passwordPath", "p"),
            ("zookeeper.ssl.keyStore.location", "k.p12"),
            ("zookeeper.ssl.keyStore.type", "pkcs12"),
            ("zookeeper.ssl.protocol", "TLSv1.2"),
            ("zookeeper.ssl.hostnameVerification", "false"),
            ("java.security.auth.login.config", "=/etc/jaas.conf"),
        ]);
        let settings = settings.unwrap();
        let tls = settings.tls.unwrap();
        assert!(matches!(tls.trusted, Some((_, PasswordSource::File(_)))));
        assert!(!tls.verifies_names && tls.protocols.as_deref() == Some("TLSv1.2"));
        assert_eq!(tls.identity.unwrap().certificate, PathBuf::from("k.p12"));
        let Some(SaslUser::Login { file, section, is_section_required }) = settings.sasl else { panic!() };
        assert_eq!((file, section.as_str()), (PathBuf::from("/etc/jaas.conf"), "Client"));
        assert!(!is_section_required);
    }

    #[test]
    fn arguments_imply_tls_and_win() {
        let arguments = ProtectionArguments {
            tls_ca: Some("ca.pem".into()),
            sasl_user: Some("bob".to_owned()),
            ..ProtectionArguments::default()
        };
        let properties = properties(&[("zookeeper.ssl.trustStore.location", "t.jks")]);
        let error = decide(&arguments, &properties, None, false).unwrap_err().to_string();
        assert!(error.contains("ZEBU_SASL_PASSWORD"), "{error}");
        let settings = decide(&arguments, &properties, Some("secret".to_owned()), false).unwrap();
        assert_eq!(settings.tls.as_ref().unwrap().trusted.as_ref().unwrap().0, PathBuf::from("ca.pem"));
        assert!(!format!("{settings:?}").contains("secret"));
    }

    #[test]
    fn protection_that_is_not_there_is_refused() {
        for (key, value, word) in [
            ("zookeeper.ssl.ocsp", "true", "OCSP"),
            ("zookeeper.ssl.context.supplier.class", "a.B", "class"),
            ("zookeeper.ssl.trustStore.type", "BCFKS", "BCFKS"),
            ("zookeeper.ssl.trustStore.type", "XYZ", "none of"),
            ("zookeeper.sasl.clientconfig", "Other", "java.security.auth.login.config"),
            ("jute.maxbuffer", "many", "many"),
        ] {
            let pairs = [
                ("zookeeper.client.secure", "true"),
                ("zookeeper.ssl.trustStore.location", "t"),
                (key, value),
            ];
            let error = read(&pairs).unwrap_err().to_string();
            assert!(error.starts_with("f, line 1: ") && error.contains(word), "{error}");
        }
    }
}
