//! SASL for clients: the login, the ids that an exchange gives, and the treatment of failures.

use zebu_security::jaas::JaasLogin;
use zebu_security::sasl::digest_md5::DigestUsers;
use zebu_security::sasl::principal::{NamePart, PrincipalRules};
use zebu_security::secret::SecretText;

use super::super::load::SystemAccess;
use super::super::setting_reader::SettingReader;
use super::kerberos_login::{self, KerberosAcceptor};
use super::kerberos_realm::{check_required_realm, default_realm};
use super::login_file::{LOGIN_FILE_KEY, LoginFile, LoginSource, report_login_error};
use super::providers::{AuthProviders, check_providers};

const SECTION_KEY: &str = "sasl.serverconfig";
const DEFAULT_SECTION: &str = "Server";
/// The user whose password `SASLAuthenticationProvider.superPassword` replaces.
const SUPER_USER: &str = "super";

/// SASL for clients, and the providers of schemes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClientSaslConfig {
    /// The login of the server; without one every exchange is refused.
    pub login: Option<ClientLogin>,
    /// Rules from proved names to ids.
    pub rules: PrincipalRules,
    /// `superUser` and `superUser.*`.
    pub super_users: Vec<String>,
    /// `allowSaslFailedClients`.
    pub allow_failed_clients: bool,
    /// `letAnySaslUserDoX`.
    pub any_user_id: Option<String>,
    /// `authProvider.*`.
    pub providers: AuthProviders,
    /// `ensembleAuthName`.
    pub ensemble_names: Option<Vec<String>>,
}

/// The login of the server, which decides the mechanism.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientLogin {
    /// DIGEST-MD5.
    Digest(DigestUsersConfig),
    /// GSSAPI.
    Kerberos(KerberosAcceptor),
}

/// Users of DIGEST-MD5, and where they come from.
#[derive(Debug, Clone, PartialEq)]
pub struct DigestUsersConfig {
    /// The section of the users.
    pub source: LoginSource,
    /// The users at the start.
    pub users: DigestUsers,
    super_password: Option<SecretText>,
}

impl DigestUsersConfig {
    /// The users in new content of the file.
    ///
    /// # Errors
    /// The content is not usable.
    pub fn read_users(&self, content: &[u8]) -> Result<DigestUsers, String> {
        match self.source.find_section(content)?.login().map_err(|error| error.to_string())? {
            JaasLogin::Digest(login) => Ok(self.with_super_password(login.users)),
            JaasLogin::Kerberos(_) => Err("the login is a Kerberos login now; restart the server".to_owned()),
        }
    }

    fn with_super_password(&self, mut users: DigestUsers) -> DigestUsers {
        if let Some(password) = &self.super_password {
            users.replace_password(SUPER_USER, password.clone());
        }
        users
    }
}

pub(super) fn read_client_sasl(
    reader: &mut SettingReader<'_>,
    system: &dyn SystemAccess,
    file: Option<&LoginFile>,
) -> ClientSaslConfig {
    check_providers(reader);
    let providers = AuthProviders::registered(reader.settings);
    let login = read_login(reader, system, file);
    let allow_failed_clients = reader.loose_switch("allowSaslFailedClients", false);
    if allow_failed_clients {
        let text = "allowSaslFailedClients=true: clients stay connected after a failed SASL exchange";
        reader.diagnostics.warn(&reader.origin("allowSaslFailedClients"), text);
    }
    if login.is_some() && !providers.sasl {
        let text = "clients can authenticate with SASL, but ACLs of scheme sasl need \
                    authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
        reader.diagnostics.note(&reader.origin(LOGIN_FILE_KEY), text);
    }
    ClientSaslConfig {
        rules: read_rules(reader, system, login.is_some()),
        login,
        super_users: super_users(reader),
        allow_failed_clients,
        any_user_id: text_of(reader, "letAnySaslUserDoX"),
        providers,
        ensemble_names: ensemble_names(reader, providers),
    }
}

fn text_of(reader: &SettingReader<'_>, key: &str) -> Option<String> {
    reader.get(key).map(|setting| setting.value.clone()).filter(|value| !value.is_empty())
}

fn read_login(
    reader: &mut SettingReader<'_>,
    system: &dyn SystemAccess,
    file: Option<&LoginFile>,
) -> Option<ClientLogin> {
    let section = text_of(reader, SECTION_KEY).unwrap_or_else(|| DEFAULT_SECTION.to_owned());
    if reader.get(LOGIN_FILE_KEY).is_none() {
        if reader.get(SECTION_KEY).is_some() {
            let text = format!("{SECTION_KEY} names section {section}, but {LOGIN_FILE_KEY} names no file");
            reader.diagnostics.error(&reader.origin(SECTION_KEY), text);
        }
        return None;
    }
    let file = file?;
    let Some(found) = file.content.section(&section) else {
        let text = format!("{} has no section {section}: clients cannot use SASL", file.path.display());
        let origin = reader.origin(LOGIN_FILE_KEY);
        // A file for the ensemble alone is no mistake.
        match file.content.section_names().any(|name| name.starts_with("Quorum")) {
            true => reader.diagnostics.note(&origin, text),
            false => reader.diagnostics.warn(&origin, text),
        }
        return None;
    };
    match found.login() {
        Ok(JaasLogin::Digest(login)) => {
            let source = LoginSource::new(reader, &file.path, &section);
            digest_login(reader, source, login.users)
        }
        Ok(JaasLogin::Kerberos(login)) => {
            if let Some(text) = kerberos_login::not_built(&section) {
                reader.diagnostics.error(&reader.origin(LOGIN_FILE_KEY), text);
            }
            match KerberosAcceptor::read(&login, default_realm(reader, system).as_deref()) {
                Ok(acceptor) => Some(ClientLogin::Kerberos(acceptor)),
                Err(error) => {
                    report_login_error(reader, &file.path, &error);
                    None
                }
            }
        }
        Err(error) => {
            report_login_error(reader, &file.path, &error);
            None
        }
    }
}

/// `fips-mode` decides about DIGEST-MD5: unset allows it with a warning, `true` refuses every exchange.
fn digest_login(
    reader: &mut SettingReader<'_>,
    source: LoginSource,
    users: DigestUsers,
) -> Option<ClientLogin> {
    let origin = reader.origin(LOGIN_FILE_KEY);
    match reader.get("fips-mode").map(|_| reader.loose_switch("fips-mode", false)) {
        Some(true) => {
            let text = "fips-mode=true: DIGEST-MD5 is refused, clients cannot use SASL";
            reader.diagnostics.warn(&reader.origin("fips-mode"), text);
            return None;
        }
        Some(false) => {}
        None => {
            let text = "SASL uses DIGEST-MD5, which is weak; ZooKeeper 3.9.6 refuses it unless fips-mode=false, \
                        and so do Java clients since 3.9.4";
            reader.diagnostics.warn(&origin, text);
        }
    }
    let super_password = text_of(reader, "SASLAuthenticationProvider.superPassword").map(SecretText::new);
    if super_password.is_some() && !users.names().any(|user| user == SUPER_USER) {
        let text = "SASLAuthenticationProvider.superPassword has no effect: the login has no user_super";
        reader.diagnostics.warn(&reader.origin("SASLAuthenticationProvider.superPassword"), text);
    }
    let mut login = DigestUsersConfig { source, users: DigestUsers::default(), super_password };
    login.users = login.with_super_password(users);
    Some(ClientLogin::Digest(login))
}

fn read_rules(reader: &mut SettingReader<'_>, system: &dyn SystemAccess, has_login: bool) -> PrincipalRules {
    // Only this word counts, as in ZooKeeper.
    let part = |key| match reader.get(key).is_some_and(|setting| setting.value == "true") {
        true => NamePart::Remove,
        false => NamePart::Keep,
    };
    let (host, realm) = (part("kerberos.removeHostFromPrincipal"), part("kerberos.removeRealmFromPrincipal"));
    let needs_realm = has_login || reader.get("requireKerberosConfig").is_some();
    let default_realm = if needs_realm { default_realm(reader, system) } else { None };
    check_required_realm(reader, default_realm.as_deref());
    let text = text_of(reader, "security.auth_to_local").unwrap_or_else(|| "DEFAULT".to_owned());
    PrincipalRules::parse(&text, default_realm.as_deref(), host, realm).unwrap_or_else(|error| {
        reader.diagnostics.error(&reader.origin("security.auth_to_local"), error.to_string());
        PrincipalRules::default()
    })
}

fn super_users(reader: &SettingReader<'_>) -> Vec<String> {
    let is_super_user = |key: &str| key == "superUser" || key.starts_with("superUser.");
    let all = reader.settings.values.iter().filter(|(key, _)| is_super_user(key));
    all.map(|(_, setting)| setting.value.clone()).filter(|user| !user.is_empty()).collect()
}

fn ensemble_names(reader: &mut SettingReader<'_>, providers: AuthProviders) -> Option<Vec<String>> {
    let key = "ensembleAuthName";
    let names = text_of(reader, key)?;
    if !providers.ensemble {
        let text = format!(
            "{key} has no effect without \
             authProvider.1=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider"
        );
        reader.diagnostics.error(&reader.origin(key), text);
    }
    Some(names.split(',').map(|name| name.trim().to_owned()).collect())
}
