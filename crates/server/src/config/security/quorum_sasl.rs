//! SASL between servers (`quorum.auth.*`): the rules between the keys, and the two logins of the JAAS file.
//! Both logins are of one kind, DIGEST-MD5 or Kerberos.

use std::sync::Arc;

use zebu_security::jaas::{DigestLogin, JaasFile, JaasLogin, KerberosLogin};
use zebu_security::sasl::digest_md5::DigestUsers;
use zebu_security::secret::SecretText;

use super::super::diagnostics::SettingOrigin;
use super::super::load::SystemAccess;
use super::super::setting_reader::SettingReader;
use super::kerberos_login::{self, KerberosAcceptor, KerberosDialer};
use super::kerberos_realm::default_realm;
use super::login_file::{LOGIN_FILE_KEY, LoginFile};

const ENABLE: &str = "quorum.auth.enableSasl";
const LEARNER_REQUIRES: &str = "quorum.auth.learnerRequireSasl";
const SERVER_REQUIRES: &str = "quorum.auth.serverRequireSasl";
const LEARNER_SECTION: &str = "quorum.auth.learner.saslLoginContext";
const SERVER_SECTION: &str = "quorum.auth.server.saslLoginContext";
const SERVICE_PRINCIPAL: &str = "quorum.auth.kerberos.servicePrincipal";
const SERVICE_PRINCIPAL_DEFAULT: &str = "zkquorum/localhost";

/// SASL between servers.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum QuorumSaslConfig {
    /// Neither side authenticates.
    #[default]
    Off,
    /// The acceptor takes part in exchanges.
    On(QuorumSasl),
}

/// The values of SASL between servers.
#[derive(Debug, Clone)]
pub struct QuorumSasl {
    /// `serverRequireSasl`: a peer that does not authenticate itself is refused.
    pub required: bool,
    /// `learnerRequireSasl`: this server authenticates itself where it dials.
    pub dialer_authenticates: bool,
    /// Users and passwords.
    pub logins: Arc<QuorumLogins>,
}

/// The logins of both sides.
#[derive(Debug)]
pub enum QuorumLogins {
    /// DIGEST-MD5.
    Digest(QuorumDigest),
    /// GSSAPI.
    Kerberos(QuorumKerberos),
}

/// Kerberos logins of both sides.
#[derive(Debug)]
pub struct QuorumKerberos {
    /// The service principal of this server (section `QuorumServer`).
    pub acceptor: KerberosAcceptor,
    /// The own principal where this server dials (section `QuorumLearner`).
    pub dialer: KerberosDialer,
    /// `quorum.auth.kerberos.servicePrincipal`: the principal of a dialed server, perhaps with `_HOST`.
    pub service_principal: String,
}

/// Users of DIGEST-MD5 for both sides.
#[derive(Debug)]
pub struct QuorumDigest {
    /// The users that may connect (section `QuorumServer`).
    pub users: Arc<DigestUsers>,
    /// The own user (section `QuorumLearner`).
    pub user: String,
    /// The own password.
    pub password: SecretText,
}

/// Secrets are not compared; two configurations are equal if they share the logins.
impl PartialEq for QuorumSasl {
    fn eq(&self, other: &QuorumSasl) -> bool {
        self.required == other.required
            && self.dialer_authenticates == other.dialer_authenticates
            && Arc::ptr_eq(&self.logins, &other.logins)
    }
}

pub(super) fn read_quorum_sasl(
    reader: &mut SettingReader<'_>,
    system: &dyn SystemAccess,
    file: Option<&LoginFile>,
) -> QuorumSaslConfig {
    let enabled = reader.strict_switch(ENABLE, false);
    let dialer_authenticates = reader.strict_switch(LEARNER_REQUIRES, false);
    let required = reader.strict_switch(SERVER_REQUIRES, false);
    for (needed, needed_key, wanted, key) in [
        (enabled, ENABLE, dialer_authenticates, LEARNER_REQUIRES),
        (enabled, ENABLE, required, SERVER_REQUIRES),
        (dialer_authenticates, LEARNER_REQUIRES, required, SERVER_REQUIRES),
    ] {
        if wanted && !needed {
            let text = format!("{needed_key} is disabled, so cannot enable {key}; set {needed_key}=true");
            reader.diagnostics.error(&reader.origin(key), text);
        }
    }
    if !enabled {
        return QuorumSaslConfig::Off;
    }
    let Some(file) = file else {
        // A file that cannot be used has been reported.
        if reader.get(LOGIN_FILE_KEY).is_none_or(|setting| setting.value.is_empty()) {
            let text = format!(
                "{ENABLE}=true needs a JAAS file; set {LOGIN_FILE_KEY} in this file or as -D{LOGIN_FILE_KEY}=FILE"
            );
            reader.diagnostics.error(&reader.origin(ENABLE), text);
        }
        return QuorumSaslConfig::Off;
    };
    match read_logins(reader, system, file) {
        Ok(logins) => {
            let logins = Arc::new(logins);
            QuorumSaslConfig::On(QuorumSasl { required, dialer_authenticates, logins })
        }
        Err(LoginProblem { origin, text }) => {
            reader.diagnostics.error(&origin, text);
            QuorumSaslConfig::Off
        }
    }
}

/// The reason why a login cannot be made, and the setting to correct.
struct LoginProblem {
    origin: SettingOrigin,
    text: String,
}

fn read_logins(
    reader: &mut SettingReader<'_>,
    system: &dyn SystemAccess,
    file: &LoginFile,
) -> Result<QuorumLogins, LoginProblem> {
    let path = file.path.display().to_string();
    let login = |key: &str, default: &str| {
        let name = reader.get(key).map_or(default, |setting| setting.value.as_str()).to_owned();
        let origin =
            if reader.get(key).is_some() { reader.origin(key) } else { reader.origin(LOGIN_FILE_KEY) };
        let login = section_login(&path, &file.content, &name);
        login.map(|login| (name, login)).map_err(|text| LoginProblem { origin, text })
    };
    let (server_section, server) = login(SERVER_SECTION, "QuorumServer")?;
    let (learner_section, learner) = login(LEARNER_SECTION, "QuorumLearner")?;
    match (server, learner) {
        (JaasLogin::Digest(server), JaasLogin::Digest(learner)) => {
            check_fips(reader)?;
            let logins = digest_logins(&path, (&server_section, server), (&learner_section, learner));
            logins
                .map(QuorumLogins::Digest)
                .map_err(|text| LoginProblem { origin: reader.origin(LOGIN_FILE_KEY), text })
        }
        (JaasLogin::Kerberos(server), JaasLogin::Kerberos(learner)) => {
            kerberos_logins(reader, system, &path, (&server, &learner)).map(QuorumLogins::Kerberos)
        }
        (JaasLogin::Digest(_), JaasLogin::Kerberos(_)) | (JaasLogin::Kerberos(_), JaasLogin::Digest(_)) => {
            let text = format!(
                "{path}: sections {server_section} and {learner_section} need login modules of one kind, both \
                 DigestLoginModule or both Krb5LoginModule"
            );
            Err(LoginProblem { origin: reader.origin(LOGIN_FILE_KEY), text })
        }
    }
}

fn digest_logins(
    path: &str,
    (server_section, server): (&str, DigestLogin),
    (learner_section, learner): (&str, DigestLogin),
) -> Result<QuorumDigest, String> {
    if server.users.names().next().is_none() {
        return Err(format!(
            "{path}: section {server_section} names no user; add user_<name>=\"<password>\""
        ));
    }
    let Some(user) = learner.username else {
        return Err(format!("{path}: section {learner_section} has no username; add username and password"));
    };
    Ok(QuorumDigest { users: Arc::new(server.users), user, password: learner.password })
}

fn kerberos_logins(
    reader: &SettingReader<'_>,
    system: &dyn SystemAccess,
    path: &str,
    (server, learner): (&KerberosLogin, &KerberosLogin),
) -> Result<QuorumKerberos, LoginProblem> {
    let acceptor = KerberosAcceptor::read(server, default_realm(reader, system).as_deref());
    let problem = |text: String| LoginProblem {
        origin: reader.origin(LOGIN_FILE_KEY),
        text: format!("{path}: {text}"),
    };
    let acceptor = acceptor.map_err(|error| problem(error.to_string()))?;
    let configured = reader.get(SERVICE_PRINCIPAL).map(|setting| setting.value.clone());
    let service_principal =
        configured.filter(|text| !text.is_empty()).unwrap_or_else(|| SERVICE_PRINCIPAL_DEFAULT.to_owned());
    let name = service_principal.split('@').next().unwrap_or_default();
    if name.split('/').count() != 2 || name.split('/').any(str::is_empty) {
        let text = format!(
            "{SERVICE_PRINCIPAL} = \"{service_principal}\" is not of the form service/host; write zkquorum/_HOST"
        );
        return Err(LoginProblem { origin: reader.origin(SERVICE_PRINCIPAL), text });
    }
    Ok(QuorumKerberos { acceptor, dialer: KerberosDialer::read(learner), service_principal })
}

fn section_login(path: &str, file: &JaasFile, name: &str) -> Result<JaasLogin, String> {
    let Some(section) = file.section(name) else {
        let known: Vec<&str> = file.section_names().collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(format!(
            "SASL-authentication failed because the specified JAAS configuration section '{name}' could not be found. \
             {path} has these sections: {known}"
        ));
    };
    let login = section.login().map_err(|error| format!("{path}: {error}"))?;
    match (&login, kerberos_login::not_built(name)) {
        (JaasLogin::Kerberos(_), Some(text)) => Err(format!("{path}: {text}")),
        (JaasLogin::Kerberos(_) | JaasLogin::Digest(_), _) => Ok(login),
    }
}

/// DIGEST-MD5 is no FIPS algorithm. ZooKeeper 3.9.6 refuses it unless FIPS is off.
fn check_fips(reader: &mut SettingReader<'_>) -> Result<(), LoginProblem> {
    let origin = reader.origin("fips-mode");
    match reader.get("fips-mode").map(|setting| setting.value.eq_ignore_ascii_case("true")) {
        Some(true) => {
            let text = format!("fips-mode=true forbids DIGEST-MD5; set fips-mode=false, or {ENABLE}=false");
            Err(LoginProblem { origin, text })
        }
        Some(false) => Ok(()),
        None => {
            let text = format!(
                "{ENABLE}: DIGEST-MD5 is used although fips-mode is not false; servers of ZooKeeper 3.9.4 and later \
                 need fips-mode=false for it"
            );
            reader.diagnostics.warn(&reader.origin(ENABLE), text);
            Ok(())
        }
    }
}
