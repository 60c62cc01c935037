//! The authentication providers that `authProvider.*` registers, and the schemes that clients must use.
//!
//! `digest` and `ip` need no registration. A class that does not exist here refuses the start.

use super::super::setting_reader::SettingReader;
use super::super::sources::RawSettings;

const PROVIDER_PREFIX: &str = "authProvider.";
const PROVIDER_PACKAGE: &str = "org.apache.zookeeper.server.auth.";
const KNOWN_PROVIDERS: [&str; 5] = [
    "DigestAuthenticationProvider",
    "IPAuthenticationProvider",
    "SASLAuthenticationProvider",
    "X509AuthenticationProvider",
    "EnsembleAuthenticationProvider",
];

/// The registered providers beside `ip` and `digest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuthProviders {
    /// `sasl` in ACLs and enforcement.
    pub sasl: bool,
    /// `x509`: a line names it, or a client port has TLS.
    pub x509: bool,
    /// A line names the provider of `x509`, which Apache needs for some ports.
    pub x509_line: bool,
    /// `ensemble`.
    pub ensemble: bool,
}

impl AuthProviders {
    /// The providers of a configuration. A TLS port registers `x509` by itself.
    pub(in super::super) fn registered(settings: &RawSettings) -> AuthProviders {
        let value = |key: &str| settings.get(key).map_or("", |setting| setting.value.as_str());
        let has_tls_port = !matches!(value("secureClientPort"), "" | "0")
            || value("client.portUnification").eq_ignore_ascii_case("true");
        let is_registered =
            |class| providers(settings).any(|(_, value)| value.strip_prefix(PROVIDER_PACKAGE) == Some(class));
        let x509_line = is_registered("X509AuthenticationProvider");
        AuthProviders {
            sasl: is_registered("SASLAuthenticationProvider"),
            x509: x509_line || has_tls_port,
            x509_line,
            ensemble: is_registered("EnsembleAuthenticationProvider"),
        }
    }

    fn schemes(self, digest: bool) -> Vec<&'static str> {
        let AuthProviders { sasl, x509, x509_line: _, ensemble } = self;
        let all = [("ip", true), ("digest", digest), ("sasl", sasl), ("x509", x509), ("ensemble", ensemble)];
        all.into_iter().filter(|(_, is_registered)| *is_registered).map(|(scheme, _)| scheme).collect()
    }
}

fn providers(settings: &RawSettings) -> impl Iterator<Item = (&str, &str)> {
    let all = settings.values.iter().filter(|(key, _)| key.starts_with(PROVIDER_PREFIX));
    all.map(|(key, setting)| (key.as_str(), setting.value.as_str())).filter(|(_, value)| !value.is_empty())
}

/// Reports classes that do not exist here.
pub(super) fn check_providers(reader: &mut SettingReader<'_>) {
    for (key, class) in providers(reader.settings) {
        let is_known =
            class.strip_prefix(PROVIDER_PACKAGE).is_some_and(|class| KNOWN_PROVIDERS.contains(&class));
        if !is_known {
            let text = format!(
                "{key} = \"{class}\": this class does not exist here; known in {PROVIDER_PACKAGE}*: {}",
                KNOWN_PROVIDERS.join(", ")
            );
            reader.diagnostics.error(&reader.origin(key), text);
        }
    }
}

/// The schemes of which a connection needs one: `sessionRequireClientSASLAuth`, or else `enforce.auth.*`.
pub(in super::super) fn required_schemes(
    reader: &mut SettingReader<'_>,
    digest: bool,
) -> Option<Vec<String>> {
    let available = AuthProviders::registered(reader.settings).schemes(digest);
    // Strict, unlike other properties: a misspelt "true" must not disable authentication.
    let (key, listed) = if reader.strict_switch("sessionRequireClientSASLAuth", false) {
        ("sessionRequireClientSASLAuth", "sasl")
    } else if reader.strict_switch("enforce.auth.enabled", false) {
        let listed = reader.get("enforce.auth.schemes").map_or("", |setting| &setting.value);
        ("enforce.auth.schemes", listed)
    } else {
        return None;
    };
    let origin = reader.origin(key);
    let mut schemes = Vec::new();
    for scheme in listed.split(',').map(str::trim).filter(|scheme| !scheme.is_empty()) {
        if available.contains(&scheme) {
            schemes.push(scheme.to_owned());
        } else {
            let text = format!(
                "{key} requires authentication scheme {scheme}, which is not available; \
                 available: {}. Register its class with authProvider.1",
                available.join(", ")
            );
            reader.diagnostics.error(&origin, text);
        }
    }
    if listed.is_empty() {
        let text =
            "enforce.auth.enabled is true but enforce.auth.schemes is not set; name at least one scheme";
        reader.diagnostics.error(&origin, text);
    }
    Some(schemes).filter(|schemes| !schemes.is_empty())
}
